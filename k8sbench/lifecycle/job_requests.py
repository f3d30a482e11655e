"""Requests for jobs, in threads: create, follow, cancel and delete.

A wish is recorded before its request is sent: the answer may be lost, or the process killed.
Whoever resumes the run then sends the request again, and finds what was done already. Threads of a
pool send the requests of an executor; its own thread takes the answers.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any

import msgspec

from k8sbench import limits
from k8sbench.lifecycle.active_run import ActiveRun, PendingRequest
from k8sbench.lifecycle.context import RunContext, Until
from k8sbench.lifecycle.decide import PENDING, JobView
from k8sbench.lifecycle.outcome import Outcome, OutcomeKind
from k8sbench.lifecycle.place_gate import PlaceGate
from k8sbench.model import creation, times
from k8sbench.model.errors import (
    JOB_DENIED,
    OF_JOB_OR_PLACE,
    OF_ONE_JOB,
    BenchError,
    CreationUnknown,
    EarlierAttempt,
    NoRoom,
    OwnedElsewhere,
    StoreError,
    Unreachable,
    is_refused,
    may_pass,
)
from k8sbench.model.kube import JobIdentity
from k8sbench.model.phase import WAIT_TIMEOUT, Transition
from k8sbench.model.run import Run, Wish
from k8sbench.ports.cluster import FoundJob

NO_ANSWER = frozenset({"api-unreachable", "api-not-trusted", "unauthorized"})
"""Cause ids of errors of a cluster that answers no request at all."""
REQUESTS = 4
"""Most pending creations, and most pending deletions."""
DENIALS = 7
"""Refusals of one job after which its run fails, if the place takes others meanwhile.

With :data:`~k8sbench.limits.Limits.denied_job` they are spread over ten minutes. A webhook that
fails one call in five fails seven in a row for one job in 78,000.
"""


def create(run: Run, context: RunContext, *, wait: bool = False) -> str | None:
    """Create the job of a run's current attempt; returns its uid.

    With ``wait`` the job is marked to wait despite an unrecoverable cause. What is created is
    rendered here, once, and kept. A later attempt is created only after every object of the earlier
    one is gone: two attempts never write at once. Nothing is deleted before the new objects are
    rendered. Raises as :meth:`~k8sbench.ports.cluster.Cluster.clear` and
    :meth:`~k8sbench.ports.cluster.Cluster.create` do, and :class:`StoreError`.
    """
    cluster = context.cluster
    identity = JobIdentity(
        attempt=run.attempt,
        nonce=run.nonce,
        owner=cluster.owner,
        waits=wait,
        deadline_s=context.deadline_s,
    )
    objects = context.objects(run, identity)
    if run.restarts:
        cluster.clear(run)
    return cluster.create(run, objects, context.store.folder(run.run_id))


def job_named(run_id: str, context: RunContext) -> FoundJob | None:
    """Return the job that has a run's name; None: the cluster has none."""
    # The list may hold jobs of other runs, too.
    jobs = context.cluster.jobs([run_id])
    return next((job for job in jobs if job.run_id == run_id), None)


def may_be_job_of(job: FoundJob, run: Run) -> bool:
    """Return True if the job's uid matches the recorded one."""
    return run.job_uid_of(job.attempt) in {None, job.uid} or job.attempt > run.attempt


def delete(context: RunContext, run_id: str) -> tuple[Run, str | None]:
    """Delete the rest of a run's job, and remove the wish.

    Returns the run, and why its job stays or what its deletion waits for, else None.
    """
    run = context.store.run(run_id)
    uid, is_there, why = run.job_uid, True, None
    if uid is None and run.restarts:
        # The job of an earlier attempt, or one that somebody has created in its place, or may now.
        job = job_named(run_id, context)
        uid, is_there = (None, False) if job is None else (job.uid, may_be_job_of(job, run))
    if is_there:
        why = context.cluster.remove(run, uid=uid, force=run.is_deleted_by_name)
    if run.wish("delete") is not None:
        # What is deleted and still counts as owed is deleted again, which does no harm.
        with contextlib.suppress(StoreError):
            run = context.store.remove_wish(run_id, "delete")
    return run, why


