"""Runs from their plans to their recorded measurements.

The run id is drawn and recorded before anything is created. Whatever happens then (the job fails,
the time is up, the user interrupts, the disk is full), what is known is on record and the logs are
kept. A local job ends with this process, and its run with a final state that says why; a job on a
cluster goes on, and is taken up again (:mod:`k8sbench.runs.collecting`).
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator, Sequence

import msgspec

from k8sbench.model.errors import BenchError, Interrupted, NotFound, RepeatTaken, UsageError
from k8sbench.model.identity import case_key
from k8sbench.model.phase import Phase, Transition
from k8sbench.model.plan import RunPlan
from k8sbench.model.run import Run
from k8sbench.ports import Manifest, RunFilter, Store
from k8sbench.runs import collecting, records
from k8sbench.runs.following import Following, Manner, kept_gaps
from k8sbench.runs.world import Reporter, Stop, Work, World

REPEAT_TRIES = 100
"""Other submits into the same set may take a repeat number first; more than this is a fault."""


class FollowedElsewhere(UsageError):
    """The run that was to be joined is followed by another process."""

    def __init__(self, run: Run) -> None:
        super().__init__(
            f"Run {run.run_id} is {run.phase} in another k8sbench process.",
            f"Follow it with: k8sbench watch {run.run_id}",
        )
        self.run = run


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """How a number of works is to be run."""

    set_name: str
    run_id: str | None = None
    """Identity of the one run; of one that exists: join it."""
    parallel: int = 1
    """Jobs at a time."""
    manner: Manner = Manner()


def submit(
    works: Sequence[Work], world: World, tell: Reporter, stop: Stop, order: Order
) -> Iterator[Run]:
    """Run works, each to its end; yields the runs as they are closed, measured if they succeeded.

    Asked to stop it raises :class:`Interrupted`, when local jobs are ended; jobs of a cluster go
    on.
    """
    following = Following(world, tell, order.manner, several=order.parallel > 1)
    waiting = deque(works)
    joined: list[Run] = []
    closed: Run | None = None

    def more() -> bool:
        _raise_refused(following, world)
        if not waiting or len(following) >= order.parallel or following.is_busy:
            return False
        work = waiting.popleft()
        known, manifests = _recorded(work, world, order)
        if manifests is not None:
            tell.planned(known)
            _start(known, manifests, work, world, following)
        elif known.phase.final:
            joined.append(known)
        else:
            tell.planned(known)
            following.take_up(known)
        return True

    try:
        for closed in following.to_the_end(stop, more):
            yield closed
        _raise_refused(following, world, wait=True)
        if stop.cause is not None:
            left = following.runs() or ([closed] if closed else [])
            raise _interrupted(stop, world, left, len(waiting), order.set_name)
        yield from joined
    except BaseException as wrong:
        if not world.cluster.jobs_outlive_us:
            _close_all(following, world, wrong)
        elif following.runs() and isinstance(wrong, BenchError) and stop.cause is None:
            left = following.runs()
            way = left[0].run_id if len(left) == 1 else "--all"
            tell.note(f"What was created goes on. Take it up with: k8sbench collect {way} --follow")
        raise
    finally:
        with contextlib.suppress(Exception):  # the first error is the one to report
            _raise_refused(following, world, wait=True)
        following.close()


def create_all(
    works: Sequence[Work], world: World, tell: Reporter, stop: Stop, order: Order
) -> Iterator[Run]:
    """Create the jobs of all works and follow none of them: ``--detach``.

    Asked to stop before the last one it raises :class:`Interrupted`; what was created goes on.
    """
    for number, work in enumerate(works):
        if stop.cause is not None:
            raise Interrupted(
                f"{stop.cause}: {number} of {len(works)} jobs were created.",
                _resuming(world, order.set_name),
            )
        run, manifests = _recorded(work, world, order)
        if manifests is None:
            world.store.claims.release(run.run_id)
            yield run
            continue
        tell.planned(run)
        try:
            world.store.keep(run.run_id, "manifest.yaml", work.text(manifests))
            world.cluster.create(run.plan, manifests, world.store.folder(run.run_id))
        except BenchError as wrong:
            _fail(run, world, wrong)
            raise
        finally:
            world.cluster.let_go(run.run_id)
            world.store.claims.release(run.run_id)
        yield run


def finished_repeats(store: Store, set_name: str, key: str) -> list[Run]:
    """The valid runs that a set already has of a case: what ``--resume`` need not repeat."""
    return [
        run
        for run in store.runs(RunFilter(set_name=set_name))
        if run.case_key == key
        and run.measurement is not None
        and run.measurement.verdict == "valid"
    ]


def _interrupted(
    stop: Stop, world: World, runs: Sequence[Run], not_started: int, set_name: str
) -> Interrupted:
    """Build the error that ends the command: what became of the runs, and the way on."""
    names = ", ".join(run.run_id for run in runs[: records.FEW]) or "no run"
    if len(runs) > records.FEW:
        names += f" and {len(runs) - records.FEW} more"
    left = f" {not_started} more were not started." if not_started else ""
    resume = _resuming(world, set_name)
    if not world.cluster.jobs_outlive_us:
        state = f"; it is {runs[0].phase}" if len(runs) == 1 else ""
        message = f"{stop.cause}: the local processes of {names} were ended{state}.{left}"
        return Interrupted(message, resume)
    whose = "its job goes" if len(runs) == 1 else "their jobs go"
    one = runs[0].run_id if len(runs) == 1 else None
    way = "collect --all --follow" if one is None else f"watch {one}"
    return Interrupted(
        f"{stop.cause}: detached from {names}; {whose} on.{left}",
        f"Come back with: k8sbench {way}; end it with: k8sbench cancel {one or 'RUN'}."
        + (f" {resume}" if not_started else ""),
    )


def _resuming(world: World, set_name: str) -> str:
    # What goes on is missing, too, as long as nobody has measured it.
    first = "When what goes on is collected, run" if world.cluster.jobs_outlive_us else "Run"
    return f"{first} what is missing of the set with: k8sbench submit … --resume {set_name}"


def _start(
    run: Run, manifests: Sequence[Manifest], work: Work, world: World, following: Following
) -> None:
    try:
        world.store.keep(run.run_id, "manifest.yaml", work.text(manifests))
        following.start(run, manifests)
    except BaseException as wrong:
        _fail(run, world, wrong)
        world.store.claims.release(run.run_id)
        raise


def _raise_refused(following: Following, world: World, *, wait: bool = False) -> None:
    """Close the runs whose jobs could not be created; raises the first such error."""
    refused = following.refused(wait=wait)
    for run, wrong in refused:
        _fail(run, world, wrong)
        world.store.claims.release(run.run_id)
    for _, wrong in refused[:1]:
        raise wrong


def _fail(run: Run, world: World, wrong: BaseException) -> None:
    """Close a run that never became a job, or whose job ends with us: it must not stay open."""
    cause = wrong.message if isinstance(wrong, BenchError) else type(wrong).__name__
    # The first error is the one to report.
    with contextlib.suppress(BenchError):
        world.store.move(
            run.run_id,
            Transition(
                phase=Phase.FAILED,
                at=world.clock(),
                cause=f"k8sbench could not go on: {cause}",
                cause_id="k8sbench-failed",
                action=wrong.action or None if isinstance(wrong, BenchError) else None,
            ),
        )


def _close_all(following: Following, world: World, wrong: BaseException) -> None:
    for run in following.runs():
        _fail(run, world, wrong)


def _existing(world: World, work: Work, run_id: str) -> Run | None:
    """Find the run of a name, in the store or on the cluster; it is this process's to follow."""
    outlives = world.cluster.jobs_outlive_us
    try:
        records.reconcile(world.store, alive=world.alive, now=world.clock())
        run = world.store.run(run_id)
    except NotFound:
        jobs = world.cluster.jobs([run_id]) if outlives else ()
        job = next((job for job in jobs if job.plan.run_id == run_id), None)
        if job is None:
            return None
        _check_case(work, job.plan)
        run = collecting.recorded(job, world)
    _check_case(work, run.plan)
    if not run.phase.final:
        collecting.check_place(run, world.cluster, world.location)
    if not run.phase.final and (not outlives or not world.store.claims.claim(run_id)):
        raise FollowedElsewhere(run)
    if run.phase is Phase.SUCCEEDED and run.measurement is None:
        return world.store.measured(run_id, world.measure(run, kept_gaps(world.store, run_id)))
    return run


