"""Groups and nodes in words: precision, state, marks, names, commands, verdicts."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

from k8sbench.messages import Note, note, quoted
from k8sbench.model import titles
from k8sbench.model.compared import NewCase
from k8sbench.model.errors import Finding
from k8sbench.model.group import IMPORTED, Changed, Group, Result, Spread
from k8sbench.model.identity import NOT_STATED, UNKNOWN
from k8sbench.model.measurement import AccuracyResult, Measurement
from k8sbench.model.plain_text import ABSENT, counted, significant
from k8sbench.model.plan import RunPlan
from k8sbench.model.rules import ENDS_EARLY
from k8sbench.model.series import Alternation
from k8sbench.model.speed_options import option_words, speed_options_of
from k8sbench.results.report import formats, range_words
from k8sbench.results.report.noted_tables import Footnote

if TYPE_CHECKING:
    from k8sbench.results.groups.node_check import JudgedNodes, NodeLimits

BACK = note("mark-back")
"""Verdict of a case whose set before differed once."""
_KINDS = {"unconfirmed", "drift", "once"}
"""Kinds of changes that are named; a step is not."""


def change(changed: Changed, size: str = "", *, own: str = "") -> Note:
    """Make the sentence of a change over sets: ``−5.0 % since night-10 (unconfirmed)``.

    ``size`` replaces its own, for several cases. Where it begins with the set ``own``, it does not
    name that.
    """
    size = size or formats.signed_percent(changed.ratio)
    if changed.kind == "back":
        said = note("back-in", change=size, set=changed.since)
    elif changed.until is not None:
        said = note("change-in-course", change=size, set=changed.since, until=changed.until)
    elif changed.since == own:
        said = note("change-own", change=size)
    else:
        said = note("change-since", change=size, set=changed.since)
    if changed.kind in _KINDS:
        said = note(f"change-{changed.kind}", what=said)
    return note("change-together", what=said, cases=changed.together) if changed.together else said


def change_of_set(changed: Changed) -> Note:
    """Make the sentence of a change with what its set itself shows."""
    said = change(changed)
    if changed.of_set is None:
        return said
    return note("set-itself", what=said, change=formats.signed_percent(changed.of_set))


AS_FAST = 0.005
"""Difference of a new case from the one before below which it is as fast."""
ON = {"pool", "gpu_model", "node", "backend", "namespace"}
"""Fields of a case that it runs on."""


def new_case(new: NewCase, unit: str, size: str = "") -> Note:
    """Say what is new of a case: ``new since night-08: pool b; 2.9 % slower than on pool a``.

    ``size`` is the range of the changes of several cases, in place of its own.
    """
    former = tuple(_field(one.name, one.a) for one in new.fields)
    place = note("on" if all(one.name in ON for one in new.fields) else "with", what=former)
    begin = note("new-since", set=new.since, what=tuple(_field(f.name, f.b) for f in new.fields))
    if new.ratio is None:
        why = formats.unlike(new.not_comparable)
        rates = {"rate": formats.rate(new.b), "former": formats.rate(new.a), "unit": unit}
        return note("new-not-comparable", begin=begin, place=place, why=why, **rates)
    if size:
        return note("new-against", begin=begin, size=size, former=former)
    if is_as_fast(new.ratio):
        return note("new-as-fast", begin=begin, place=place)
    share = formats.percent(abs(new.ratio - 1))
    kind = "new-faster" if new.ratio > 1 else "new-slower"
    return note(kind, begin=begin, place=place, share=share)


def is_as_fast(ratio: float) -> bool:
    """True if a new case is as fast as the one before, to what the series of two cases can show."""
    return abs(ratio - 1) < AS_FAST


def _field(name: str, value: str) -> Note:
    title = titles.of_field(name)
    if value == NOT_STATED:
        return note("without-fact", fact=title)
    return note("with-fact", fact=title, value=value)


def alternation(levels: Alternation, unit: str) -> Note:
    """Say between which levels a case alternates, and how far they are apart."""
    apart = formats.percent(math.expm1(levels.high - levels.low))
    low = formats.rate(math.exp(levels.low))
    high = formats.rate(math.exp(levels.high))
    return note("alternates", apart=apart, low=low, high=high, unit=unit)


def levels(found: Alternation) -> dict[str, float]:
    """Build the fields of two levels: throughputs."""
    return {"low": math.exp(found.low), "high": math.exp(found.high)}


NO_GPU = note("cpu-processes")
"""Reason why a row has no number of GPUs."""


def precision(group: Group) -> str:
    """Write the requested precision, AMP type, and a different effective precision."""
    facts, effective = group.facts, group.precision_effective
    requested = f"amp ({facts.amp_dtype})" if facts.amp_dtype else facts.precision or ABSENT
    if effective in (None, facts.precision):
        return requested
    return f"{requested}, in effect {effective}"


def state(group: Group) -> Note:
    """Return the state of a row; of a smoke run ``ok (smoke)``, never valid."""
    if not group.smoke:
        return state_of(group.state)
    if group.state == "valid":
        return note("state-ok-smoke")
    return note("state-smoke", state=state_of(group.state))


def state_of(name: str) -> Note:
    """Make the message of a state by its id."""
    return note(f"state-{name}")


def no_figure(group: Group) -> Note:
    """Tell why a group without a valid run has no figure."""
    if group.state == "running":
        return state_of("running")
    return with_ids(group)


def with_ids(group: Group) -> Note:
    """Name the state of a group and the ids of its rejections."""
    why = group.ids("reject") or note("no-reason-known")
    return note("state-why", state=state_of(group.state), why=why)


def run_rate(rate: float | None, unverified: float | None, unit: str) -> Note:
    """Write a run's figure, its unverified figure, or "no figure"."""
    if rate is not None:
        return note("name-of", name=f"{formats.rate(rate)} {unit}")
    if unverified is not None:
        return note("does-not-count", figure=f"{formats.rate(unverified)} {unit}")
    return note("no-figure")


