"""Which columns a row of results has, and what stands in them.

The rule of every cell: a figure, or ``–`` with the reason as a footnote; never 0 for "not
measured". A group of which no run counts has ``rejected: ids`` where its figure would be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from k8sbench.model import speed_options
from k8sbench.model.group import Deviation, Figure, Group, Parity, Result
from k8sbench.model.measurement import Reason
from k8sbench.report import numbers
from k8sbench.report.numbers import ABSENT
from k8sbench.report.tables import Cell, Column, Table, absent

SMOKE_MARK = "checks the path, not the speed"
EVIDENCE_SHOWN = 1
"""Places named in a footnote; ``-o json`` has them all."""


class _Field(msgspec.Struct, frozen=True):
    column: Column
    cell: Callable[[Result], Cell]


def tables(
    results: Sequence[Result],
    parities: Sequence[Parity],
    *,
    wide: bool = False,
    airank: bool = False,
) -> list[Table]:
    """The rows, the Paddle : PyTorch rows, and the published figures where they were asked for.

    ``airank`` puts AI-Rank's five columns first, under its own names, where a row has them.
    """
    found = [_rows(results, wide=wide, airank=airank)]
    if parities:
        found.append(_parity_table(parities))
    if any(r.deviations is not None or r.deviations_reason for r in results):
        found.append(_published_table(results))
    return found


def _rows(results: Sequence[Result], *, wide: bool, airank: bool) -> Table:
    trained = any(r.group.time_to_train_s is not None or r.group.accuracy for r in results)
    fields = list(_IDENTITY)
    fields += _telling_apart([result.group for result in results]) if not wide else _WIDE_IDENTITY
    fields += _FIGURES
    if trained:
        fields += _TRAINED
    if wide:
        fields += _WIDE_FIGURES
    if airank and trained:
        fields = _airank_first(fields)
    fields.append(_VERDICT)
    return Table(
        title=None,
        columns=tuple(field.column for field in fields),
        rows=tuple(tuple(field.cell(result) for field in fields) for result in results),
    )


def _airank_first(fields: Sequence[_Field]) -> list[_Field]:
    names = {
        "GPUs": "GPUs",
        "Time2train(sec)": "Time2train(sec)",
        "throughput": "throughput(samples/sec)",
        "accuracy(%)": "accuracy(%)",
        "speedup": "speedup",
    }
    by_title = {field.column.title: field for field in fields}
    first = [
        _Field(msgspec.structs.replace(by_title[old].column, title=new), by_title[old].cell)
        for old, new in names.items()
    ]
    return first + [field for field in fields if field.column.title not in names]


def _telling_apart(groups: Sequence[Group]) -> list[_Field]:
    """The further columns that tell rows apart which would look the same without them."""
    look = {g.key.id: tuple(field.cell(_bare(g)).text for field in _IDENTITY) for g in groups}
    added = []
    for field in _WIDE_IDENTITY:
        if field.column.title == "group":
            continue
        more = {g.key.id: (*look[g.key.id], field.cell(_bare(g)).text) for g in groups}
        if len(set(more.values())) > len(set(look.values())):
            look = more
            added.append(field)
    return added


def _bare(group: Group) -> Result:
    none = Figure(value=None)
    return Result(
        group=group,
        speedup=none,
        efficiency=none,
        baseline=None,
        tflops_per_gpu=none,
        peak_share=none,
    )


# Cells


def _figure(figure: Figure, write: Callable[[float], str]) -> Cell:
    if figure.value is None:
        return absent(figure.reason, *figure.notes)
    return Cell(write(figure.value), figure.notes)


def _gpus(result: Result) -> Cell:
    group = result.group
    if group.plan.device == "cpu":
        return absent("CPU processes: no GPU was used")
    return Cell(str(group.plan.world_size))


def precision(group: Group) -> str:
    """As requested, with the AMP type; what had effect, where that is another."""
    plan, effective = group.plan, group.precision_effective
    asked = f"amp ({plan.amp_dtype})" if plan.amp_dtype else plan.precision
    return asked if effective in (None, plan.precision) else f"{asked}, in effect {effective}"


def _runs(result: Result) -> Cell:
    """How many count; why the others do not is a footnote, unless it is the group's own cell."""
    group = result.group
    left_out = told(group, "reject") if group.spread is not None else ()
    return Cell(f"{group.counted}/{len(group.members)}", left_out)


