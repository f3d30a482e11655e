"""Collecting jobs of a cluster: after a detach, an interrupt, a crash, or on another machine.

Idempotent: a run that is closed stays as it is, one that another process follows is left to it, and
logs go on where their archive ends. A run whose files cannot be read or written is reported and
passed over.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import msgspec

from k8sbench.model import attempts, creation, times
from k8sbench.model.errors import BenchError, RepeatTaken, StoreError, Unreachable, UsageError
from k8sbench.model.identity import case_key
from k8sbench.model.phase import Phase
from k8sbench.model.run import Location, Run
from k8sbench.ports import Cluster, FoundJob, RunFilter
from k8sbench.runs import gathering as gpu_metrics
from k8sbench.runs import records, watching, wishes
from k8sbench.runs.context import Reporter, RunContext, Stop
from k8sbench.runs.following import LOOK_SECONDS, Following
from k8sbench.runs.gathering import Gathering
from k8sbench.runs.open_run import kept_gaps
from k8sbench.runs.removals import remove

READ_SECONDS = 60.0
"""For what a run has printed to be archived before it is cancelled; the rest is read as it goes."""
END_SECONDS = 240.0
"""For a job to end that is cancelled by command, after what it has printed is archived."""
RETRY_SECONDS = 15.0
"""After which a run that could not be collected is tried again; twice as long each time."""
LONGEST_RETRY = 300.0

OWED_SECONDS = 3 * 86_400.0
"""How old a run may be whose GPU metrics are still fetched: sources keep them for some days."""


class CollectResult(msgspec.Struct, kw_only=True):
    """What :func:`collect` did with each run."""

    closed: list[Run] = []
    going_on: list[Run] = []
    """Not over yet, and left alone."""
    followed: list[Run] = []
    """Left to the other process that follows them."""
    failed: dict[str, BenchError] = {}
    """Passed over, by run id."""

    def add(self, other: CollectResult) -> None:
        """Take in what was done with other runs."""
        self.closed += other.closed
        self.going_on += other.going_on
        self.followed += other.followed
        self.failed |= other.failed


def needs_collection(run: Run) -> bool:
    """Whether something of a run on a cluster is still to be fetched, measured or deleted."""
    return run.plan.backend == "kubernetes" and (not watching.is_closed(run) or run.wishes != ())


def recorded(job: FoundJob, context: RunContext, *, renumber: bool = False) -> Run:
    """Record a job of the cluster as a run of this store.

    With ``renumber`` it gets the next repeat where the store has another run by its number.
    """
    plan = job.plan
    try:
        run = context.store.record(plan, at=job.created_at, owner=None, location=context.location)
        while run.attempt < job.attempt:
            again = attempts.elsewhere(plan, run.attempt, job.created_at)
            run = context.store.move(plan.run_id, again)
        return context.store.move(plan.run_id, creation.created(job.created_at))
    except RepeatTaken as wrong:
        if renumber:
            repeat = context.store.next_repeat(plan.set_name, case_key(plan))
            plan = msgspec.structs.replace(plan, repeat=repeat)
            return recorded(msgspec.structs.replace(job, known_plan=plan), context)
        raise UsageError(
            f"The cluster has run {plan.run_id}, repeat {plan.repeat} of {case_key(plan)} in set"
            f" {plan.set_name}; this store has another run by that number.",
            f"Collect it into a store of its own: k8sbench collect {plan.run_id} --store FOLDER",
        ) from wrong
    except UsageError:
        if plan.run_id not in context.store.ids():
            raise
        # Another process of this store has recorded it just now.
        return context.store.run(plan.run_id)


def open_runs(context: RunContext, here: Collection[str] = ()) -> list[Run]:
    """The store's runs at this place of a cluster that need collection, oldest first.

    ``here`` are runs whose jobs were found there: they may be recorded under another URL of it.
    """
    return [
        run
        for run in context.store.runs(RunFilter(unfinished=True))
        if needs_collection(run)
        and (same_place(run.location, context.location) or run.run_id in here)
    ]


def owed_runs(context: RunContext) -> list[Run]:
    """The store's closed runs at this place of a cluster whose GPU metrics are still to come."""
    since = context.clock() - OWED_SECONDS
    return [
        run
        for run in context.store.runs(RunFilter(since=since, phase=Phase.SUCCEEDED))
        if gpu_metrics.is_owed(run)
        and not needs_collection(run)
        and same_place(run.location, context.location)
    ]


def remove_abandoned(
    jobs: Sequence[FoundJob], context: RunContext, note: Callable[[str], None]
) -> None:
    """Delete jobs that this store left to others who never came: their marks have expired."""
    for job in jobs:
        run_id = job.run_id
        if job.is_abandoned and not needs_collection(context.store.run(run_id)):
            try:
                context.cluster.remove(run_id)
            except BenchError as wrong:
                note(f"warning: what is left of {run_id} on the cluster stays there: {wrong}")
            else:
                note(f"{run_id} is deleted from the cluster: no store needs it any more.")