def without_training(group: Group) -> Note:
    """Tell why a group states nothing of a training to an accuracy."""
    if group.facts.backend == "imported":
        return IMPORTED
    if group.facts.mode == "train":
        return note("no-valid-figure")
    return note("not-trained-to-accuracy")


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


def accuracy(group: Group) -> tuple[str, bool] | None:
    """Write the accuracy that belongs beside a time to train, in percent.

    With a time that of the evaluation which ends it, else the best. True if a run ended early, so
    that it might have become better. None without evaluations.
    """
    found = group.accuracy
    if found is None:
        return None
    if group.time_to_train_s is not None:
        return percent(found, found.at_target), False
    counted = (member for member in group.members if member.rate is not None)
    is_part = any(reason.id == ENDS_EARLY.id for member in counted for reason in member.reasons)
    return percent(found), is_part


def interval(spread: Spread) -> str | None:
    """Write the 95 % interval; None without one."""
    if spread.low is None or spread.high is None:
        return None
    return f"{formats.rate(spread.low)}–{formats.rate(spread.high)}"


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """A mark of a row, for its reader."""

    said: Note
    meaning: Note | None = None
    """Meaning of a mark that does not speak for itself."""
    kind: Literal["own", "smoke", "left-out", "accepted", "warn"] = "own"
    """Kind of the mark: the last three list ids of reasons."""

    @property
    def whole(self) -> Note:
        """The mark with its meaning."""
        if self.meaning is None:
            return self.said
        return note("footnote", head=self.said, said=self.meaning)

    @property
    def footnote(self) -> Footnote:
        """The mark as a note below a table."""
        if self.meaning is None:
            return Footnote(said=self.said)
        return Footnote(said=self.meaning, head=self.said)


