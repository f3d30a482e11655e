"""From what was asked for to the cases that will run, each planned once.

Frameworks, shapes and repeats are multiplied out; ``submit`` and ``render`` share it.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from k8sbench.app import catalog, targets
from k8sbench.lifecycle import submitting
from k8sbench.lifecycle.context import PlannedCase, Reporter, RunContext
from k8sbench.model import choices, sources
from k8sbench.model.choices import Site
from k8sbench.model.errors import BenchError, DoesNotFit, UsageError
from k8sbench.model.identity import case_key, checked_run_id, checked_set_name
from k8sbench.model.plan import RunPlan
from k8sbench.model.planning import LoadedSpec, describe, make_plan
from k8sbench.model.request import SubmitRequest
from k8sbench.model.run import Run
from k8sbench.model.spec import BenchmarkSpec
from k8sbench.ports import Manifest

if TYPE_CHECKING:
    from k8sbench.adapters.kubernetes.client.api import Api
    from k8sbench.model.kube import KubeObject


def prepare(
    benchmarks: Sequence[LoadedSpec],
    request: SubmitRequest,
    site: Site,
    note: Callable[[str], None],
) -> tuple[PlannedCase, ...]:
    """Plan each requested case once, baselines (1x1) first.

    Speedup needs the baselines. Raises :class:`UsageError` for a case that cannot run. With
    ``--all-cases`` or all benchmarks, cases that the pool or the machine cannot hold are left out,
    with a note.
    """
    if len(benchmarks) > 1 and request.variant is not None:
        raise UsageError(
            "--variant names a variant of one benchmark.", "Name that benchmark, or leave it out."
        )
    from k8sbench.adapters.files import packaged
    from k8sbench.render.manifest import manifests, of_job, to_yaml

    trainers = packaged.trainer_sources()
    templates = packaged.load_templates()
    render = functools.partial(manifests, templates=templates, trainers=trainers)
    planned: list[PlannedCase] = []
    left_out: list[UsageError] = []
    for loaded in benchmarks:
        spec = loaded.spec
        if len(benchmarks) > 1 and request.framework not in (None, "all", *spec.frameworks):
            left_out.append(UsageError(f"No benchmark has a variant for {request.framework}."))
            note(f"left out: {spec.name}: it has no variant for {request.framework}.")
            continue
        for single, repeats in single_cases(spec, request):
            try:
                draft = make_plan(loaded, single, site, trainers_digest=trainers.digest)
            except DoesNotFit as error:
                if not request.all_cases and len(benchmarks) == 1:
                    raise
                left_out.append(error)
                shape = f"{single.replicas or 1}x{single.gpus or 1}"
                note(f"left out: {spec.name} {shape}: {error.message}")
                continue
            check_here(draft)
            planned.append(
                PlannedCase(
                    draft=draft,
                    repeats=repeats,
                    benchmark_file=loaded.text,
                    manifests=render,
                    text=lambda made: to_yaml(of_job(made)),
                )
            )
    if not planned:
        raise left_out[0]
    return tuple(sorted(planned, key=lambda case: case.draft.world_size > 1))


def render(
    request: SubmitRequest, reporter: Reporter, *, run_id: str | None, set_name: str
) -> list[Manifest]:
    """Plan and render each case; reports the plans.

    Without ``run_id`` the benchmark's name stands in the id's place; several cases are numbered.
    """
    benchmarks = catalog.named(request.benchmark)
    site = targets.for_render(request).site
    prepared = prepare(benchmarks, request, site, reporter.note)
    first = benchmarks[0].spec.name if len(benchmarks) == 1 else request.benchmark
    name = run_id or f"{first[:30].rstrip('-')}-example"
    objects: list[Manifest] = []
    for number, case in enumerate(prepared, start=1):
        suffix = "" if len(prepared) == 1 else f"-{number}"
        plan = case.plan(checked_run_id(name + suffix), checked_set_name(set_name))
        reporter.plan(plan)
        # The trainers are the same for all.
        objects += [made for made in case.manifests(plan) if made not in objects]
    return objects


def pinned(case: PlannedCase, nodes: Sequence[str]) -> list[PlannedCase]:
    """Return the same case once for each node alone."""
    drafts = (msgspec.structs.replace(case.draft, node=node) for node in nodes)
    return [msgspec.structs.replace(case, draft=draft) for draft in drafts]


def single_cases(
    spec: BenchmarkSpec, request: SubmitRequest
) -> Iterator[tuple[SubmitRequest, int]]:
    """Yield a request and its number of runs per framework and shape."""
    frameworks = spec.frameworks if request.framework == "all" else (request.framework,)
    for framework in frameworks:
        single = msgspec.structs.replace(request, framework=framework, all_cases=False)
        _, variant = choices.choose_variant(spec, framework, request.variant)
        repeats = request.repeats or (variant.repeats if request.all_cases else 1)
        if not request.all_cases:
            yield single, repeats
            continue
        for case in variant.cases:
            replicas, gpus = choices.parse_case(case)
            yield msgspec.structs.replace(single, replicas=replicas, gpus=gpus), repeats


def that_fit(
    planned: Sequence[PlannedCase], api: Api, note: Callable[[str], None]
) -> tuple[PlannedCase, ...]:
    """Drop cases that need more nodes than the pool has.

    Each is noted. If nodes may not be listed, all cases stay. Raises :class:`DoesNotFit` if no case
    is left.
    """
    from k8sbench.adapters.kubernetes import listing
    from k8sbench.diagnose.preflight import nodes

    if all(case.draft.replicas == 1 for case in planned):
        return tuple(planned)
    pool = planned[0].draft.pool
    try:
        of_pool: Sequence[KubeObject] = listing.nodes(api, pool.selector)
    except BenchError as error:
        note(f"Whether pool {pool.name} holds every case is not known: {error.message}")
        return tuple(planned)
    fitting: list[PlannedCase] = []
    why = DoesNotFit("There is not a case.")
    for case in planned:
        plan = case.draft
        room = nodes.room(of_pool, plan)
        if plan.replicas <= room:
            fitting.append(case)
            continue
        text = f"pool {pool.name} has room for {room} of its {plan.replicas} replicas"
        why = DoesNotFit(
            f"{plan.benchmark} {plan.case}: {text}.",
            "Give --wait where an autoscaler adds nodes, or choose another --node-pool.",
        )
        note(f"left out: {plan.benchmark} {plan.framework} {plan.case}: {text}.")
    if not fitting:
        raise why
    return tuple(fitting)


def resumed(
    planned: Sequence[PlannedCase], context: RunContext, set_name: str, reporter: Reporter
) -> tuple[list[Run], list[PlannedCase]]:
    """Return a set's valid runs, and the cases to join or start.

    Counts at most ``repeats`` runs per case, and notes what exists.
    """
    has = submitting.repeats(context, set_name)
    finished: list[Run] = []
    to_do: list[PlannedCase] = []
    for case in planned:
        found = has.get(case_key(case.draft), submitting.Repeats())
        done = found.finished[: case.repeats]
        open_runs = (*found.open, *found.broken_off)[: case.repeats - len(done)]
        missing = case.repeats - len(done) - len(open_runs)
        reporter.note(describe(case.draft))
        exist = "exists" if len(done) == 1 else "exist"
        goes_on = f", {len(open_runs)} to be followed or continued" if open_runs else ""
        nothing = "" if missing or open_runs else ": nothing to do"
        reporter.note(f"  {len(done)} of {case.repeats} {exist} already{goes_on}{nothing}")
        finished += done
        to_do += [msgspec.structs.replace(case, joins=run.run_id) for run in open_runs]
        to_do += [case] * missing
    return finished, to_do


def check_here(plan: RunPlan) -> None:
    """Check the files of a local run; raises :class:`UsageError`, exit code 2."""
    for option, path, kind, fits in (
        ("--data", _path(plan.data), "folder", Path.is_dir),
        ("--weights", _path(plan.weights), "file", Path.is_file),
    ):
        if path is not None and not (os.access(path, os.R_OK) and fits(path)):
            raise UsageError(
                f"{option}: there is no {kind} {path} that you may read.",
                f"Name the {kind} that is meant.",
            )
    if (folder := _path(plan.checkpoints)) is not None:
        # The run makes what is missing of it.
        parent = next(path for path in (folder, *folder.parents) if os.access(path, os.F_OK))
        if not (parent.is_dir() and os.access(parent, os.W_OK | os.X_OK)):
            raise UsageError(
                f"--checkpoints {folder}: {parent} is not a folder that you may write to.",
                "Name another folder.",
            )


def check_objects(api: Api, plans: Sequence[RunPlan]) -> None:
    """Check claims and queue of all plans; raises :class:`Unreachable`, exit code 6."""
    some = [plan for plan in plans if sources.claims(plan) or plan.queue is not None]
    if not some:
        return
    from k8sbench.adapters.kubernetes import preflight

    # One command names one queue and one pool.
    different = {(*sources.claims(plan).items(), plan.replicas > 1): plan for plan in some}
    for plan in different.values():
        preflight.refuse(api, plan)


def _path(place: str | None) -> Path | None:
    if place is None or not place.startswith("path:"):
        return None
    return Path(place.removeprefix("path:"))
