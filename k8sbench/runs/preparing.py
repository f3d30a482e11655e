"""From what was typed to the cases that will run: frameworks, shapes and repeats multiplied out.

Pure but for what is handed in; the command line and the tests call it alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import msgspec

from k8sbench.model import choices
from k8sbench.model.choices import Request, Site
from k8sbench.model.errors import UsageError
from k8sbench.model.plan import RunPlan
from k8sbench.model.planning import SpecSource, make_plan
from k8sbench.model.spec import BenchmarkSpec, Framework
from k8sbench.ports import Manifest
from k8sbench.runs.context import PlannedCase

MOST_REPEATS = 1000


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """Which cases are wanted of one benchmark."""

    framework: Literal["pytorch", "paddle", "all"] | None = None
    case: str | None = None
    all_cases: bool = False
    repeats: int | None = None


Renderer = Callable[[RunPlan], tuple[Manifest, ...]]


def requests(
    spec: BenchmarkSpec, request: Request, selection: Selection
) -> Iterator[tuple[Request, int]]:
    """Yield each single case that was asked for, with its number of repeats."""
    if selection.repeats is not None and not 1 <= selection.repeats <= MOST_REPEATS:
        raise UsageError(
            f"--repeats {selection.repeats} is no number of runs.", f"Give 1 to {MOST_REPEATS}."
        )
    shaped = request.replicas is not None or request.gpus is not None
    if selection.case is not None and shaped:
        raise UsageError(
            "--case names replicas and GPUs already.", "Leave out --replicas and --gpus."
        )
    if selection.all_cases and (shaped or selection.case is not None):
        raise UsageError(
            "--all-cases runs the catalog's cases.", "Leave out --case, --replicas and --gpus."
        )
    frameworks: Sequence[Framework | None] = (
        spec.frameworks if selection.framework == "all" else (selection.framework,)
    )
    for framework in frameworks:
        of_framework = msgspec.structs.replace(request, framework=framework)
        _, variant = choices.choose_variant(spec, framework, request.variant)
        cases = (
            variant.cases
            if selection.all_cases
            else ()
            if selection.case is None
            else (selection.case,)
        )
        repeats = selection.repeats or (variant.repeats if selection.all_cases else 1)
        if not cases:
            yield of_framework, repeats
        for case in cases:
            replicas, gpus = choices.parse_case(case)
            yield msgspec.structs.replace(of_framework, replicas=replicas, gpus=gpus), repeats


def planned_case(
    spec: BenchmarkSpec,
    source: SpecSource,
    request: Request,
    site: Site,
    *,
    trainers_digest: str | None,
    render: Renderer,
    text: Callable[[Sequence[Manifest]], str],
) -> PlannedCase:
    """Bind one case to everything but its identity."""

    def plan(run_id: str, set_name: str, repeat: int) -> RunPlan:
        return make_plan(
            spec,
            source,
            request,
            site,
            run_id=run_id,
            set_name=set_name,
            repeat=repeat,
            trainers_digest=trainers_digest,
        )

    return PlannedCase(plan=plan, manifests=render, text=text)
