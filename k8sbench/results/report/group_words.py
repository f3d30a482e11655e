"""Groups and nodes in words: precision, state, marks, names, commands, verdicts."""

from __future__ import annotations

import functools
import math
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from k8sbench.model.compared import NewCase
from k8sbench.model.errors import Finding
from k8sbench.model.group import IMPORTED, Changed, Group, Result, Spread
from k8sbench.model.identity import NOT_STATED, UNKNOWN
from k8sbench.model.measurement import AccuracyResult, Measurement
from k8sbench.model.plain_text import ABSENT, counted, significant
from k8sbench.model.plan import SMOKE_MARK, RunPlan
from k8sbench.model.rules import ENDS_EARLY
from k8sbench.model.series import Alternation
from k8sbench.model.speed_options import option_words, speed_options_of
from k8sbench.results.report import formats, range_words

if TYPE_CHECKING:
    from k8sbench.results.groups.node_check import JudgedNodes, NodeLimits

BACK = "back after one night"
"""Verdict of a case whose set before differed once."""


def change(changed: Changed, size: str = "", *, own: str = "") -> str:
    """Write a change of a case over its sets: ``−5.0 % since night-10 (unconfirmed)``.

    ``size`` replaces its own, for several cases. Where it begins with the set ``own``, it does not
    name that.
    """
    size = size or formats.signed_percent(changed.ratio)
    shared = f", all {changed.together} cases together" if changed.together else ""
    if changed.kind == "back":
        return f"{BACK} ({size} in {changed.since}){shared}"
    since = "" if changed.since == own else f" since {changed.since}"
    if changed.until is not None:
        since = f" in the course of {changed.since} to {changed.until}"
    kind = "" if changed.kind == "step" else f" ({changed.kind})"
    return f"{size}{since}{kind}{shared}"


AS_FAST = 0.005
"""Difference of a new case from the one before below which it is as fast."""
ON = {"pool", "gpu_model", "node", "backend", "namespace"}
"""Fields of a case that it runs on."""
_TITLES = {"gpu_model": "GPU model", "amp_dtype": "half type", "batch_size": "batch"}
"""Field of the case list → its words, where the name is not plain."""


def new_case(new: NewCase, unit: str, size: str = "") -> str:
    """Write what is new of a case: ``new since night-08: pool b; 2.9 % slower than on pool a``.

    ``size`` is the range of the changes of several cases, in place of its own.
    """
    values = ", ".join(_field(one.name, one.b) for one in new.fields)
    former = ", ".join(_field(one.name, one.a) for one in new.fields)
    place = f"{'on' if all(one.name in ON for one in new.fields) else 'with'} {former}"
    begin = f"new since {new.since}: {values}"
    if new.ratio is None:
        figures = f"{formats.rate(new.b)} {unit}, {formats.rate(new.a)} {place}"
        return f"{begin}; {figures} (not comparable: {formats.unlike(new.not_comparable)})"
    if size:
        return f"{begin}; {size} against {former}"
    if is_as_fast(new.ratio):
        return f"{begin}; as fast as {place}"
    share = formats.percent(abs(new.ratio - 1))
    kind = "faster" if new.ratio > 1 else "slower"
    return f"{begin}; {share} {kind} than {place}"


def is_as_fast(ratio: float) -> bool:
    """True if a new case is as fast as the one before, to what the series of two cases can show."""
    return abs(ratio - 1) < AS_FAST


def _field(name: str, value: str) -> str:
    title = _TITLES.get(name, name.replace("_", " "))
    return f"no {title}" if value == NOT_STATED else f"{title} {value}"


def alternation(levels: Alternation, unit: str) -> str:
    """Write between which levels a case alternates, and how far they are apart."""
    apart = formats.percent(math.expm1(levels.high - levels.low))
    low = formats.rate(math.exp(levels.low))
    high = formats.rate(math.exp(levels.high))
    return f"alternates between two levels, {apart} apart: {low} and {high} {unit}"


def levels(found: Alternation) -> dict[str, float]:
    """Build the fields of two levels: throughputs."""
    return {"low": math.exp(found.low), "high": math.exp(found.high)}


NO_GPU = "CPU processes: no GPU was used"
"""Reason why a row has no number of GPUs."""


def precision(group: Group) -> str:
    """Write the requested precision, AMP type, and a different effective precision."""
    facts, effective = group.facts, group.precision_effective
    requested = f"amp ({facts.amp_dtype})" if facts.amp_dtype else facts.precision or ABSENT
    if effective in (None, facts.precision):
        return requested
    return f"{requested}, in effect {effective}"


def state(group: Group) -> str:
    """Write the state of a row; of a smoke run ``ok (smoke)``, never valid."""
    if not group.smoke:
        return group.state
    return f"{'ok' if group.state == 'valid' else group.state} (smoke)"


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