_SAID = {"trainers_digest": "version of the trainers"}
"""What a field of the plan is called where its name says too little."""


def _deciding(there: RunPlan, wanted: RunPlan) -> Iterator[str]:
    """Yield the fields that make one plan another case than the other."""
    for name in there.__struct_fields__:
        changed = msgspec.structs.replace(there, **{name: getattr(wanted, name)})
        if case_key(changed) != case_key(there):
            yield name


def _check_case(work: Work, there: RunPlan) -> None:
    wanted = work.plan(there.run_id, there.set_name, there.repeat)
    if case_key(wanted) == case_key(there):
        return
    case = f"{there.benchmark} {there.framework} {there.case} {there.precision}"
    other = ", ".join(_SAID.get(name, name) for name in _deciding(there, wanted))
    raise UsageError(
        f"Run {there.run_id} exists and is another case: {case} (other: {other}).",
        "Take another --run-id, or the options that it was submitted with.",
    )


def _recorded(
    work: Work, world: World, order: Order
) -> tuple[Run, tuple[Manifest, ...]] | tuple[Run, None]:
    """Find the run that is to be joined, or record a new one; with what is to be created."""
    if order.run_id is None:
        return _record(work, world, order)
    known = _existing(world, work, order.run_id)
    if known is not None:
        return known, None
    taken = UsageError(
        f"Another k8sbench process is just submitting run {order.run_id}.",
        f"Follow it with: k8sbench watch {order.run_id}",
    )
    try:
        if world.store.claims.claim(order.run_id):
            return _record(work, world, order)
    except UsageError as wrong:
        taken = wrong
    # Somebody else has recorded it meanwhile, unless something else is wrong.
    known = _existing(world, work, order.run_id)
    if known is None:
        raise taken
    return known, None


def _record(work: Work, world: World, order: Order) -> tuple[Run, tuple[Manifest, ...]]:
    draft = work.plan(order.run_id or "draft", order.set_name, 1)
    run_id = order.run_id or world.draw_run_id(draft.benchmark)
    # Before there is anything to see: nobody else takes it up before its job is there.
    world.store.claims.claim(run_id)
    try:
        for _ in range(REPEAT_TRIES):
            repeat = world.store.next_repeat(order.set_name, case_key(draft))
            plan = work.plan(run_id, order.set_name, repeat)
            # Rendered before it is recorded: what cannot be rendered leaves no trace.
            manifests = work.manifests(plan)
            with contextlib.suppress(RepeatTaken):
                run = world.store.record(
                    plan, at=world.clock(), owner=world.owner, location=world.location
                )
                return run, manifests
        raise RepeatTaken(
            f"Set {order.set_name} gave no free repeat number in {REPEAT_TRIES} tries.",
            "Too many submits write into it at once; try again.",
        )
    except BaseException:
        world.store.claims.release(run_id)
        raise
