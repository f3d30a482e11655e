"""One run from its plan to its recorded measurement.

The run id is drawn and recorded before anything is created. Whatever happens then (the job fails,
the time is up, the user interrupts, the disk is full) the run ends with a final state that says
what became of it, its logs are kept, and nothing it started is left behind.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import msgspec

from k8sbench.model.errors import BenchError, Interrupted, NotFound, RepeatTaken, UsageError
from k8sbench.model.identity import case_key
from k8sbench.model.measurement import Measurement
from k8sbench.model.phase import Phase, Transition
from k8sbench.model.plan import RunPlan
from k8sbench.model.run import Owner, Run
from k8sbench.ports import Clock, Cluster, JobEvent, Manifest, RunFilter, Store
from k8sbench.runs import records

REPEAT_TRIES = 100
"""Other submits into the same set may take a repeat number first; more than this is a fault."""


class Reporter(Protocol):
    """Who is told what happens while it happens."""

    def planned(self, run: Run) -> None:
        """The run is recorded and about to start."""

    def happened(self, run: Run, event: JobEvent) -> None:
        """The job's state changed, a replica's did, or a line was printed."""

    def ended(self, run: Run) -> None:
        """The run is final, and measured if it succeeded."""


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """One case to run, still without an identity."""

    plan: Callable[[str, str, int], RunPlan]
    """(run id, set name, repeat) → plan."""
    manifests: Callable[[RunPlan], tuple[Manifest, ...]]
    text: Callable[[Sequence[Manifest]], str]
    """Manifests → the YAML that is kept with the run."""


class World(msgspec.Struct, frozen=True, kw_only=True):
    """What a run needs of the outside."""

    store: Store
    cluster: Cluster
    clock: Clock
    owner: Owner | None
    alive: records.Alive
    draw_run_id: Callable[[str], str]
    """Benchmark name → a new run id."""
    measure: Callable[[Run], Measurement]
    """Measure a finished run from its archived logs."""


class Stop:
    """The user's or the system's wish that everything end; may be set from a signal handler."""

    def __init__(self) -> None:
        self._cancel: Callable[[], None] | None = None
        self.cause: str | None = None

    def __call__(self, cause: str) -> None:
        """Ask for the end; returns at once, and again does nothing."""
        if self.cause is None:
            self.cause = cause
            if self._cancel is not None:
                # In a thread of its own: a signal handler runs inside the main thread, which may
                # hold the very lock that cancelling needs.
                threading.Thread(target=self._cancel, name="k8sbench-stop", daemon=True).start()

    @contextlib.contextmanager
    def calls(self, cancel: Callable[[], None]) -> Iterator[None]:
        """While inside, a wish to stop calls ``cancel``; one that came before calls it at once."""
        self._cancel = cancel
        try:
            if self.cause is not None:
                cancel()
            yield
        finally:
            self._cancel = None


def submit(
    work: Work, world: World, tell: Reporter, stop: Stop, *, set_name: str, run_id: str | None
) -> Run:
    """Run one case to its end; returns the final run, measured if it succeeded.

    ``run_id`` of a run that exists joins it: a finished run is returned as it is (measured now, if
    that is still owed) and no second job is made.
    """
    if run_id is not None and (known := _existing(world, work, run_id)) is not None:
        return known
    run, manifests = _record(work, world, set_name, run_id)
    tell.planned(run)
    try:
        world.store.keep(run.run_id, "manifest.yaml", work.text(manifests))
        run = _follow(run, manifests, world, tell, stop)
    except BaseException as wrong:
        # The run must not stay open, whatever broke; the first error is the one to report.
        with contextlib.suppress(BenchError):
            cause = wrong.message if isinstance(wrong, BenchError) else f"{type(wrong).__name__}"
            world.store.move(
                run.run_id,
                Transition(
                    phase=Phase.FAILED,
                    at=world.clock(),
                    cause=f"k8sbench itself failed: {cause}",
                    cause_id="k8sbench-failed",
                ),
            )
        raise
    if run.phase is Phase.SUCCEEDED:
        run = world.store.measured(run.run_id, world.measure(run))
    tell.ended(run)
    return run


def finished_repeats(store: Store, set_name: str, key: str) -> list[Run]:
    """The valid runs that a set already has of a case: what ``--resume`` need not repeat."""
    return [
        run
        for run in store.runs(RunFilter(set_name=set_name))
        if run.case_key == key
        and run.measurement is not None
        and run.measurement.verdict == "valid"
    ]


def interrupted(stop: Stop, run: Run) -> Interrupted:
    """The error that ends the command after an interrupt."""
    return Interrupted(
        f"{stop.cause}: the local processes of {run.run_id} were ended; it is {run.phase}.",
        f"Run what is missing of the set with: k8sbench submit … --resume {run.plan.set_name}",
    )


def _existing(world: World, work: Work, run_id: str) -> Run | None:
    try:
        records.reconcile(world.store, alive=world.alive, now=world.clock())
        run = world.store.run(run_id)
    except NotFound:
        return None
    wanted = work.plan(run_id, run.plan.set_name, run.plan.repeat)
    if case_key(wanted) != run.case_key:
        raise UsageError(
            f"Run {run_id} exists and is another case: {run.plan.benchmark}"
            f" {run.plan.framework} {run.plan.case} {run.plan.precision}.",
            "Take another --run-id, or the options that it was submitted with.",
        )
    if not run.phase.final:
        raise UsageError(
            f"Run {run_id} is {run.phase} in another k8sbench process.",
            f"Follow it with: k8sbench logs -f {run_id}",
        )
    if run.phase is Phase.SUCCEEDED and run.measurement is None:
        return world.store.measured(run_id, world.measure(run))
    return run


def _record(
    work: Work, world: World, set_name: str, run_id: str | None
) -> tuple[Run, tuple[Manifest, ...]]:
    draft = work.plan(run_id or "draft", set_name, 1)
    run_id = run_id or world.draw_run_id(draft.benchmark)
    for _ in range(REPEAT_TRIES):
        repeat = world.store.next_repeat(set_name, case_key(draft))
        plan = work.plan(run_id, set_name, repeat)
        # Rendered before it is recorded: what cannot be rendered leaves no trace.
        manifests = work.manifests(plan)
        try:
            return world.store.record(plan, at=world.clock(), owner=world.owner), manifests
        except RepeatTaken:
            continue
    raise RepeatTaken(
        f"Set {set_name} gave no free repeat number in {REPEAT_TRIES} tries.",
        "Too many submits write into it at once; try again.",
    )


def _follow(
    run: Run,
    manifests: Sequence[Manifest],
    world: World,
    tell: Reporter,
    stop: Stop,
) -> Run:
    run_id, plan = run.run_id, run.plan

    def on_stop() -> None:
        world.cluster.cancel(run_id, stop.cause or "Interrupted", "interrupted")

    def on_timeout() -> None:
        world.cluster.cancel(
            run_id, f"The run took longer than its --timeout of {plan.timeout_s:g} s.", "timeout"
        )

    timer = threading.Timer(plan.timeout_s, on_timeout) if plan.timeout_s else None
    archive = world.store.archive(run_id)
    try:
        world.cluster.create(plan, manifests, world.store.folder(run_id))
        if timer is not None:
            timer.daemon = True
            timer.start()
        with stop.calls(on_stop):
            for event in world.cluster.watch(run_id):
                if event.line is not None:
                    archive.write(event.line)
                if event.transition is not None and not event.transition.phase.final:
                    run = world.store.move(run_id, event.transition)
                elif event.transition is not None:
                    # The logs are whole on disk before the run is called final.
                    archive.close()
                    run = world.store.move(run_id, event.transition)
                tell.happened(run, event)
    finally:
        if timer is not None:
            timer.cancel()
        archive.close()
    return run