def same_place(one: Location | None, other: Location | None) -> bool:
    """Whether both are the same namespace, reached by the same URL."""
    return (
        one is not None
        and other is not None
        and (one.server, one.namespace) == (other.server, other.namespace)
    )


def check_place(run: Run, cluster: Cluster, here: Location | None) -> None:
    """Check that a run is where it is about to be resumed.

    A job that is looked for in the wrong place is not lost. One place may have several URLs, so
    that at another one than the recorded the job itself is asked for. Raises :class:`UsageError`.
    """
    there = run.location
    if there is None or here is None or same_place(there, here) or cluster.look(run):
        return
    raise UsageError(
        f"Run {run.run_id} was submitted to namespace {there.namespace} of {there.server}; there is"
        f" no such job in namespace {here.namespace} of {here.server}.",
        "Name its own place with -n, --context or --kubeconfig.",
    )


def collect(
    runs: Sequence[Run],
    context: RunContext,
    reporter: Reporter,
    stop: Stop,
    *,
    follow: bool,
    keep: bool = False,
    wait: bool = False,
    gathering: Gathering | None = None,
) -> CollectResult:
    """Close the runs whose jobs are over; with ``follow`` also wait for the others.

    Those that are to be cancelled are cancelled, and what is left of others is deleted. Asked to
    stop it returns early, with the runs that go on.
    """
    on_their_way: set[str] = set()
    missing: set[str] = set()
    if not follow:
        # A job that is gone is over, too: what is left of it is on record.
        asked = {run.run_id for run in runs if not (run.phase.final or run.wish("cancel"))}
        jobs = context.cluster.jobs(sorted(asked))
        attempts_of = {run.run_id: run.attempt for run in runs}
        on_their_way = {
            job.run_id
            for job in jobs
            if job.run_id in asked
            and not job.phase.final
            and job.attempt >= attempts_of[job.run_id]
        }
        missing = asked - {job.run_id for job in jobs}
    gathering = gathering or Gathering(context, reporter)
    with Collecting(
        context, reporter, gathering, keep=keep, wait=wait, once=not follow
    ) as collection:
        result = collection.result
        for run in runs:
            if not needs_collection(run):
                gathering.add(run)
                result.closed.append(run)
            elif run.run_id in on_their_way:
                result.going_on.append(run)
            elif not collection.take(run, missing=run.run_id in missing):
                result.followed.append(run)
        collection.sort(collection.following.to_the_end(stop, lambda: False))
        result.going_on += [*collection.following.restarted, *collection.following.runs()]
    return result


