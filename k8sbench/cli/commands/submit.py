"""``k8sbench submit``: plan → create → watch → collect → measure → store → print the row."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from k8sbench.cli import clusters, sites
from k8sbench.cli.clusters import Access, access_options
from k8sbench.cli.commands.plan_options import Typed, not_available, plan_options
from k8sbench.cli.commands.reading import rows_option
from k8sbench.cli.sites import Chosen
from k8sbench.cli.terminal import output, progress
from k8sbench.model.errors import REJECTED_EXIT_CODE, BenchError, Unreachable, UsageError
from k8sbench.model.identity import case_key, checked_run_id, checked_set_name
from k8sbench.model.phase import Phase
from k8sbench.model.plan import RunPlan
from k8sbench.model.planning import SpecSource, describe
from k8sbench.model.run import Run
from k8sbench.model.spec import BenchmarkSpec
from k8sbench.ports import Cluster, Manifest, Store
from k8sbench.runs import preparing, records, submitting
from k8sbench.runs.following import Manner
from k8sbench.runs.submitting import Order
from k8sbench.runs.world import Work, World

if TYPE_CHECKING:
    from k8sbench.adapters.kubernetes.client.api import Api
    from k8sbench.adapters.store.sql_store import SqlStore

INSTALLED_AS = {"pytorch": ("torch", "torch"), "paddle": ("paddle", "paddle")}
"""Framework → its module and our extra that installs it."""
EXIT_ORDER = (1, 6, 3, 4, REJECTED_EXIT_CODE, 0)
"""Of several runs' exit codes, the first of these that occurs is the command's."""


@click.command()
@plan_options
@access_options
@click.option("--run-id", metavar="NAME", help="Name of the run; of one that exists: join it.")
@click.option("--set", "set_name", metavar="SET", help="Set to open or join; default: a new one.")
@click.option("--resume", metavar="SET", help="Run what is missing of a set.")
@click.option(
    "--parallel",
    type=click.IntRange(1, 1000),
    default=1,
    metavar="N",
    help="Jobs at a time; default 1.",
)
@click.option("--detach", is_flag=True, help="Create the jobs and return; see collect.")
@click.option("--wait", is_flag=True, help="Wait even for what cannot come by itself.")
@click.option("--keep", is_flag=True, help="Leave jobs and pods on the cluster at the end.")
@click.option(
    "--dry-run",
    is_flag=False,
    flag_value="client",
    default=None,
    type=click.Choice(["client", "server"]),
    help="Plan and print the manifest; server: also have the cluster check it. Starts nothing.",
)
@click.option(
    "--accept", multiple=True, metavar="REASON", help="Overrule a rejection by its id; marked."
)
@click.option("--store", "where", metavar="FOLDER|URL", help="Store; default K8SBENCH_STORE.")
@rows_option
@not_available("--prometheus")
def command(
    typed: Typed,
    access: Access,
    run_id: str | None,
    set_name: str | None,
    resume: str | None,
    dry_run: str | None,
    accept: tuple[str, ...],
    where: str | None,
    form: str,
    parallel: int,
    detach: bool,
    wait: bool,
    keep: bool,
) -> int:
    """Plan, run, measure and record a benchmark.

    Prints the plan before anything starts and the measured row at the end. Ctrl-C ends local
    processes; a job on a cluster goes on. Exit code: 0 measured and valid, 2 bad input, 3 job
    failed, 4 timed out, 5 measured but rejected, 6 cluster not reachable, 130 interrupted.

    \b
    k8sbench submit resnet50 --replicas 2 --gpus 1 --preset smoke    a first try
    k8sbench submit deeplabv3p --replicas 4 --amp      4 nodes, all of their GPUs
    k8sbench submit tsm --all-cases --detach           then: collect --all --follow
    """
    from k8sbench.adapters.files import catalog, templates, trainer_sources
    from k8sbench.render import manifests, to_yaml

    if resume is not None and set_name is not None:
        raise UsageError("--resume and --set both name the set.", "Give one of them.")
    found = catalog.find(typed.benchmark)
    chosen = sites.for_submit(typed, access)
    _check_backend(chosen, parallel=parallel, detach=detach, keep=keep, dry_run=dry_run)
    sources = trainer_sources.read()
    texts = templates.read()
    wanted = list(preparing.requests(found.spec, typed.request, typed.selection))
    if run_id is not None:
        checked_run_id(run_id)
        if len(wanted) > 1 or any(repeats > 1 for _, repeats in wanted):
            raise UsageError("--run-id names one run.", "Ask for one case without repeats.")
    works = [
        (
            preparing.work(
                found.spec,
                SpecSource(digest=found.digest, source=found.source),
                request,
                chosen.site,
                trainers_digest=sources.digest,
                render=lambda plan: manifests(plan, templates=texts, trainers=sources),
                text=to_yaml,
            ),
            repeats,
        )
        for request, repeats in wanted
    ]
    # Every case is planned and rendered before the first one starts: a mistake in the last of
    # them must not show after hours.
    drafts = [work.plan(run_id or "draft", "draft", 1) for work, _ in works]
    objects = [work.manifests(draft) for (work, _), draft in zip(works, drafts, strict=True)]
    if dry_run:
        return _only_show(chosen, drafts, objects, form, on_server=dry_run == "server")
    if chosen.api is None:
        _check_frameworks(found.spec, {draft.framework for draft in drafts})
    else:
        asked = typed.backend == "kubernetes" or access.named
        sites.check_answers(chosen.api, asked=asked)
        if any(draft.gang for draft in drafts):
            _refuse_gang(chosen.api)
    # Whoever submits a run of one name at once means one set, too.
    name = checked_set_name(resume or set_name or run_id or clusters.new_set_name())
    order = Order(
        set_name=name, run_id=run_id, parallel=parallel, manner=Manner(keep=keep, wait=wait)
    )
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(opened_store(where))
        # Who creates jobs and goes has no more use for them than anybody who collects them.
        cluster = stack.enter_context(
            _cluster(chosen, keep=keep, waits=wait, store=None if detach else store)
        )
        world = clusters.world(
            store, cluster, location=chosen.api.place if chosen.api else None, accept=accept
        )
        there: list[Run] = []
        missing: list[Work] = []
        for work, repeats in works:
            done = _there(work, repeats, store, name) if resume else []
            there += done
            missing += [work] * (repeats - len(done))
        done = _run_all(
            missing, world, store, order, access, why=chosen.why, detach=form if detach else None
        )
        if detach:
            return _say_detached(done, form)
        from k8sbench.cli.commands import results

        codes = [exit_code(run) for run in [*there, *done]]
        shown = [run.run_id for run in [*there, *done]]
        if results.print_runs(store, shown, form, accept=accept):
            codes.append(REJECTED_EXIT_CODE)
    return worst(codes)


def _only_show(
    chosen: Chosen,
    drafts: Sequence[RunPlan],
    objects: Sequence[Sequence[Manifest]],
    form: str,
    *,
    on_server: bool,
) -> int:
    """Print plans and manifests, and what the cluster says to them; returns the exit code."""
    from k8sbench.cli.commands import render

    for draft in drafts:
        progress.tell(draft)
    output.note(chosen.why)
    code = 0
    if on_server and chosen.api is not None:
        code = _try_on_server(chosen.api, drafts, objects)
    render.write([manifest for group in objects for manifest in group], form)
    return code


def _run_all(
    works: Sequence[Work],
    world: World,
    store: SqlStore,
    order: Order,
    access: Access,
    *,
    why: str,
    detach: str | None,
) -> list[Run]:
    """Run the works; ``detach`` is the form in which to name what was created before an error."""
    done: list[Run] = []
    run_all = submitting.submit if detach is None else submitting.create_all
    try:
        with clusters.stopping() as stop, progress.telling(drawn=detach is None) as tell:
            for first in works[:1]:
                tell.plan(first.plan(order.run_id or "draft", order.set_name, 1))
            tell.note(why)
            there = _there_before(world.store, works, order)
            if there is not None and not there.phase.final:
                limit = output.duration(there.plan.timeout_s)
                own = f"set {there.plan.set_name}, --timeout {limit}"
                tell.note(f"run {there.run_id} is there already, and is joined as it is: {own}")
            # One by one: before an error, too, it holds what was created.
            done.extend(run_all(works, world, tell, stop, order))
        if detach is None and there is not None and there.phase.final:
            own = there.plan.set_name
            of_set = "" if own == order.set_name else f" of set {own}"
            output.note(f"Run {there.run_id}{of_set} was over before, and is not run again.")
    except submitting.FollowedElsewhere as other:
        if detach is not None:
            return [other.run]
        from k8sbench.cli.commands import watch

        return [watch.follow(store, other.run, access, order.manner)]
    except BenchError:
        if detach is not None and done:
            _say_detached(done, detach)
        raise
    return done


def _there_before(store: Store, works: Sequence[Work], order: Order) -> Run | None:
    """Return the run that was named, if the store has it and it is the same case."""
    if order.run_id is None or not works or order.run_id not in store.ids():
        return None
    there = store.run(order.run_id)
    plan = works[0].plan(there.run_id, there.plan.set_name, there.plan.repeat)
    return there if case_key(plan) == there.case_key else None


def _check_backend(
    chosen: Chosen, *, parallel: int, detach: bool, keep: bool, dry_run: str | None
) -> None:
    if chosen.api is None:
        given = {"--detach": detach, "--keep": keep, "--dry-run=server": dry_run == "server"}
        given["--parallel"] = parallel > 1
        for option, is_given in given.items():
            if is_given:
                raise UsageError(
                    f"{option} is for jobs on a cluster, and this run is local"
                    f" ({chosen.why.removeprefix('backend local: ')}).",
                    f"Leave out {option}, or name a cluster with --backend kubernetes.",
                )
    elif detach and parallel > 1:
        raise UsageError(
            "--detach leaves nobody to start the next job when one has ended.",
            "Leave out --parallel: all jobs are created at once, and the cluster queues them.",
        )
    elif detach and keep:
        raise UsageError(
            "--detach leaves nobody to whom --keep could be said.",
            "Give it to whoever ends the run: k8sbench collect RUN --keep",
        )


def _cluster(
    chosen: Chosen, *, keep: bool, waits: bool, store: SqlStore | None
) -> contextlib.AbstractContextManager[Cluster]:
    if chosen.api is not None:
        return clusters.opened(chosen.api, keep=keep, waits=waits, store=store)
    from k8sbench.adapters.local.cluster import LocalCluster

    return contextlib.closing(LocalCluster())


def _there(work: Work, repeats: int, store: Store, set_name: str) -> list[Run]:
    """Find what a set already has of a case, and say so."""
    draft = work.plan("draft", set_name, 1)
    there = submitting.finished_repeats(store, set_name, case_key(draft))[:repeats]
    output.note(
        f"{describe(draft)}\n  {len(there)} of {repeats} there already"
        + ("" if len(there) < repeats else ": nothing to do")
    )
    return there


def _say_detached(runs: Sequence[Run], form: str) -> int:
    """Say which runs go on; one that was over before has its own exit code."""
    if form == "json":
        output.write_json([records.listed(run) for run in runs])
    else:
        output.write_names(run.run_id for run in runs)
    over = [run for run in runs if run.phase.final]
    for run in over:
        output.note(
            f"  Run {run.run_id} is {run.phase} already: nothing was created."
            " For a new run take another --run-id, or none."
        )
    if len(over) < len(runs):
        way = runs[0].run_id if len(runs) == 1 else "--all"
        output.note(f"  Detached. Collect what it measures with: k8sbench collect {way} --follow")
    return worst([exit_code(run) for run in over])


def _try_on_server(
    api: Api, plans: Sequence[RunPlan], objects: Sequence[Sequence[Manifest]]
) -> int:
    """Say what the cluster would say to the jobs; returns the exit code."""
    from k8sbench.adapters.kubernetes import dry_run

    failed = False
    for plan, group in zip(plans, objects, strict=True):
        for line in dry_run.check(api, plan, group):
            failed = failed or line.level == "failure"
            output.note(f"  {line.level} {line.id}: {line.message}")
            if line.action:
                output.note(f"    {line.action}")
    if not failed:
        output.note("  The cluster takes it; nothing was created.")
    return Unreachable.exit_code if failed else 0


def _refuse_gang(api: Api) -> None:
    from k8sbench.adapters.kubernetes import asking

    asking.refuse_gang(api)


def worst(codes: Sequence[int]) -> int:
    """Return the exit code of a command whose runs stand for these; 0 without any."""
    return next((code for code in EXIT_ORDER if code in codes), 0)


@contextlib.contextmanager
def opened_store(where: str | None) -> Iterator[SqlStore]:
    """Open the store to write to it."""
    from k8sbench.adapters.store.sql_store import open_store

    with open_store(where) as store:
        yield store


def exit_code(run: Run) -> int:
    """The exit code that one finished run stands for."""
    if run.phase is Phase.SUCCEEDED:
        valid = run.measurement is not None and run.measurement.verdict == "valid"
        return 0 if valid else REJECTED_EXIT_CODE
    return 4 if run.history[-1].cause_id == "timeout" else 3


def _check_frameworks(spec: BenchmarkSpec, frameworks: set[str]) -> None:
    for framework in sorted(frameworks):
        module, extra = INSTALLED_AS[framework]
        if importlib.util.find_spec(module) is None:
            others = [f for f in spec.frameworks if f not in frameworks]
            raise UsageError(
                f"A local run of {spec.name} on {framework} needs {module}, which is not installed"
                f" beside k8sbench ({sys.executable}).",
                f"Install it: pip install 'k8sbench[{extra}]'"
                + (f"; or choose --framework {others[0]}." if others else "."),
            )