def marks(group: Group) -> tuple[Mark, ...]:
    """Return the marks of a row."""
    found = []
    if group.smoke:
        said = note("mark-smoke-cpu" if group.on_cpu else "mark-smoke")
        found.append(Mark(said=said, meaning=note("smoke-mark"), kind="smoke"))
    elif group.on_cpu:
        found.append(Mark(said=note("mark-cpu"), meaning=note("mark-cpu-meaning")))
    if group.facts.mode != "throughput":
        found.append(Mark(said=note("mark-mode", mode=group.facts.mode)))
    if group.key.data == "synthetic-host":
        found.append(Mark(said=note("data-of", data=group.key.data)))
    options = option_words(group.facts.options)
    found += [Mark(said=note("name-of", name=option)) for option in options]
    # In half precision it decides half of the speed, and programs have either one as their default.
    is_layout_open = group.facts.precision == "amp" and "channels-last" not in group.facts.options
    if group.layout is not None and is_layout_open and not group.smoke:
        layout = note("name-of", name=group.layout)
        found.append(Mark(said=layout, meaning=note("mark-layout-meaning")))
    if group.spread is not None and (ids := group.ids("reject")):
        found.append(Mark(said=note("mark-left-out", ids=ids), kind="left-out"))
    if group.spread is not None and group.in_progress:
        found.append(Mark(said=note("mark-still-running", number=group.in_progress)))
    if ids := group.ids("accepted"):
        found.append(Mark(said=note("mark-accepted", ids=ids), kind="accepted"))
    if ids := group.ids("warn"):
        found.append(Mark(said=note("mark-warn", ids=ids), kind="warn"))
    if (of_range := range_words.mark(group)) is not None:
        found.append(Mark(said=of_range))
    return tuple(found)


def dates(groups: Sequence[Group], unstated: str) -> str:
    """Write the days of the runs, and ``unstated`` if some logs have no dates."""
    days = formats.days(at for group in groups for at in group.dates or ())
    is_known = all(group.dates for group in groups)
    return days if is_known else ", ".join(filter(None, (days, unstated)))


def units(groups: Iterable[Group]) -> dict[str, Note]:
    """Map each unit of throughput → the unit with its benchmarks."""
    found = dict.fromkeys((group.unit, group.key.benchmark) for group in groups)
    return {
        unit: note("unit-of", unit=unit, benchmarks=tuple(n for u, n in found if u == unit))
        for unit, _ in found
    }


def reasons(group: Group, kind: str) -> list[Footnote]:
    """Return the reasons of one kind (``reject``, ``warn``, ``accepted``) with their evidence."""
    return _once((found, _with_place(found)) for found in _select_kind(group, kind))


def footnotes(group: Group, kind: str) -> list[Footnote]:
    """Return the reasons of one kind, as below a table: each id once with its first sentence."""
    return _once(((found, found[1].said) for found in _select_kind(group, kind)), is_short=True)


_OfRuns = tuple[tuple[str, ...], Finding]
"""Ids of the runs of a reason, none of a reason of the group; and the reason."""


def _once(found: Iterable[tuple[_OfRuns, Note]], *, is_short: bool = False) -> list[Footnote]:
    """Build footnotes without repeats; ``is_short``: each id once."""
    runs: dict[tuple[str, Note | None], list[str]] = {}
    first: dict[tuple[str, Note | None], Note] = {}
    for (run_ids, reason), said in found:
        key = (reason.id, None if is_short else said)
        runs.setdefault(key, []).extend(run_ids)
        first.setdefault(key, said)
    return [
        Footnote(said=first[name, said], head=name, runs=tuple(its))
        for (name, said), its in runs.items()
    ]


def _select_kind(group: Group, kind: str) -> Iterator[_OfRuns]:
    """Yield the reasons of the group, without run ids, and of its runs."""
    of_runs = (((run.run_id,), reason) for run in group.members for reason in run.reasons)
    of_group: list[_OfRuns] = [((), reason) for reason in group.reasons]
    for run_ids, reason in (*of_group, *of_runs):
        if reason.kind == kind:
            yield run_ids, reason


def _with_place(found: _OfRuns) -> Note:
    """Name the first place of a reason; ``-o json`` has them all."""
    _, reason = found
    said = reason.said
    if not reason.evidence:
        return said
    place = f"{reason.evidence[0].file}:{reason.evidence[0].line}"
    more = len(reason.evidence) - 1
    if not more:
        return note("reason-with-place", said=said, place=place)
    return note("reason-with-places", said=said, place=place, more=more)


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
        judgements = (*([quoted(remark)] if remark else []), *row.group.judgements)
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
