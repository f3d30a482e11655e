"""From what was asked for to the cases that will run, each planned once.

Frameworks, shapes and repeats are multiplied out; ``submit`` and ``render`` share it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

from k8sbench.app import places
from k8sbench.app.targets import TargetOptions
from k8sbench.model import choices
from k8sbench.model.choices import Request, Site
from k8sbench.model.errors import DoesNotFit, UsageError
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
    """Name in the catalog, ``all``, or path of a file."""
    request: Request
    selection: Selection
    target: TargetOptions


def prepare(
    found: Sequence[LoadedSpec], options: CaseOptions, site: Site, note: Callable[[str], None]
) -> tuple[PlannedCase, ...]:
    """Plan each case that was asked for, once: the baselines (1x1) first, as speedup needs them.

    Raises :class:`UsageError` for what cannot run. Of ``--all-cases`` and of all benchmarks, what
    the pool or the machine cannot hold is left out, and that is noted.
    """
    from k8sbench.adapters.files import templates, trainer_sources
    from k8sbench.render import Repeats, manifests

    sources = trainer_sources.read()
    render = functools.partial(manifests, templates=templates.load(), trainers=sources)
    planned: list[PlannedCase] = []
    left_out: list[UsageError] = []
    for loaded, request, count in _wanted(found, options, left_out, note):
        source = SpecSource(digest=loaded.digest, source=loaded.source)
        try:
            draft = make_draft(loaded.spec, source, request, site, trainers_digest=sources.digest)
        except DoesNotFit as wrong:
            if not options.selection.all_cases and len(found) == 1:
                raise
            left_out.append(wrong)
            shape = f"{request.replicas or 1}x{request.gpus or 1}"
            note(f"left out: {loaded.spec.name} {shape}: {wrong.message}")
            continue
        places.check_here(draft)
        of_runs = Repeats(draft, render)
        planned.append(
            PlannedCase(draft=draft, repeats=count, manifests=of_runs.manifests, text=of_runs.text)
        )
    if not planned:
        raise left_out[0]
    return tuple(sorted(planned, key=lambda case: case.draft.world_size > 1))


def pinned(case: PlannedCase, node: str) -> PlannedCase:
    """Return the same case for one node alone."""
    from k8sbench.adapters.files import templates, trainer_sources
    from k8sbench.render import Repeats, manifests

    sources = trainer_sources.read()
    render = functools.partial(manifests, templates=templates.load(), trainers=sources)
    draft = msgspec.structs.replace(case.draft, node=node)
    of_runs = Repeats(draft, render)
    return msgspec.structs.replace(
        case, draft=draft, manifests=of_runs.manifests, text=of_runs.text
    )


def _wanted(
    found: Sequence[LoadedSpec],
    options: CaseOptions,
    left_out: list[UsageError],
    note: Callable[[str], None],
) -> Iterator[tuple[LoadedSpec, Request, int]]:
    """Yield each single case; of several benchmarks those without the framework are left out."""
    framework = options.selection.framework
    if len(found) > 1 and options.request.variant is not None:
        raise UsageError(
            "--variant names a variant of one benchmark.", "Name that benchmark, or leave it out."
        )
    for loaded in found:
        if len(found) > 1 and framework not in (None, "all", *loaded.spec.frameworks):
            left_out.append(UsageError(f"No benchmark has a variant for {framework}."))
            note(f"left out: {loaded.spec.name}: it has no variant for {framework}.")
            continue
        for request, count in requests(loaded.spec, options.request, options.selection):
            yield loaded, request, count


def requests(
    spec: BenchmarkSpec, request: Request, selection: Selection
) -> Iterator[tuple[Request, int]]:
    """Yield each single case that was asked for, with its number of repeats."""
    if selection.repeats is not None and not 1 <= selection.repeats <= MOST_REPEATS:
        raise UsageError(
            f"--repeats {selection.repeats} is not a number of runs.", f"Give 1 to {MOST_REPEATS}."
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
