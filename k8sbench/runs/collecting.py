"""Collecting jobs of a cluster: after a detach, an interrupt, a crash, or on another machine.

Idempotent: a run that is closed stays as it is, one that another process follows is left to it, and
logs go on where their archive ends. A run whose files cannot be read or written is reported and
passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from k8sbench.model.errors import BenchError, RepeatTaken, StoreError, UsageError
from k8sbench.model.identity import case_key
from k8sbench.model.run import Location, Run
from k8sbench.ports import Cluster, FoundJob, RunFilter
from k8sbench.runs import records
from k8sbench.runs.context import Reporter, RunContext, Stop
from k8sbench.runs.following import LOOK_SECONDS, Following, FollowOptions, kept_gaps

READ_SECONDS = 60.0
"""For what a run has printed to be archived before it is cancelled; the rest is read as it goes."""
LIST_SECONDS = 15.0
"""Between two lists of the jobs of a namespace that is served."""
RETRY_SECONDS = 300.0
"""After which a run that could not be collected is tried again."""


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
    """Whether something of a run on a cluster is still to be fetched or measured."""
    return run.plan.backend == "kubernetes" and (not run.phase.final or records.is_unmeasured(run))


def recorded(job: FoundJob, context: RunContext) -> Run:
    """Record a job of the cluster as a run of this store."""
    plan = job.plan
    try:
        return context.store.record(plan, at=job.created_at, owner=None, location=context.location)
    except RepeatTaken as wrong:
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


def open_runs(context: RunContext) -> list[Run]:
    """The store's runs at this place of a cluster that need collection, oldest first."""
    return [
        run
        for run in context.store.runs(RunFilter(unfinished=True))
        if needs_collection(run) and same_place(run.location, context.location)
    ]


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
    options: FollowOptions,
    *,
    follow: bool,
) -> CollectResult:
    """Close the runs whose jobs are over; with ``follow`` also wait for the others.

    Asked to stop it returns early, with the runs that go on.
    """
    on_their_way: set[str] = set()
    if not follow:
        # A job that is gone is over, too: what is left of it is on record.
        jobs = context.cluster.jobs([run.run_id for run in runs if needs_collection(run)])
        on_their_way = {job.run_id for job in jobs if not job.phase.final}
    with _Collection(context, reporter, options) as collection:
        result = collection.result
        for run in runs:
            if not needs_collection(run):
                result.closed.append(run)
            elif run.run_id in on_their_way:
                result.going_on.append(run)
            elif not collection.take(run):
                result.followed.append(run)
        result.closed += collection.following.to_the_end(stop, lambda: False)
        result.going_on += collection.following.runs()
    return result


def serve(
    find: Callable[[], Iterable[Run]],
    context: RunContext,
    reporter: Reporter,
    stop: Stop,
    options: FollowOptions,
) -> CollectResult:
    """Collect runs, and those that are new whenever ``find`` is asked again, until asked to stop.

    Returns the runs that were closed, those that go on and those that could not be collected. The
    first list must succeed; a cluster that does not answer a later one is asked again.
    """
    due, listed, reported = context.clock(), False, ""
    with _Collection(context, reporter, options) as collection:
        result = collection.result
        while stop.cause is None:
            if context.clock() >= due:
                try:
                    for run in find():
                        collection.take(run)
                    listed, reported = True, ""
                except BenchError as wrong:
                    if not listed:
                        raise
                    if str(wrong) != reported:
                        reporter.note(f"warning: new jobs are not seen for now: {wrong}")
                    reported = str(wrong)
                due = context.clock() + LIST_SECONDS
            result.closed += collection.following.step(LOOK_SECONDS)
        result.going_on += collection.following.runs()
    return result


class _Collection:
    """The runs that one call collects; those that cannot be are passed over."""

    def __init__(self, context: RunContext, reporter: Reporter, options: FollowOptions) -> None:
        self._context, self._reporter = context, reporter
        self.following = Following(context, reporter, options, on_failure=self._fail)
        self.result = CollectResult()
        self._claimed: set[str] = set()
        self._failed_at: dict[str, float] = {}

    def __enter__(self) -> _Collection:
        return self

    def __exit__(self, *_: object) -> None:
        self.following.close()
        for run_id in self._claimed:
            self._context.store.claims.release(run_id)

    def take(self, run: Run) -> bool:
        """Measure a run that is over, follow any other; False if another process follows it."""
        run_id, store = run.run_id, self._context.store
        failed_at = self._failed_at.get(run_id)
        if self.following.has(run_id) or (
            failed_at is not None and self._context.clock() - failed_at < RETRY_SECONDS
        ):
            return True
        try:
            if not store.claims.claim(run_id):
                return False
            self._claimed.add(run_id)
            # Another process may have closed it since it was read.
            run = store.run(run_id)
            if needs_collection(run) and not run.phase.final:
                self._reporter.planned(run)
                self.following.resume(run)
            else:
                self.result.closed.append(self._measured(run) if needs_collection(run) else run)
                store.claims.release(run_id)
        except StoreError as wrong:
            self._fail(run, wrong)
            return True
        self.result.failed.pop(run_id, None)
        return True

    def _measured(self, run: Run) -> Run:
        context = self._context
        gaps = kept_gaps(context.store, run.run_id)
        run = context.store.measured(run.run_id, context.measure(run, gaps))
        self._reporter.ended(run)
        return run

    def _fail(self, run: Run, wrong: StoreError) -> None:
        self._context.store.claims.release(run.run_id)
        self._failed_at[run.run_id] = self._context.clock()
        before = self.result.failed.get(run.run_id)
        if before is None or str(before) != str(wrong):
            self._reporter.note(f"warning: run {run.run_id} is passed over: {wrong}")
        self.result.failed[run.run_id] = wrong


def cancel(
    run: Run, context: RunContext, reporter: Reporter, stop: Stop, cause: str, cause_id: str
) -> Run | None:
    """End a run that no other process follows, and close it; None if asked to stop before that.

    What its pods have printed until now is archived first: they are deleted with the job.
    """
    following = Following(context, reporter, FollowOptions())
    until = context.clock() + READ_SECONDS
    closed: list[Run] = []
    try:
        printed = {line.replica: line.at for line in context.cluster.printed(run)}
        following.resume(run)
        while not following.has_read(run.run_id, printed) and context.clock() < until:
            closed += following.step(LOOK_SECONDS)
            if stop.cause is not None:
                return None
        following.cancel(run.run_id, cause, cause_id)
        closed += following.to_the_end(stop, lambda: False)
        return closed[-1] if closed else None
    finally:
        following.close()
        context.store.claims.release(run.run_id)
