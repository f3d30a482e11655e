"""Taking up jobs of a cluster again: after a detach, an interrupt, a crash, or on another machine.

Idempotent: a run that is closed stays as it is, one that is followed by another process is left to
it, and logs go on where their archive ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from k8sbench.model.errors import RepeatTaken, UsageError
from k8sbench.model.identity import case_key
from k8sbench.model.run import Location, Run
from k8sbench.ports import Cluster, FoundJob, JobEvent, LogMark, RunFilter
from k8sbench.runs import records
from k8sbench.runs.following import LOOK_SECONDS, Following, Manner, kept_gaps
from k8sbench.runs.world import Reporter, Stop, World

READ_SECONDS = 60.0
"""For what a run has printed to be archived before it is cancelled; the rest is read as it goes."""


class Taken(msgspec.Struct, kw_only=True):
    """What :func:`collect` did with each run."""

    closed: list[Run] = []
    going_on: list[Run] = []
    """Not over yet, and left alone."""
    followed: list[Run] = []
    """Left to the other process that follows them."""


def owed(run: Run) -> bool:
    """Whether something of a run on a cluster is still to be fetched or measured."""
    return run.plan.backend == "kubernetes" and (not run.phase.final or records.is_unmeasured(run))


def recorded(job: FoundJob, world: World) -> Run:
    """Record a job of the cluster as a run of this store."""
    plan = job.plan
    try:
        return world.store.record(plan, at=job.created_at, owner=None, location=world.location)
    except RepeatTaken as wrong:
        raise UsageError(
            f"The cluster has run {plan.run_id}, repeat {plan.repeat} of {case_key(plan)} in set"
            f" {plan.set_name}; this store has another run by that number.",
            f"Collect it into a store of its own: k8sbench collect {plan.run_id} --store FOLDER",
        ) from wrong
    except UsageError:
        if plan.run_id not in world.store.ids():
            raise
        # Another process of this store has recorded it just now.
        return world.store.run(plan.run_id)


def open_runs(world: World) -> list[Run]:
    """The store's runs at this place of a cluster of which something is owed, oldest first."""
    return [
        run
        for run in world.store.runs(RunFilter(unfinished=True))
        if owed(run) and same_place(run.location, world.location)
    ]


def same_place(one: Location | None, other: Location | None) -> bool:
    """Whether both are the same namespace, reached by the same URL."""
    return (
        one is not None
        and other is not None
        and (one.server, one.namespace) == (other.server, other.namespace)
    )


def check_place(run: Run, cluster: Cluster, here: Location | None) -> None:
    """See that a run is where it is about to be taken up.

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
    world: World,
    tell: Reporter,
    stop: Stop,
    manner: Manner,
    *,
    follow: bool,
) -> Taken:
    """Take up runs and close those whose jobs are over; with ``follow`` also wait for the others.

    Asked to stop it returns early, with the runs that go on.
    """
    taken = Taken()
    following = Following(world, tell, manner)
    on_their_way: set[str] = set()
    if not follow:
        # A job that is gone is over, too: what is left of it is on record.
        jobs = world.cluster.jobs([run.run_id for run in runs if owed(run)])
        on_their_way = {job.plan.run_id for job in jobs if not job.phase.final}
    try:
        for run in runs:
            if not owed(run):
                taken.closed.append(run)
            elif run.run_id in on_their_way:
                taken.going_on.append(run)
            elif not world.store.claims.claim(run.run_id):
                taken.followed.append(run)
            elif run.phase.final:
                taken.closed.append(_measure(run, world, tell))
            else:
                tell.planned(run)
                following.take_up(run)
        taken.closed += following.to_the_end(stop, lambda: False)
        taken.going_on += following.runs()
    finally:
        following.close()
        for run in runs:
            world.store.claims.release(run.run_id)
    return taken


def cancel(
    run: Run, world: World, tell: Reporter, stop: Stop, cause: str, cause_id: str
) -> Run | None:
    """End a run that nobody else follows, and close it; None if asked to stop before that.

    What its pods have printed until now is archived first: they are deleted with the job.
    """
    reading = _Reading(tell, world.store.log_marks(run.run_id))
    following = Following(world, reading, Manner())
    until = world.clock() + READ_SECONDS
    closed: list[Run] = []
    try:
        printed = {line.replica: line.at for line in world.cluster.printed(run)}
        following.take_up(run)
        while len(following) and not reading.has(printed) and world.clock() < until:
            closed += following.step(LOOK_SECONDS)
            if stop.cause is not None:
                return None
        following.cancel(run.run_id, cause, cause_id)
        closed += following.to_the_end(stop, lambda: False)
        return closed[-1] if closed else None
    finally:
        following.close()
        world.store.claims.release(run.run_id)


class _Reading:
    """Knows how far logs have been read; passes everything on. Implements Reporter."""

    def __init__(self, tell: Reporter, marks: Mapping[str, LogMark]) -> None:
        self._latest = {replica: mark.at for replica, mark in marks.items()}
        self.planned, self.ended, self.note = tell.planned, tell.ended, tell.note
        self._tell = tell

    def has(self, stamps: Mapping[str, float]) -> bool:
        """Whether each replica's log was read up to a stamp."""
        return all(self._latest.get(replica, 0.0) >= at for replica, at in stamps.items())

    def happened(self, run: Run, event: JobEvent) -> None:
        if event.line is not None:
            self._latest[event.line.replica] = event.line.at
        self._tell.happened(run, event)


def _measure(run: Run, world: World, tell: Reporter) -> Run:
    gaps = kept_gaps(world.store, run.run_id)
    run = world.store.measured(run.run_id, world.measure(run, gaps))
    tell.ended(run)
    return run