def without_training(group: Group) -> str:
    """Tell why a group states nothing of a training to an accuracy."""
    if group.facts.backend == "imported":
        return IMPORTED
    if group.facts.mode == "train":
        return "no valid figure"
    return "the runs do not train to an accuracy"


def trained(measured: Measurement) -> str:
    """Write a training's best result: ``top-1 49.333 % (40 % after 98.109 s)``.

    Empty without evaluations.
    """
    reached = measured.accuracy
    if reached is None:
        return ""
    unit = {"unknown": "", "fraction": " %"}.get(reached.unit, f" {reached.unit}")
    words = f"{reached.metric} {percent(reached)}{unit}"
    if measured.target is None:
        return words
    if measured.time_to_train_s is not None:
        when = f"after {formats.seconds(measured.time_to_train_s)} s"
    else:
        when = "reached, time unknown" if measured.is_at_target else "not reached"
    return f"{words} ({measured.target:g} % {when})"


def percent(reached: AccuracyResult, value: float | None = None) -> str:
    """Write an accuracy, by default the best, in percent without its sign."""
    value = reached.best if value is None else value
    return significant(value * (100 if reached.unit == "fraction" else 1), 5)


def accuracy(group: Group) -> str | None:
    """Write the accuracy that belongs beside a time to train, in percent.

    With a time that of the evaluation which ends it, else the best; marked if a run ended early.
    None without evaluations.
    """
    found = group.accuracy
    if found is None:
        return None
    if group.time_to_train_s is not None:
        return percent(found, found.at_target)
    counted = (member for member in group.members if member.rate is not None)
    is_part = any(reason.id == ENDS_EARLY.id for member in counted for reason in member.reasons)
    return percent(found) + " (unfinished)" * is_part


def interval(spread: Spread) -> str | None:
    """Write the 95 % interval; None without one."""
    if spread.low is None or spread.high is None:
        return None
    return f"{formats.rate(spread.low)}–{formats.rate(spread.high)}"


def marks(group: Group) -> tuple[str, ...]:
    """Return the marks of a row, for its reader."""
    found = []
    if group.smoke:
        found.append(f"smoke{' (CPU)' if group.on_cpu else ''}: {SMOKE_MARK}")
    elif group.on_cpu:
        found.append("CPU: no GPU was measured")
    if group.facts.mode != "throughput":
        found.append(f"mode {group.facts.mode}")
    if group.key.data == "synthetic-host":
        found.append(f"data {group.key.data}")
    found += option_words(group.facts.options)
    # In half precision it decides half of the speed, and programs have either one as their default.
    is_layout_open = group.facts.precision == "amp" and "channels-last" not in group.facts.options
    if group.layout is not None and is_layout_open and not group.smoke:
        found.append(f"{group.layout}: memory layout of the images")
    if group.spread is not None and group.ids("reject"):
        found.append(f"left out: {', '.join(group.ids('reject'))}")
    if group.spread is not None and group.in_progress:
        found.append(f"{group.in_progress} still running")
    for kind in ("accepted", "warn"):
        if ids := group.ids(kind):
            found.append(f"{kind}: {', '.join(ids)}")
    if (of_range := range_words.mark(group)) is not None:
        found.append(of_range)
    return tuple(found)


def dates(groups: Sequence[Group], unstated: str) -> str:
    """Write the days of the runs, and ``unstated`` if some logs have no dates."""
    days = formats.days(at for group in groups for at in group.dates or ())
    is_known = all(group.dates for group in groups)
    return days if is_known else ", ".join(filter(None, (days, unstated)))


def units(groups: Iterable[Group]) -> dict[str, str]:
    """Map each unit of throughput → the unit with its benchmarks."""
    found = dict.fromkeys((group.unit, group.key.benchmark) for group in groups)
    return {unit: f"{unit} of {', '.join(n for u, n in found if u == unit)}" for unit, _ in found}


def reasons(group: Group, kind: str, *, is_short: bool = False) -> tuple[str, ...]:
    """Write the reasons of one kind (``reject``, ``warn``, ``accepted``) without repeats.

    ``is_short``: each id once with its first sentence, as below a table.
    """
    found: dict[tuple[str, str], tuple[str, list[str]]] = {}
    for run_ids, reason in _select_kind(group, kind):
        text = reason.sentence + ("" if is_short else _evidence(reason))
        found.setdefault((reason.id, "" if is_short else text), (text, []))[1].extend(run_ids)
    return tuple(f"{name}{_name_runs(ids)}: {text}" for (name, _), (text, ids) in found.items())


footnotes = functools.partial(reasons, is_short=True)
"""Reasons below a table."""


