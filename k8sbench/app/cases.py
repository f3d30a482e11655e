"""From what was asked for to the cases that will run, each planned once.

Frameworks, shapes and repeats are multiplied out; ``submit`` and ``render`` share it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

from k8sbench.app.targets import TargetOptions
from k8sbench.model import choices
from k8sbench.model.choices import Request, Site
from k8sbench.model.errors import UsageError
from k8sbench.model.planning import SpecSource, make_draft
from k8sbench.model.spec import BenchmarkSpec, Framework
from k8sbench.runs.context import PlannedCase

if TYPE_CHECKING:
    from k8sbench.app.catalog import LoadedSpec

MOST_REPEATS = 1000


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """Which cases are wanted of one benchmark."""

    framework: Literal["pytorch", "paddle", "all"] | None = None
    case: str | None = None
    all_cases: bool = False
    repeats: int | None = None


class CaseOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for, sorted by who needs it."""

    benchmark: str
    """Name in the catalog, or path of a file."""
    request: Request
    selection: Selection
    target: TargetOptions


def prepare(found: LoadedSpec, options: CaseOptions, site: Site) -> tuple[PlannedCase, ...]:
    """Plan each case that was asked for, once; raises :class:`UsageError` for what cannot run."""
    from k8sbench.adapters.files import templates, trainer_sources
    from k8sbench.render import Repeats, manifests

    sources = trainer_sources.read()
    render = functools.partial(manifests, templates=templates.load(), trainers=sources)
    planned: list[PlannedCase] = []
    for request, count in requests(found.spec, options.request, options.selection):
        source = SpecSource(digest=found.digest, source=found.source)
        draft = make_draft(found.spec, source, request, site, trainers_digest=sources.digest)
        of_runs = Repeats(draft, render)
        planned.append(
            PlannedCase(draft=draft, repeats=count, manifests=of_runs.manifests, text=of_runs.text)
        )
    return tuple(planned)


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