def _throughput(result: Result) -> Cell:
    group = result.group
    if group.spread is not None:
        return Cell(f"{numbers.rate(group.spread.median)} {group.unit}")
    return Cell(no_figure(group), told(group, "reject"))


def no_figure(group: Group) -> str:
    """What stands where the figure of a group would be of which no run counts."""
    if group.state == "running":
        return "running"
    return f"{group.state}: {', '.join(group.ids('reject')) or 'no reason known'}"


def _interval(result: Result) -> Cell:
    spread = result.group.spread
    if spread is None:
        return absent("no valid figure")
    if spread.low is None or spread.high is None or spread.coverage is None:
        return absent(spread.interval_reason)
    ends = f"{numbers.rate(spread.low)}–{numbers.rate(spread.high)}"
    return Cell(f"{ends} ({numbers.coverage(spread.coverage)})")


def _time_to_train(result: Result) -> Cell:
    value = result.group.time_to_train_s
    if value is None:
        return absent(result.group.missing.get("time_to_train_s", "no valid figure"))
    return Cell(f"{value:.3f}".rstrip("0").rstrip("."))


def _accuracy(result: Result) -> Cell:
    reached = result.group.accuracy
    if reached is None:
        return absent(result.group.missing.get("accuracy", "no valid figure"))
    unit = "" if reached.unit == "%" else f" {reached.unit}"
    return Cell(f"{numbers.plain(reached.best, 5)}{unit} ({reached.metric})")


def _optional(name: str, write: Callable[[float], str]) -> Callable[[Result], Cell]:
    def cell(result: Result) -> Cell:
        value = getattr(result.group, name)
        if value is None:
            return absent(result.group.missing.get(name, "no valid figure"))
        return Cell(write(value))

    return cell


def _mean(result: Result) -> Cell:
    spread = result.group.spread
    return absent("no valid figure") if spread is None else Cell(numbers.rate(spread.mean))


def _cv(result: Result) -> Cell:
    spread = result.group.spread
    if spread is None:
        return absent("no valid figure")
    return absent(spread.interval_reason) if spread.cv is None else Cell(f"{spread.cv:.4f}")


def _share(result: Result) -> Cell:
    return _figure(result.peak_share, numbers.percent)


def marks(group: Group) -> tuple[str, ...]:
    """What the reader must know of a row beside its figures."""
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
    if group.spread is not None and group.ids("reject"):
        found.append(f"left out: {', '.join(group.ids('reject'))}")
    if group.in_progress and group.spread is not None:
        found.append(f"{group.in_progress} still running")
    if group.accepted_ids:
        found.append(f"accepted: {', '.join(group.accepted_ids)}")
    if group.ids("warn"):
        found.append(f"warn: {', '.join(group.ids('warn'))}")
    return tuple(found)


def _verdict(result: Result) -> Cell:
    group = result.group
    notes = (*told(group, "warn"), *told(group, "accepted"))
    return Cell("; ".join([group.state, *marks(group)]), notes)


def told(group: Group, kind: str) -> tuple[str, ...]:
    """The reasons of one kind (``reject``, ``warn``, ``accepted``) in words, equal ones once."""
    own = [(None, reason) for reason in group.reasons]
    theirs = [(m.run_id, reason) for m in group.members for reason in m.reasons]
    runs: dict[tuple[str, str, str], list[str | None]] = {}
    for run_id, reason in [*own, *theirs]:
        if ("accepted" if reason.accepted else reason.severity) == kind:
            said = (reason.id, reason.message, _evidence(reason))
            runs.setdefault(said, []).append(run_id)
    return tuple(
        f"{name}{_whose(found)}: {message}{evidence}"
        for (name, message, evidence), found in runs.items()
    )


def _whose(run_ids: Sequence[str | None]) -> str:
    known = [run_id for run_id in run_ids if run_id is not None]
    if not known:
        return ""
    return f" ({known[0]})" if len(known) == 1 else f" ({len(known)} runs)"


def _evidence(reason: Reason) -> str:
    places = [f"{place.file}:{place.line}" for place in reason.evidence]
    if not places:
        return ""
    more = f" and {len(places) - EVIDENCE_SHOWN} more" if len(places) > EVIDENCE_SHOWN else ""
    return f" See {', '.join(places[:EVIDENCE_SHOWN])}{more}."


