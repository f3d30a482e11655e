"""A run that an executor works on: its record, the view of its job, and its logs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import msgspec

from k8sbench import limits
from k8sbench.lifecycle import decide, run_artifacts
from k8sbench.lifecycle.context import RunScope, Until
from k8sbench.lifecycle.decide import JobView, RecordedRun, View, is_final
from k8sbench.lifecycle.outcome import Outcome, OutcomeKind
from k8sbench.lifecycle.run_artifacts import GAPS, NODES
from k8sbench.model import creation, times
from k8sbench.model.phase import Phase, Transition
from k8sbench.model.run import Run, Wish, left_over
from k8sbench.ports.cluster import JobEvent
from k8sbench.store.interface import LogArchive

ABSENT_SECONDS = 5.0
"""Interval between looks for a job that may still appear."""
AGAIN_SECONDS = 2.0
"""First retry interval of a failed request; it doubles with each retry."""
LONGEST_AGAIN = 30.0


class PendingRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request for a run's job that has no answer yet."""

    kind: str
    """``create``, ``printed``, ``cancel`` or ``delete``."""
    answer: Future[Any]
    take: Callable[[Future[Any]], Outcome | None]
    """Takes the answer, on the executor's thread."""


class ActiveRun:
    """A run that is not closed.

    The executor's work on the run ends with an outcome that a method returns.
    """

    def __init__(
        self,
        run: Run,
        view: View,
        here: RunScope,
        *,
        wish: Wish | None = None,
        archive: LogArchive | None = None,
    ) -> None:
        self.context, self.reporter, self.rules = here
        rules, survives = self.rules, self.context.cluster.jobs_outlive_us
        self.record = RecordedRun(
            run=run, wish=wish, keep=rules.keep, wait=rules.wait, survives=survives
        )
        self.view = view
        self.archive = archive
        """Archive of the logs; None if the run was over when it was resumed."""
        self.is_over = False
        """True if the run's end is recorded; measurement and deletion may follow."""
        self.is_restarted = False
        """True if this process creates its job again, or did."""
        self.gaps = run_artifacts.read_gaps(self.context.store, run.run_id)
        self.images: set[str] = set()
        self.unread: dict[str, float] | None = {}
        """Time stamps to archive before cancelling, Unix seconds, by replica.

        None: unknown; the job is cancelled once its state is reported.
        """
        self.tries = 0
        """Failed creations, or looks for the job, in a row."""
        self.denials = 0
        """Refusals of this job at a place that takes others."""
        self.refused_at = math.inf
        """Time of the first refused creation, monotonic seconds; infinite before it."""
        self.request: PendingRequest | None = None

    @classmethod
    def resumed(cls, run: Run, here: RunScope) -> ActiveRun:
        """Resume a run that may have a job."""
        context = here[0]
        run_id = run.run_id
        store = context.store
        if creation.is_restarting(run):
            # Who recorded it may have been killed before this, and another store have gone on.
            store.begin_attempt(run_id)
        wish = run.wish("cancel")
        now = context.monotonic()
        view = View(
            job=JobView.UNWATCHED,
            settles_at=now + limits.now.creation_settle,
            reported_at=math.inf,
            read_by=-math.inf if wish is None else now + limits.now.read_before_cancel,
        )
        return cls(run, view, here, wish=wish, archive=store.archive(run_id))

    @classmethod
    def ended(cls, run: Run, here: RunScope) -> ActiveRun:
        """Make an active run of one that is over.

        It is measured, or its job deleted, if another process left that undone.
        """
        context, _, rules = here
        if rules.keep and run.wishes and not run.is_deleted_by_name:
            run = context.store.remove_wish(run.run_id, "delete")
        view = View(job=JobView.ENDED, end=run.history[-1], deletes=run.wishes != ())
        return cls(run, view, here)

    @property
    def run(self) -> Run:
        """The run as it is on record."""
        return self.record.run

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.record.run.run_id

    @property
    def is_watched(self) -> bool:
        """True if the cluster reports on the job."""
        return self.view.job in {JobView.WATCHED, JobView.REPORTED}

    @property
    def is_wanted_still(self) -> bool:
        """True if its job is created again where it is missing: a Benchmark object wants it."""
        return self.rules.serves and self.run.plan.is_asked_of_operator

    def follow_by(self, *, keep: bool, wait: bool) -> bool:
        """Set rules of its own, in place of the executor's; True if they change."""
        record = self.record
        is_changed = (record.keep, record.wait) != (keep, wait)
        record.keep, record.wait = keep, wait
        return is_changed

    def outcome(self, how: OutcomeKind, error: BaseException | None = None) -> Outcome:
        """Return the run's outcome."""
        return Outcome(self.run, how, error)

    # -- what is recorded -----------------------------------------------------------------------

    def move(self, transition: Transition) -> None:
        """Record a transition."""
        self.record.run = self.context.store.move(self.run_id, transition)

    def report(self, transition: Transition) -> None:
        """Tell the user of a recorded transition."""
        event = JobEvent(run_id=self.run_id, transition=transition)
        self.reporter.on_event(self.run, event)

    def end(self, final: Transition) -> None:
        """Record the end of the run, and stop following a job that goes on."""
        if self.is_watched:
            self.context.cluster.release(self.run_id)
        # The cluster may still have the lines that are missing.
        is_wanted = self.record.wish is None or self.record.is_own_wish
        stays = self.gaps != [] and final.phase is Phase.SUCCEEDED and is_wanted
        deletes = not (stays or self.record.keep)
        self.view.deletes = deletes and not self.view.taken_by
        self.record_end(final)
        if stays and not self.record.keep:
            why = f"its logs are not whole. To delete it: k8sbench delete {self.run_id}"
            self.reporter.note(f"{self.run_id} stays on the cluster: {why}")

    def record_end(self, end: Transition) -> None:
        """Record the end of the run, or that its logs cannot be read now."""
        # A process that is killed from here on leaves a run that is known to have a job.
        deletes = self.view.deletes and self.record.survives
        owes = left_over(end.at) if deletes else None
        image = next(iter(self.images)) if len(self.images) == 1 else None
        run = self.context.store.move(self.run_id, end, owes=owes, image=image)
        self.record.run = run
        self.is_over = True
        self.report(end)

    def try_later(self) -> None:
        """Delay the next request, twice as long after each failure."""
        pause = min(AGAIN_SECONDS * 2.0 ** min(self.tries, 10), LONGEST_AGAIN)
        self.tries += 1
        self.view.next_at = self.context.monotonic() + pause

    def refuse(self, error: BaseException) -> Outcome:
        """Record that the job was not created, or perhaps not.

        A restarted run already has that on record.
        """
        if not self.run.restarts:
            survives = self.record.survives
            now = self.context.clock()
            self.move(creation.first_creation_failed(self.run_id, error, now, survives=survives))
        return self.outcome(OutcomeKind.REFUSED, error)

    def far_enough(self) -> Outcome | None:
        """Return the outcome if the run stops at the new job."""
        is_restarted = self.is_restarted and self.rules.until is Until.LOOKED_AT
        if not is_restarted and self.rules.until is not Until.CREATED:
            return None
        self.context.cluster.release(self.run_id)
        return self.outcome(OutcomeKind.LEFT if is_restarted else OutcomeKind.CREATED)

    def restart(self) -> None:
        """Record that another attempt follows, and begin it."""
        assert self.view.end is not None
        end = decide.known_end(self.record, self.view.end)
        again = creation.attempt_restarts(self.run.plan, self.run.attempt, end.cause, end.at)
        self.move(again)
        self.context.store.begin_attempt(self.run_id)
        self.report(again)
        self.view.settles_at = -math.inf
        self.begin_attempt()

    def begin_attempt(self) -> None:
        """Queue the creation of the next attempt; its log archive is empty."""
        self.is_restarted = True
        self._count_anew()
        self.view = View(
            job=JobView.NOT_ASKED,
            settles_at=self.view.settles_at,
            reported_at=self.context.monotonic(),
        )

    # -- what the cluster reports ---------------------------------------------------------------

    def take_lines(self, replica: str, events: Sequence[JobEvent]) -> None:
        """Archive lines of one replica's log."""
        assert self.archive is not None
        lines = [event.line for event in events if event.line is not None]
        self.archive.write(*lines)
        if self.unread and lines[-1].at >= self.unread.get(replica, math.inf):
            del self.unread[replica]
        self.see_what_is_read()
        for event in events:
            self.reporter.on_event(self.run, event)

    def see_what_is_read(self) -> None:
        """Note if the logs to read before the cancellation are archived."""
        if self.view.read_by == -math.inf or self.request is not None:
            return
        is_reported = self.view.job is JobView.REPORTED
        if is_reported if self.unread is None else not self.unread:
            self.view.read_by = -math.inf

    def take_event(self, event: JobEvent) -> Outcome | None:
        """Take in an event other than a line."""
        store, step = self.context.store, event.transition
        if event.replica is not None or step is not None:
            if self.view.reported_at == math.inf:
                self.view.reported_at = self.context.monotonic()
            # Replicas are reported of a job that is still to be created, too. What was read before
            # the job was released says nothing of the next watch.
            job = self.view.job
            if job is not JobView.UNWATCHED and (step is not None or job is not JobView.NOT_ASKED):
                self.view.job = JobView.REPORTED
            self.see_what_is_read()
        if event.replica is not None and event.replica.image is not None:
            self.images = {*self.images, event.replica.image}
        elif event.gap is not None:
            self.gaps = [*self.gaps, event.gap]
            run_artifacts.keep_value(store, event.run_id, GAPS, self.gaps)
        elif event.nodes is not None:
            run_artifacts.keep_value(store, event.run_id, NODES, event.nodes)
            return None
        elif step is not None and is_final(step):
            return self._take_end(step)
        elif step is not None:
            self.move(step)
        self.reporter.on_event(self.run, event)
        return None

    def _take_end(self, end: Transition) -> Outcome | None:
        """Handle the end of the job, its absence, or unreadable logs."""
        run = self.run
        now = self.context.now()
        if not end.phase.final:
            self.view.job = JobView.UNREADABLE
            self.record_end(end)
            return None
        if end.cause_id == creation.JOB_GONE and not creation.is_known_created(run):
            left_s = self.view.settles_at - now.monotonic
            missing = creation.job_missing(run, now.at, left_s=left_s)
            if missing is None or not missing.phase.final:
                self._look_again(missing, left_s)
                return None
        may_go_on = end.phase is Phase.LOST or decide.is_restarted(self.record, end, now)
        if self.record.wish is None and may_go_on:
            # Another process of the store may have ended it, or recorded that it is to end.
            self.record.wish = self.context.store.run(run.run_id).wish("cancel")
        is_missing = end.cause_id == creation.JOB_GONE and not creation.is_known_created(run)
        if is_missing and self.is_wanted_still and self.record.wish is None:
            self._create_again()
            return None
        self.view.job, self.view.end = JobView.ENDED, end
        return None

    def _create_again(self) -> None:
        """Record that the missing job is asked for once more, and queue its creation."""
        now = self.context.now()
        self.move(creation.job_created_again(now.at))
        self.report(self.run.history[-1])
        self._count_anew()
        self.view = View(job=JobView.NOT_ASKED, reported_at=now.monotonic)

    def _count_anew(self) -> None:
        """Forget the creations that were tried."""
        self.tries = self.denials = 0
        self.refused_at = math.inf

    def _look_again(self, missing: Transition | None, left_s: float) -> None:
        """Schedule another look for a missing job that may still appear."""
        if missing is not None:
            self.move(missing)
        if self.tries == 0:
            self.reporter.note(
                f"The cluster has no job {self.run_id}. It is looked for another"
                f" {times.duration(left_s)}: a request for it may still be on its way."
            )
        self.tries += 1
        self.view.job = JobView.MISSING
        self.view.next_at = self.context.monotonic() + min(left_s, ABSENT_SECONDS)
        self.view.asked_to_end_at, self.view.is_end_answered = math.inf, False
