"""A group in words: precision, state, marks and distinct names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from k8sbench.model import speed_options
from k8sbench.model.finding import Finding
from k8sbench.model.group import Group, Spread
from k8sbench.model.measurement import Measurement
from k8sbench.model.plan import SMOKE_MARK
from k8sbench.report import formats


def precision(group: Group) -> str:
    """Write the requested precision, AMP type, and a different effective precision."""
    plan, effective = group.plan, group.precision_effective
    requested = f"amp ({plan.amp_dtype})" if plan.amp_dtype else plan.precision
    if effective in (None, plan.precision):
        return requested
    return f"{requested}, in effect {effective}"


def no_figure(group: Group) -> str:
    """Tell why a group without a valid run has no figure."""
    if group.state == "running":
        return "running"
    return f"{group.state}: {', '.join(group.ids('reject')) or 'no reason known'}"


def run_rate(rate: float | None, unverified: float | None, unit: str) -> str:
    """Write a run's figure, its unverified figure, or "no figure"."""
    if rate is not None:
        return f"{formats.rate(rate)} {unit}"
    if unverified is not None:
        return f"{formats.rate(unverified)} {unit} does not count"
    return "no figure"


def trained(measured: Measurement) -> str:
    """Write a training's best result: ``top-1 49.333 % (40 % after 98.109 s)``.

    Empty without evaluations.
    """
    reached = measured.accuracy
    if reached is None:
        return ""
    unit = "" if reached.unit == "unknown" else f" {reached.unit}"
    words = f"{reached.metric} {formats.plain(reached.best, 5)}{unit}"
    if measured.target is None:
        return words
    if measured.time_to_train_s is None:
        return f"{words} ({measured.target:g} % not reached)"
    return f"{words} ({measured.target:g} % after {formats.seconds(measured.time_to_train_s)} s)"


def interval(spread: Spread) -> str | None:
    """Write an interval with its coverage; None without one."""
    if spread.low is None or spread.high is None or spread.coverage is None:
        return None
    ends = f"{formats.rate(spread.low)}–{formats.rate(spread.high)}"
    return f"{ends} ({formats.coverage(spread.coverage)})"


def marks(group: Group) -> tuple[str, ...]:
    """Return the marks of a row, for its reader."""
    found = []
    if group.smoke:
        found.append(f"smoke{' (CPU)' if group.on_cpu else ''}: {SMOKE_MARK}")
    elif group.on_cpu:
        found.append("CPU: no GPU was measured")
    if group.plan.mode != "throughput":
        found.append(f"mode {group.plan.mode}")
    if group.key.data == "synthetic-host":
        found.append(f"data {group.key.data}")
    found += speed_options.words(group.plan.options)
    # In half precision it decides half of the speed, and programs have either one as their default.
    is_layout_open = group.plan.precision == "amp" and "channels-last" not in group.plan.options
    if group.layout is not None and is_layout_open and not group.smoke:
        found.append(group.layout)
    if group.spread is not None and group.ids("reject"):
        found.append(f"left out: {', '.join(group.ids('reject'))}")
    if group.spread is not None and group.in_progress:
        found.append(f"{group.in_progress} still running")
    if group.accepted_ids:
        found.append(f"accepted: {', '.join(group.accepted_ids)}")
    if group.ids("warn"):
        found.append(f"warn: {', '.join(group.ids('warn'))}")
    return tuple(found)


def units(groups: Iterable[Group]) -> dict[str, str]:
    """Map each unit of throughput → the unit with its benchmarks."""
    found = dict.fromkeys((group.unit, group.key.benchmark) for group in groups)
    return {unit: f"{unit} of {', '.join(n for u, n in found if u == unit)}" for unit, _ in found}


def reasons(group: Group, kind: str) -> tuple[str, ...]:
    """Write the reasons of one kind (``reject``, ``warn``, ``accepted``) without repeats."""
    found: dict[tuple[str, str], list[str]] = {}
    for run_ids, reason in _of_kind(group, kind):
        text = f"{reason.sentence}{_evidence(reason)}"
        found.setdefault((reason.id, text), []).extend(run_ids)
    return tuple(f"{name}{_of_runs(ids)}: {text}" for (name, text), ids in found.items())


def footnotes(group: Group, kind: str) -> tuple[str, ...]:
    """Write a table's reasons: each id once, first sentence, number of runs."""
    found: dict[str, tuple[str, list[str]]] = {}
    for run_ids, reason in _of_kind(group, kind):
        found.setdefault(reason.id, (reason.sentence, []))[1].extend(run_ids)
    return tuple(f"{name}{_of_runs(ids)}: {text}" for name, (text, ids) in found.items())


def _of_kind(group: Group, kind: str) -> Iterator[tuple[list[str], Finding]]:
    """Yield the reasons of the group, without run ids, and of its runs."""
    of_runs = (([run.run_id], reason) for run in group.members for reason in run.reasons)
    of_group: list[tuple[list[str], Finding]] = [([], reason) for reason in group.reasons]
    for run_ids, reason in (*of_group, *of_runs):
        if ("accepted" if reason.accepted else reason.severity) == kind:
            yield run_ids, reason


def _of_runs(run_ids: Sequence[str]) -> str:
    """Name the run of a reason, or count the runs."""
    named = run_ids[0] if len(run_ids) == 1 else f"{len(run_ids)} runs"
    return f" ({named})" if run_ids else ""


def _evidence(reason: Finding) -> str:
    """Name the first place; ``-o json`` has them all."""
    if not reason.evidence:
        return ""
    first, more = reason.evidence[0], len(reason.evidence) - 1
    return f" See {first.file}:{first.line}{f' and {more} more' if more else ''}."


def unique_names(
    groups: Sequence[Group], base: Callable[[Group], str], *more: str
) -> dict[str, str]:
    """Map group id → unique name: ``base`` and distinguishing words.

    The words are ``precision``, ``batch`` and the fields of a group's key.
    """
    names = {group.key.id: base(group) for group in groups}
    for name in more:
        longer = {
            group.key.id: f"{names[group.key.id]} {word(group, name)}".rstrip() for group in groups
        }
        if len(set(longer.values())) > len(set(names.values())):
            names = longer
    count = Counter(names.values())
    return {group: f"{name} {group}" if count[name] > 1 else name for group, name in names.items()}


def word(group: Group, name: str) -> str:
    """Write a word of a group's name; empty without one."""
    if name == "precision":
        return precision(group)
    if name == "batch":
        return f"batch {group.key.batch_size}"
    value = str(getattr(group.key, name))
    return "" if value == "-" else value