class Collecting:
    """The runs that one call collects; those that cannot be are passed over.

    ``once``: a run whose job is created again is not followed from then on.
    """

    def __init__(
        self,
        context: RunContext,
        reporter: Reporter,
        gathering: Gathering,
        *,
        keep: bool = False,
        wait: bool = False,
        once: bool = False,
    ) -> None:
        self._context, self._reporter, self._keep = context, reporter, keep
        self._gathering = gathering
        self.following = Following(
            context,
            reporter,
            keep=keep,
            wait=wait,
            gathering=gathering,
            on_failure=self._fail,
            leaves_restarted=once,
        )
        self.result = CollectResult()
        self._claimed: set[str] = set()
        self._put_off: dict[str, tuple[float, float]] = {}
        """By run that could not be collected: when it is tried again, Unix seconds, and after how
        many seconds."""

    def __enter__(self) -> Collecting:
        return self

    def __exit__(self, *_: object) -> None:
        self.following.close()
        for run_id in self._claimed:
            self._context.store.claims.release(run_id)

    def take(self, run: Run, *, missing: bool = False) -> bool:
        """Measure a run that is over and delete its job, follow any other.

        Where the cluster has no such job (``missing``) that may still come, it is left to go on.
        Returns False if another process follows it.
        """
        run_id, store = run.run_id, self._context.store
        again_at, _ = self._put_off.get(run_id, (-math.inf, 0.0))
        if self.following.has(run_id) or self._context.clock() < again_at:
            return True
        try:
            if not store.claims.claim(run_id):
                return False
            self._claimed.add(run_id)
            # Another process may have closed it since it was read.
            run = store.run(run_id)
            if missing and not attempts.is_restarting(run) and self._may_come(run):
                store.claims.release(run_id)
            elif needs_collection(run) and not run.phase.final:
                self._reporter.planned(run)
                read_by = self._context.clock() + READ_SECONDS
                until = printed(run, self._context, self._reporter.note)
                self.following.resume(run, until, read_by)
            else:
                self._close(run)
        except StoreError as wrong:
            self._fail(run, wrong)
            return True
        self.result.failed.pop(run_id, None)
        return True

    def _close(self, run: Run) -> None:
        """Do what another process left of a run that is over."""
        store, run_id = self._context.store, run.run_id
        if records.is_unmeasured(run):
            gaps = kept_gaps(store, run_id)
            measured = self._gathering.promised(run, self._context.measure(run, gaps))
            run = store.measured(run_id, measured)
            self._reporter.ended(run)
        if gpu_metrics.is_owed(run):
            self._gathering.add(run)
        if run.wishes and self._keep and not wishes.is_by_name(run):
            run = store.fulfilled(run_id, "delete")
        elif run.wishes:
            run = remove(run, self._context, self._reporter)
            if run.wishes:
                self._put_it_off(run_id)
        store.claims.release(run_id)
        if run_id not in {one.run_id for one in self.result.closed}:
            self.result.closed.append(run)

    def sort(self, runs: Iterable[Run]) -> None:
        """Take in runs that are followed no more; one that is not final could not be collected."""
        for run in runs:
            if run.phase.final:
                self.result.closed.append(run)
                self._claimed.discard(run.run_id)
                if not run.wishes:
                    self._put_off.pop(run.run_id, None)
                continue
            latest = run.history[-1]
            self._put_it_off(run.run_id)
            self.result.failed[run.run_id] = Unreachable(latest.cause, latest.action or "")

    def hand_over(self) -> list[Run]:
        """Return the runs that were closed since this was called last, and forget them."""
        closed, self.result.closed = self.result.closed, []
        return closed

    def _put_it_off(self, run_id: str) -> None:
        _, before = self._put_off.get(run_id, (0.0, RETRY_SECONDS / 2))
        pause = min(2 * before, LONGEST_RETRY)
        self._put_off[run_id] = (self._context.clock() + pause, pause)

    def _may_come(self, run: Run) -> bool:
        """Whether a job that does not exist may have been asked for just now; notes it."""
        now = self._context.clock()
        if run.phase.final or creation.is_known_created(run):
            return False
        found = creation.missing(run, now)
        if found is not None and found.phase.final:
            return False
        if found is not None:
            run = self._context.store.move(run.run_id, found)
        self._reporter.note(
            f"{run.history[-1].cause} Collect it again in"
            f" {times.duration(creation.settles_in(run, now))}."
        )
        self.result.going_on.append(run)
        return True

    def _fail(self, run: Run, wrong: StoreError) -> None:
        self._context.store.claims.release(run.run_id)
        self._put_it_off(run.run_id)
        before = self.result.failed.get(run.run_id)
        if before is None or str(before) != str(wrong):
            self._reporter.note(f"warning: run {run.run_id} is passed over: {wrong}")
        self.result.failed[run.run_id] = wrong


def printed(
    run: Run, context: RunContext, note: Callable[[str], None]
) -> Mapping[str, float] | None:
    """Return until when the replicas of a run that is to be cancelled have printed, Unix seconds.

    None where their logs cannot be read now, or not in :data:`READ_SECONDS`, which is noted. Raises
    :class:`BenchError` if the cluster cannot be reached at all.
    """
    if run.wish("cancel") is None:
        return {}
    until: dict[str, float] = {}
    errors: list[BenchError] = []

    def read() -> None:
        try:
            until.update((line.replica, line.at) for line in context.cluster.printed(run))
        except BenchError as error:
            errors.append(error)

    # A server that serves a log may be silent for as long as it likes.
    reader = threading.Thread(target=read, name="printed", daemon=True)
    reader.start()
    reader.join(READ_SECONDS)
    if not reader.is_alive() and not errors:
        return until
    if errors and errors[0].cause_id in wishes.NO_ANSWER:
        raise errors[0]
    why = errors[0] if errors else f"that takes longer than {times.duration(READ_SECONDS)}."
    note(f"warning: what {run.run_id} has printed cannot all be read: {why}")
    return None


def cancel(run: Run, context: RunContext, reporter: Reporter, stop: Stop) -> Run | None:
    """End a run that is to be cancelled and that no other process follows, and close it.

    What its pods have printed until now is archived first: they are deleted with the job. Returns
    None if asked to stop before that; raises :class:`BenchError` if the cluster refuses it, or does
    not answer for long. The wish is recorded already.
    """

    def refused(_: Run, wrong: BenchError) -> None:
        raise wrong

    following = Following(context, reporter, on_refusal=refused)
    closed: list[Run] = []
    try:
        read_by = context.clock() + READ_SECONDS
        following.resume(run, printed(run, context, reporter.note), read_by)
        give_up_at = context.clock() + READ_SECONDS + END_SECONDS
        with stop:
            while not closed and stop.cause is None:
                if context.clock() >= give_up_at:
                    waited = times.duration(READ_SECONDS + END_SECONDS)
                    raise Unreachable(f"The job of run {run.run_id} has not ended in {waited}.")
                closed += following.step(LOOK_SECONDS)
        return closed[0] if closed else None
    finally:
        following.close()
        context.store.claims.release(run.run_id)