class JobRequests:
    """The requests of one executor: queued, pending and answered."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self.pending: dict[str, ActiveRun] = {}
        """Runs with a request that has no answer, by id."""
        self.to_create: dict[str, ActiveRun] = {}
        self.to_delete: dict[str, ActiveRun] = {}
        self.gate = PlaceGate()

    # -- the queues -----------------------------------------------------------------------------

    @property
    def has_room(self) -> bool:
        """True if another creation may be queued, to be sent at once.

        Where the place refuses jobs, those that it has refused keep no other from asking.
        """
        queued = self.to_create.values()
        first = [active for active in queued if not (self.gate.refusal and active.tries)]
        return len(self._sent("create")) + len(first) < REQUESTS

    def send_queued(self) -> Iterator[ActiveRun]:
        """Send the queued requests that the limit allows; yields each run after its request."""
        for run_id in self._next_to_create():
            active = self.to_create.pop(run_id)
            self.create(active)
            yield active
        for run_id in list(self.to_delete)[: REQUESTS - len(self._sent("delete"))]:
            active = self.to_delete.pop(run_id)
            self.delete(active)
            yield active

    def _next_to_create(self) -> list[str]:
        """Return the runs whose creations are sent now.

        A place that refuses jobs is asked for one at a time, the one that was tried least.
        """
        if not self.to_create:
            return []
        pending = len(self._sent("create"))
        if not self.gate.refusal:
            return list(self.to_create)[: REQUESTS - pending]
        if pending or not self.gate.is_due(self._context.monotonic()):
            return []
        return [min(self.to_create, key=lambda run_id: self.to_create[run_id].tries)]

    def _sent(self, kind: str) -> list[Future[Any]]:
        """Return the answers that pending requests of a kind wait for."""
        sent = (active.request for active in self.pending.values())
        return [one.answer for one in sent if one is not None and one.kind == kind]

    def _send(
        self,
        active: ActiveRun,
        kind: str,
        call: Callable[[], Any],
        take: Callable[[ActiveRun, Future[Any]], Outcome | None],
    ) -> None:
        """Send a request; reading what a job has printed delays no other request."""
        if kind != "printed":
            active.view.next_at = PENDING
        answer = self._context.pool.start(call, kind)
        active.request = PendingRequest(kind=kind, answer=answer, take=partial(take, active))
        self.pending[active.run_id] = active

    def answered(self, of: Iterable[ActiveRun]) -> Iterator[tuple[ActiveRun, PendingRequest]]:
        """Take the requests from their runs that have an answer."""
        for active in of:
            request = active.request
            if request is not None and request.answer.done():
                del self.pending[active.run_id]
                active.request = None
                active.view.next_at = -math.inf
                yield active, request

    def join(self, kind: str, seconds: float | None = None) -> None:
        """Wait for the answers to all requests of a kind, or so long."""
        self._context.pool.join(self._sent(kind), seconds)

    def forget(self, active: ActiveRun) -> None:
        """Drop what a run needs only while its job is followed."""
        self.to_create.pop(active.run_id, None)
        if active.request is not None and active.request.kind == "printed":
            active.request = None
            del self.pending[active.run_id]

    # -- a job is created -----------------------------------------------------------------------

    def create(self, active: ActiveRun) -> None:
        """Create the job of the current attempt."""
        call = partial(create, active.run, self._context, wait=active.record.wait)
        self._send(active, "create", call, self._take_created)

    def _take_created(self, active: ActiveRun, answer: Future[str | None]) -> Outcome | None:
        error = answer.exception()
        now = self._context.clock()
        run = active.run
        if active.is_over:
            return None  # its end was seen before the answer came
        left_s = active.view.settles_at - self._context.monotonic()
        if isinstance(error, CreationUnknown):
            active.view.settles_at = self._context.monotonic() + limits.now.creation_settle
        if isinstance(error, BenchError) and may_pass(error) and active.is_wanted_still:
            return self._take_refusal(active, error, now)
        if error is None or isinstance(error, NoRoom):
            self.gate.take(self._context.monotonic())
        if error is None or not isinstance(error, EarlierAttempt | StoreError):
            self._open_gate(active)
        if error is None:
            self._note_created(active, answer.result(), now)
            return active.far_enough()
        if isinstance(error, NoRoom) and active.rules.until is not Until.CREATED:
            return self._create_later(active, creation.wait_for_quota(error, now))
        is_of_store = isinstance(error, StoreError) and active.is_wanted_still
        if not (run.restarts or is_of_store):
            return active.refuse(creation.error_or_unknown(run, error, left_s=left_s))
        if isinstance(error, StoreError) or not isinstance(error, BenchError):
            raise error
        is_unknown = isinstance(error, CreationUnknown)
        is_away = isinstance(error, Unreachable) and not is_refused(error)
        may_come = is_unknown or (left_s > 0.0 and not isinstance(error, EarlierAttempt))
        outcome = None
        if isinstance(error, OwnedElsewhere) or (is_unknown and creation.is_known_created(run)):
            active.view.job = JobView.UNWATCHED
        elif isinstance(error, EarlierAttempt) or is_away or may_come:
            outcome = self._create_later(active, creation.attempt_waits(run, error, now))
            if may_come:
                active.view.job = JobView.UNWATCHED  # it may be there: it is looked for first
        else:
            active.end(creation.attempt_refused(run, error, now))
        return outcome

    def _take_refusal(self, active: ActiveRun, error: BenchError, now: float) -> Outcome | None:
        """Take a refusal that may pass of a Benchmark object's job.

        The place shows whose it is. If it takes another job while it refuses this one, the refusal
        is this job's: it is tried a few times more, and holds up no other. Otherwise all jobs wait
        until the place takes one.
        """
        at = self._context.monotonic()
        takes_others = active.refused_at < self.gate.took_at and not self.gate.refusal
        active.refused_at = min(active.refused_at, at)
        is_of_job = error.cause_id in (OF_JOB_OR_PLACE if takes_others else OF_ONE_JOB)
        if is_of_job:
            if error.cause_id == JOB_DENIED:
                self._open_gate(active)  # it takes the plainest job of this kind
            active.denials += 1
            if active.denials == DENIALS:
                return self._deny(active, error, now)
            pause = limits.now.denied_job * 2.0 ** (active.denials - 1)
            active.view.next_at = at + pause
        elif self.gate.close(error, at):
            active.reporter.note(f"warning: no job can be created for now: {error}")
        self._wait_for_creation(active, error, now, is_of_job=is_of_job)
        return None

    def _deny(self, active: ActiveRun, error: BenchError, now: float) -> Outcome | None:
        """End the run of a job that its place does not take."""
        run = active.run
        if run.restarts:
            active.end(creation.attempt_refused(run, error, now))
            return None
        active.move(creation.job_denied(run.run_id, error, now))
        return active.outcome(OutcomeKind.REFUSED, error)

    def _wait_for_creation(
        self, active: ActiveRun, error: BenchError, now: float, *, is_of_job: bool
    ) -> None:
        """Keep a run without a job until its creation is tried again."""
        run = active.run
        active.tries += 1
        is_unknown = isinstance(error, CreationUnknown)
        active.view.job = JobView.UNWATCHED if is_unknown else JobView.NOT_ASKED
        if is_unknown and creation.is_known_created(run):
            return
        if run.restarts:
            why = creation.attempt_waits(run, error, now)
        elif isinstance(error, CreationUnknown):
            why = creation.creation_unknown(error, now)
        else:
            why = creation.wait_for_place(error, now, is_of_job=is_of_job)
        if is_unknown or run.history[-1].cause != why.cause:
            active.move(why)
            active.report(why)

    def _open_gate(self, active: ActiveRun) -> None:
        """Note that the place takes jobs again, if it did not."""
        if self.gate.refusal:
            self.gate.open()
            active.reporter.note("jobs can be created again")

    def _note_created(self, active: ActiveRun, uid: str | None, now: float) -> None:
        if not active.is_watched:
            active.view.job = JobView.WATCHED
        run = active.run
        if active.record.survives and not creation.is_known_created(run):
            active.move(creation.job_created(now, uid))
        elif uid is not None and run.job_uid is None:
            # Its state was reported before the answer came: the same again, with the uid.
            active.move(msgspec.structs.replace(run.history[-1], job_uid=uid))

    def _create_later(self, active: ActiveRun, why: Transition) -> Outcome | None:
        active.view.job = JobView.NOT_ASKED
        active.try_later()
        if active.run.history[-1].cause != why.cause:
            active.move(why)
            active.report(why)
        return active.far_enough()

    # -- a job is followed ----------------------------------------------------------------------

    def follow(self, active: ActiveRun) -> Outcome | None:
        """Follow a resumed run's job, or look for it again."""
        run, store, cluster = active.run, self._context.store, self._context.cluster
        if creation.is_restarting(run):
            try:
                job = job_named(run.run_id, self._context)
            except Unreachable:
                if not active.is_restarted:
                    raise
                active.try_later()
                return None
            if job is None or job.attempt < run.attempt:
                active.begin_attempt()  # whoever asked for it was killed
                return None
            active.move(creation.job_created(self._context.clock()))
        cluster.resume(active.run, store.log_marks(run.run_id))
        active.view.job = JobView.WATCHED
        active.view.next_at = -math.inf
        if active.view.read_by > -math.inf:
            self._send(active, "printed", partial(self._printed, run), self._take_printed)
        return active.far_enough()

    def _printed(self, run: Run) -> Mapping[str, float]:
        """Return the time stamp of each replica's last line, Unix seconds.

        A server that serves a log may be silent for as long as it likes.
        """
        return {line.replica: line.at for line in self._context.cluster.printed(run)}

    def _take_printed(self, active: ActiveRun, answer: Future[Mapping[str, float]]) -> None:
        try:
            printed = answer.result()
        except BenchError as error:
            if error.cause_id in NO_ANSWER and active.rules.only_cancels:
                raise  # who asked for its end waits for that alone
            active.unread = None
            _note_unread(active, str(error))
        else:
            marks = self._context.store.log_marks(active.run_id)
            read = {replica: mark.at for replica, mark in marks.items()}
            active.unread = {name: at for name, at in printed.items() if read.get(name, 0.0) < at}
        active.see_what_is_read()

    # -- a job is ended -------------------------------------------------------------------------

    def cancel(self, active: ActiveRun, cause: str, cause_id: str) -> None:
        """Cancel a job; a run without a job ends at once."""
        run_id = active.run_id
        now = self._context.clock()
        store = self._context.store
        if active.request is not None:  # it is still being read
            seconds = times.duration(limits.now.read_before_cancel)
            _note_unread(active, f"that takes longer than {seconds}.")
        if active.record.wish is None:
            wish = Wish(kind="cancel", at=now, cause=cause, cause_id=cause_id)
            active.record.wish, active.record.is_own_wish = wish, True
            if active.record.survives:
                # Where it cannot be recorded the job is to end all the more.
                with contextlib.suppress(StoreError):
                    store.wish(run_id, wish)
        if active.view.job is not JobView.NOT_ASKED:
            asked_at = self._context.monotonic()
            active.view.asked_to_end_at = min(asked_at, active.view.asked_to_end_at)
            # Of a job that has not begun there is nothing to keep, and its queue would resume it.
            keep = active.record.keep and cause_id != WAIT_TIMEOUT
            call = partial(self._context.cluster.cancel, run_id, cause, cause_id, keep=keep)
            self._send(active, "cancel", call, self._take_cancelled)

    def _take_cancelled(self, active: ActiveRun, answer: Future[None]) -> None:
        """Take the answer; if the cluster rejects the request, the job goes on."""
        error = answer.exception()
        if error is None:
            active.view.is_end_answered = True
        elif not isinstance(error, BenchError):
            raise error
        elif active.is_over:
            return
        elif isinstance(error, OwnedElsewhere):
            self._context.cluster.release(active.run_id)
            active.view.job = JobView.UNWATCHED
            active.view.asked_to_end_at = math.inf
        elif not is_refused(error) or active.is_wanted_still:
            if active.tries == 0:
                _note_refusal(active, error)
            active.try_later()
        elif active.record.is_own_wish:
            active.view.is_end_answered = True
            _note_refusal(active, error)
        else:
            active.record.wish = None
            active.view.asked_to_end_at = math.inf
            with contextlib.suppress(StoreError):
                self._context.store.remove_wish(active.run_id, "cancel")
            if active.rules.only_cancels:
                raise error
            _note_refusal(active, error)

    def delete(self, active: ActiveRun) -> None:
        """Delete the rest of a finished run's job."""
        call = partial(delete, self._context, active.run_id)
        self._send(active, "delete", call, self._take_deleted)

    def _take_deleted(self, active: ActiveRun, answer: Future[tuple[Run, str | None]]) -> Outcome:
        run_id, note = active.run_id, active.reporter.note
        try:
            run, why = answer.result()
        except BenchError as error:
            note(
                f"warning: what is left of {run_id} on the cluster stays there: {error}"
                f" Then: k8sbench delete {run_id}"
            )
        else:
            active.record.run = run
            active.view.deletes = False
            if why is not None:
                note(f"{run_id} stays on the cluster: {why}")
        return active.outcome(OutcomeKind.CLOSED)


def _note_unread(active: ActiveRun, why: str) -> None:
    text = f"warning: what {active.run_id} has printed cannot all be read: {why}"
    active.reporter.note(text)


def _note_refusal(active: ActiveRun, error: BenchError) -> None:
    active.reporter.note(f"warning: run {active.run_id} could not be cancelled: {error}")