def _select_kind(group: Group, kind: str) -> Iterator[tuple[list[str], Finding]]:
    """Yield the reasons of the group, without run ids, and of its runs."""
    of_runs = (([run.run_id], reason) for run in group.members for reason in run.reasons)
    of_group: list[tuple[list[str], Finding]] = [([], reason) for reason in group.reasons]
    for run_ids, reason in (*of_group, *of_runs):
        if reason.kind == kind:
            yield run_ids, reason


def _name_runs(run_ids: Sequence[str]) -> str:
    """Name the run of a reason, or count the runs."""
    named = run_ids[0] if len(run_ids) == 1 else f"{len(run_ids)} runs"
    return f" ({named})" if run_ids else ""


def _evidence(reason: Finding) -> str:
    """Name the first place; ``-o json`` has them all."""
    if not reason.evidence:
        return ""
    first = reason.evidence[0]
    more = len(reason.evidence) - 1
    return f" See {first.file}:{first.line}{f' and {more} more' if more else ''}."


# -- what tells rows apart ------------------------------------------------------------------------


def _read_key(name: str) -> Callable[[Group], object]:
    return lambda group: getattr(group.key, name)


TELL_APART: dict[str, Callable[[Group], object]] = {
    "GPU model": _read_key("gpu_model"),
    "half type": _read_key("amp_dtype"),
    "case": lambda group: group.facts.case,
    "node": _read_key("node"),
    "namespace": _read_key("namespace"),
    "measured by": _read_key("measured_by"),
    "variant": _read_key("variant"),
    "impl": _read_key("impl"),
    "batch": lambda group: group.facts.batch_size,
    **{name: _read_key(name) for name in ("preset", "mode", "training", "data")},
    "window": lambda group: group.window,
    **{name: _read_key(name) for name in ("options", "pool")},
    "set": _read_key("set_name"),
    "backend": _read_key("backend"),
    "image": _read_key("image"),
    "program": lambda group: group.program,
    "group": lambda group: group.key.id,
}
"""Heading → value of a row; the first that tell rows apart are taken."""


def value(group: Group, title: str) -> str:
    """Write one of :data:`TELL_APART`; empty if unknown."""
    text = str(TELL_APART[title](group))
    return "" if text in ("-", "unknown", "None") else text


def word(group: Group, title: str) -> str:
    """Write a value for a name: ``batch 128``; others speak for themselves."""
    text = value(group, title)
    return f"{title} {text}" if title in ("batch", "window") and text else text


def telling(rows: Iterable[object], more: Mapping[str, Sequence[str]]) -> list[str]:
    """Select what tells rows apart that are equal so far, in order."""
    told = list(rows)
    kept = list[str]()
    for title, texts in more.items():
        longer = list(zip(told, texts, strict=True))
        if len(set(longer)) > len(set(told)):
            told = [*longer]
            kept = [*kept, title]
    return kept


def case_name(group: Group) -> str:
    """Write the case of a row: ``resnet50 pytorch fp32 1x8``."""
    facts = group.facts
    stated = (group.key.benchmark, facts.framework, facts.precision, facts.case)
    return " ".join(filter(None, stated))


def with_batch(group: Group) -> str:
    """Write the case of a row, and its batch per GPU."""
    return f"{case_name(group)} batch {group.key.batch_size}"


def has_several_models(groups: Iterable[Group]) -> bool:
    """True if rows have several GPU models, so that each row names its own."""
    return len({group.key.gpu_model for group in groups} - {UNKNOWN}) > 1


def with_models(
    groups: Iterable[Group],
    base: Callable[[Group], str] = case_name,
    *,
    is_of_several: bool = False,
) -> Callable[[Group], str]:
    """Return ``base``, followed by the GPU model if the groups have several.

    Also if what they were chosen from has: ``is_of_several``.
    """
    if not is_of_several and not has_several_models(groups):
        return base
    return lambda group: f"{base(group)} {value(group, 'GPU model')}".rstrip()


def names(
    groups: Sequence[Group],
    base: Callable[[Group], str] = case_name,
    written: Callable[[str], str] = str,
    but: Collection[str] = (),
) -> dict[str, str]:
    """Map group id → unique name: ``base``, and what tells it from the others.

    ``written`` changes a word; words that become empty tell nothing. ``but`` are headings of
    :data:`TELL_APART` that no name has.
    """
    words = {t: [written(word(group, t)) for group in groups] for t in TELL_APART if t not in but}
    told = telling(map(base, groups), words)
    return {
        group.key.id: " ".join(filter(None, (base(group), *(words[t][n] for t in told))))
        for n, group in enumerate(groups)
    }


# -- commands that repeat a row -------------------------------------------------------------------