def _field(
    title: str, cell: Callable[[Result], Cell], *, right: bool = False, stays: bool = False
) -> _Field:
    return _Field(Column(title=title, right=right, stays=stays), cell)


def _key(title: str, name: str, *, stays: bool = False) -> _Field:
    def cell(result: Result) -> Cell:
        value = str(getattr(result.group.key, name))
        return Cell(value) if value not in ("unknown", "-") else Cell(ABSENT)

    return _field(title, cell, stays=stays)


_IDENTITY: tuple[_Field, ...] = (
    _key("case", "case", stays=True),
    _field("GPUs", _gpus, right=True),
    _key("benchmark", "benchmark"),
    _key("framework", "framework"),
    _key("variant", "variant"),
    _key("impl", "impl"),
    _field("precision", lambda result: Cell(precision(result.group))),
    _field("batch", lambda result: Cell(str(result.group.key.batch_size)), right=True),
)
_WIDE_IDENTITY: tuple[_Field, ...] = (
    _key("set", "set_name"),
    _key("preset", "preset"),
    _key("mode", "mode"),
    _key("data", "data"),
    _key("window", "window"),
    _key("options", "options"),
    _key("backend", "backend"),
    _key("pool", "pool"),
    _key("GPU model", "gpu_model"),
    _key("image", "image"),
    _key("program", "program"),
    _field("group", lambda result: Cell(result.group.key.id)),
)
_FIGURES: tuple[_Field, ...] = (
    _field("runs", _runs, right=True),
    _field("throughput", _throughput, right=True, stays=True),
    _field("estimator", lambda result: Cell(result.group.estimator)),
    _field("interval", _interval, right=True),
    _field("speedup", lambda r: _figure(r.speedup, numbers.ratio), right=True),
    _field("efficiency", lambda r: _figure(r.efficiency, numbers.percent), right=True),
)
_TRAINED: tuple[_Field, ...] = (
    _field("Time2train(sec)", _time_to_train, right=True),
    _field("accuracy(%)", _accuracy, right=True),
)
_WIDE_FIGURES: tuple[_Field, ...] = (
    _field("mean", _mean, right=True),
    _field("CV", _cv, right=True),
    _field("TFLOP/s per GPU", lambda r: _figure(r.tflops_per_gpu, numbers.plain), right=True),
    _field("of peak", _share, right=True),
    _field("GPU-hours", _optional("gpu_hours", numbers.plain), right=True),
    _field("parameters", _optional("parameters", lambda v: numbers.millions(int(v))), right=True),
    _field("GMAC", _optional("gmac", lambda v: numbers.plain(v, 4)), right=True),
)
_VERDICT = _field("verdict", _verdict, stays=True)


Word = Callable[[Group], str]


def unique_names(groups: Sequence[Group], base: Word, more: Sequence[Word]) -> dict[str, str]:
    """Group id → a name that no other group has: ``base``, and as many further words as needed."""
    words = [base]
    for word in [*more, lambda group: group.key.id]:
        names = {g.key.id: " ".join(part(g) for part in words) for g in groups}
        if len(set(names.values())) == len(names):
            return names
        words.append(word)
    return {g.key.id: " ".join(part(g) for part in words) for g in groups}


# Paddle : PyTorch


def _parity_table(parities: Sequence[Parity]) -> Table:
    titles = (
        ("case", False),
        ("benchmark", False),
        ("precision", False),
        ("batch", True),
        ("Paddle", True),
        ("PyTorch", True),
        ("estimator", False),
        ("parameters", True),
        ("GMAC", True),
        ("in effect", False),
        ("Paddle ÷ PyTorch", False),
    )
    return Table(
        title="Paddle : PyTorch",
        columns=tuple(
            Column(title=title, right=right, stays=title in ("case", "Paddle ÷ PyTorch"))
            for title, right in titles
        ),
        rows=tuple(_parity_row(pair) for pair in parities),
    )


