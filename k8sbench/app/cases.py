"""The cases of a request, planned: ``render`` prints them, ``submit`` runs them.

Frameworks, shapes and repeats are multiplied out, and each case is planned once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from k8sbench.app import targets
from k8sbench.catalog import plan_choices
from k8sbench.catalog.plan_choices import Site
from k8sbench.catalog.planning import LoadedSpec, make_plan
from k8sbench.catalog.spec_files import load_specs
from k8sbench.lifecycle.context import Note, Reporter
from k8sbench.lifecycle.planned_case import PlannedCase
from k8sbench.model.errors import BenchError, DoesNotFit, UsageError
from k8sbench.model.names import checked_run_id, checked_set_name
from k8sbench.model.plan import RunPlan
from k8sbench.model.request import SubmitRequest
from k8sbench.ports.cluster import Manifest

if TYPE_CHECKING:
    from k8sbench.adapters.kubernetes.client.api import Api
    from k8sbench.model.kube import KubeObject


def plan_cases(
    benchmarks: Sequence[LoadedSpec],
    request: SubmitRequest,
    site: Site,
    note: Note,
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
    from k8sbench.adapters import templates
    from k8sbench.render.manifest import manifests

    trainers = templates.trainer_sources()
    loaded_templates = templates.load_templates()
    render = functools.partial(manifests, templates=loaded_templates, trainers=trainers)
    planned: list[PlannedCase] = []
    left_out: list[UsageError] = []
    for loaded in benchmarks:
        spec = loaded.spec
        if len(benchmarks) > 1 and request.framework not in (None, "all", *spec.frameworks):
            left_out.append(UsageError(f"No benchmark has a variant for {request.framework}."))
            note(f"left out: {spec.name}: it has no variant for {request.framework}.")
            continue
        for single, repeats in plan_choices.split_cases(spec, request):
            try:
                draft = make_plan(loaded, single, site, trainers_digest=trainers.digest)
            except DoesNotFit as error:
                if not request.all_cases and len(benchmarks) == 1:
                    raise
                left_out.append(error)
                shape = f"{single.replicas or 1}x{single.gpus or 1}"
                note(f"left out: {spec.name} {shape}: {error.message}")
                continue
            if site.backend == "local":
                from k8sbench.adapters.local import cluster

                cluster.check_files(draft)
            planned.append(
                PlannedCase(
                    draft=draft,
                    repeats=repeats,
                    benchmark_file=loaded.text,
                    manifests=render,
                )
            )
    if not planned:
        raise left_out[0]
    return tuple(sorted(planned, key=lambda case: case.draft.world_size > 1))


def drop_refused(
    planned: Sequence[PlannedCase],
    refusal: Callable[[RunPlan], UsageError | None],
    note: Note,
) -> tuple[PlannedCase, ...]:
    """Leave out the refused cases, each with a note; raises the refusal if none is left."""
    fitting: list[PlannedCase] = []
    refused = None
    for case in planned:
        if (error := refusal(case.draft)) is None:
            fitting.append(case)
        else:
            refused = error
            if len(planned) > 1:
                note(f"left out: {error.message}")
    if refused is not None and not fitting:
        raise refused
    return tuple(fitting)


def drop_too_large(planned: Sequence[PlannedCase], api: Api, note: Note) -> tuple[PlannedCase, ...]:
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
    return drop_refused(planned, functools.partial(nodes.no_room, of_pool), note)


def note_repeats(planned: Sequence[PlannedCase], note: Note) -> None:
    """Note that a case's manifest stands for those of all its runs."""
    most = max(case.repeats for case in planned)
    if most > 1:
        note(f"{most} runs a case: their manifests differ in the name and number of the run.")


def render(
    request: SubmitRequest, reporter: Reporter, *, run_id: str | None, set_name: str
) -> list[Manifest]:
    """Plan and render each case; reports the plans.

    Without ``run_id`` the benchmark's name stands in the id's place; several cases are numbered.
    """
    benchmarks = load_specs(request.benchmark)
    site = targets.choose_site(request)
    prepared = plan_cases(benchmarks, request, site, reporter.note)
    first = benchmarks[0].spec.name if len(benchmarks) == 1 else request.benchmark
    name = run_id or f"{first[:30].rstrip('-')}-example"
    note_repeats(prepared, reporter.note)
    objects: list[Manifest] = []
    for number, case in enumerate(prepared, start=1):
        suffix = "" if len(prepared) == 1 else f"-{number}"
        plan = case.plan(checked_run_id(name + suffix), checked_set_name(set_name))
        reporter.plan(plan)
        # The trainers are the same for all.
        objects += [made for made in case.manifests(plan) if made not in objects]
    return objects