def command(plan: RunPlan | None, repeats: int = 1) -> str:
    """Write the command, for a cluster or machine of the same kind.

    Empty for imported logs, which did not run here.
    """
    if plan is None:
        return ""
    is_cluster = plan.backend == "kubernetes"
    options: dict[str, object] = {
        "framework": plan.framework,
        "variant": plan.variant,
        "impl": plan.impl,
        "replicas": plan.replicas,
        "gpus": plan.processes_per_replica,
        "precision": plan.amp_dtype or plan.precision,
        "batch-size": plan.batch_size,
        "preset": plan.preset,
        "mode": plan.mode,
        "warmup": plan.window.warmup,
        **_length(plan),
        "data": None if plan.data == "image" else plan.data.removeprefix("path:"),
        "weights": plan.weights and plan.weights.removeprefix("path:"),
        "backend": plan.backend,
        "node-pool": plan.pool.name if is_cluster else None,
        "image": plan.image if is_cluster else None,
        "repeats": repeats if repeats > 1 else None,
    }
    words = ["k8sbench", "submit"]
    words.append(plan.benchmark if plan.spec_source == "built-in" else plan.spec_source)
    for name, value in options.items():
        words += [] if value is None else [f"--{name}", str(value)]
    for name in speed_options_of(plan.framework, plan.trainer or ""):
        if name in plan.options:
            words += ["--speed-option", f"{name}={str(plan.options[name]).lower()}"]
    asked = plan.training
    if asked and asked.target is not None and not asked.stop_at_target and plan.trainer:
        words.append("--to-the-end")
    if plan.pack:
        words.append("--pack")
    return shlex.join(words)


def resuming(plan: RunPlan | None, repeats: int = 1) -> str:
    """Write the command that resumes the case in its set.

    Empty for imported logs.
    """
    if plan is None:
        return ""
    text = command(plan, repeats)
    return shlex.join([*shlex.split(text), "--resume", plan.set_name])


def _length(plan: RunPlan) -> dict[str, object]:
    """Return the options for the run's length.

    A published program trains as its command says.
    """
    asked = plan.training
    if asked is None:
        return {"iterations": plan.window.iterations}
    target = {"target": "none" if asked.target is None else f"{asked.target:g}"}
    if plan.impl != "k8sbench":
        return dict(target)
    return {asked.unit: asked.length, "evaluate-every": asked.evaluate_every, **target}


# -- the check of a pool's nodes ------------------------------------------------------------------


def remarks(found: JudgedNodes) -> dict[str, str]:
    """Map each node to cordon or to measure again → state and reason."""
    named = {*found.to_cordon, *found.to_confirm}
    return {
        one.node: f"{one.node} is {one.state}: {' '.join([*one.why, *one.slow_gpus])}"
        for one in found.nodes
        if one.node in named
    }


def remarked(results: Sequence[Result], found: JudgedNodes) -> list[Result]:
    """Sort rows of nodes, slowest first, and add remarks on the nodes."""
    of_node = remarks(found)

    def rate(row: Result) -> float:
        return row.group.spread.median if row.group.spread else float("inf")

    rows = []
    for row in sorted(results, key=rate):
        remark = of_node.get(row.group.key.node)
        judgements = (*([remark] if remark else []), *row.group.judgements)
        group = msgspec.structs.replace(row.group, judgements=judgements)
        rows.append(msgspec.structs.replace(row, group=group))
    return rows


def sentences(found: JudgedNodes) -> Iterator[str]:
    """Yield the reference, the nodes to cordon, and the nodes without a verdict."""
    lacking = [one.node for one in found.nodes if one.state == "not-measured"]
    for held in found.limits:
        yield _rule(held)
    if found.to_cordon:
        yield "Check these nodes. To keep pods away from them (nothing was cordoned yet):"
        yield f"  kubectl cordon {' '.join(found.to_cordon)}"
    elif not found.to_confirm and any(held.limit is not None for held in found.limits):
        yield f"No node {'that was measured ' if lacking else ''}is slow or faulty."
    # Why nodes of a limit are not judged stands with it.
    said = {held.reason for held in found.limits}
    not_judged = [one for one in found.nodes if one.state == "not-judged"]
    not_judged = [one for one in not_judged if one.node not in found.to_confirm]
    yield from dict.fromkeys(why for one in not_judged for why in one.why if why not in said)
    if lacking:
        yield f"Not measured, and so not judged: {', '.join(lacking)}."


def _rule(held: NodeLimits) -> str:
    kind = f"{held.alike[0]}: " if held.alike and held.alike[0] != "-" else ""
    against = "" if held.against == held.nodes else f"{held.against} of "
    of = f"{against}{counted(held.nodes, 'node')}"
    parts = [f"{kind}mean {formats.rate(held.centre)} of {of}"]
    if held.limit is not None and held.noise is not None:
        noise = formats.percent(held.noise)
        limit = formats.percent(held.limit)
        parts.append(f"noise {noise}, slow is more than {limit} below")
    text = ", ".join(parts) + "."
    return f"{text} {held.reason}" if held.reason else text