def _parity_row(pair: Parity) -> tuple[Cell, ...]:
    sides = (pair.paddle, pair.pytorch)
    key = pair.paddle.key
    return (
        Cell(key.case),
        Cell(key.benchmark),
        Cell(key.precision),
        Cell(_both(sides, lambda g: str(g.key.batch_size), once=True)),
        *(
            Cell(f"{numbers.rate(g.spread.median)} {g.unit}")
            if g.spread is not None
            else Cell(no_figure(g), told(g, "reject"))
            for g in sides
        ),
        Cell(_both(sides, lambda g: g.estimator, once=True)),
        _both_cell(sides, "parameters", "parameters", lambda v: numbers.millions(int(v))),
        _both_cell(sides, "GMAC", "gmac", lambda v: numbers.plain(v, 4)),
        Cell(_both(sides, effective, once=False)),
        parity_cell(pair),
    )


def effective(group: Group) -> str:
    """The precision in effect, with the AMP type where AMP had effect."""
    kind = group.precision_effective
    if kind is None:
        return ABSENT
    return f"amp ({group.plan.amp_dtype})" if kind == "amp" and group.plan.amp_dtype else kind


def parity_cell(pair: Parity) -> Cell:
    """The ratio, or the ids of what forbids it; what else differs in the same cell."""
    notes = f" ({', '.join(pair.notes)})" if pair.notes else ""
    if pair.ratio is None:
        return Cell(f"not comparable: {', '.join(pair.not_comparable)}{notes}")
    return Cell(f"{numbers.rate(pair.ratio)}{notes}")


def _both(sides: Sequence[Group], write: Callable[[Group], str], *, once: bool) -> str:
    texts = [write(group) for group in sides]
    return texts[0] if once and len(set(texts)) == 1 else " : ".join(texts)


def _both_cell(
    sides: Sequence[Group], title: str, name: str, write: Callable[[float], str]
) -> Cell:
    texts, notes = [], []
    for group in sides:
        value = getattr(group, name)
        texts.append(ABSENT if value is None else write(value))
        if value is None:
            why = group.missing.get(name, "not known")
            notes.append(f"{title} on {group.key.framework}: {why}")
    return Cell(" : ".join(texts), tuple(notes))


# Published figures


def _published_table(results: Sequence[Result]) -> Table:
    titles = (
        ("case", False),
        ("benchmark", False),
        ("framework", False),
        ("precision", False),
        ("source", False),
        ("published", True),
        ("estimator", False),
        ("published on", False),
        ("ours", True),
        ("deviation", False),
    )
    rows = []
    for result in results:
        deviations = result.deviations or ()
        rows += [_published_row(result.group, deviation) for deviation in deviations]
        if not deviations:
            key = result.group.key
            head = (key.case, key.benchmark, key.framework, precision(result.group))
            empty = [Cell(ABSENT)] * (len(titles) - len(head) - 1)
            last = absent(result.deviations_reason)
            rows.append((*(Cell(words) for words in head), *empty, last))
    return Table(
        title="Published figures",
        columns=tuple(
            Column(title=title, right=right, stays=title in ("case", "deviation"))
            for title, right in titles
        ),
        rows=tuple(rows),
    )


def _published_row(group: Group, deviation: Deviation) -> tuple[Cell, ...]:
    setting = (
        f"{deviation.case}, {deviation.precision}, batch {deviation.batch_size},"
        f" {deviation.gpu_model}"
    )
    return (
        Cell(group.key.case),
        Cell(group.key.benchmark),
        Cell(group.key.framework),
        Cell(precision(group)),
        Cell(deviation.source, (f"{deviation.source}: {deviation.title}",)),
        Cell(
            f"{numbers.rate(deviation.published)} {group.unit}",
            (deviation.remark,) if deviation.remark else (),
        ),
        Cell(deviation.estimator),
        Cell(setting),
        absent(_no_such_estimator(group, deviation))
        if deviation.ours is None
        else Cell(f"{numbers.rate(deviation.ours)} {group.unit}"),
        deviation_cell(deviation),
    )


def _no_such_estimator(group: Group, deviation: Deviation) -> str:
    if group.spread is None:
        return "no valid figure"
    if deviation.estimator == "unknown":
        return "the report does not say how its figure was computed"
    return f"our runs have no figure by {deviation.estimator}"


def deviation_cell(deviation: Deviation) -> Cell:
    """Ours against theirs in percent, or the ids of what does not match."""
    notes = f" ({', '.join(deviation.notes)})" if deviation.notes else ""
    if deviation.ratio is None:
        return Cell(f"not comparable: {', '.join(deviation.not_comparable)}")
    return Cell(f"{numbers.signed_percent(deviation.ratio)}{notes}")
