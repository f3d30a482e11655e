"""Which columns a row of results has, and what stands in them.

The rule of every cell: a figure, or ``–`` with the reason as a footnote; never 0 for "not
measured". A group of which no run counts has ``rejected: ids`` where its figure would be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from k8sbench.model import speed_options
from k8sbench.model.group import Deviation, Figure, Group, Parity, Result
from k8sbench.model.measurement import AccuracyResult, Reason
from k8sbench.report import numbers
from k8sbench.report.numbers import ABSENT
from k8sbench.report.tables import Cell, Table, absent
from k8sbench.report.text_table import Column

SMOKE_MARK = "checks the path, not the speed"
EVIDENCE_SHOWN = 1
"""Places named in a footnote; ``-o json`` has them all."""


Item = TypeVar("Item")
_RIGHT = ("batch", "Paddle", "PyTorch", "parameters", "GMAC", "published", "ours")
"""Columns of the lesser tables that hold numbers."""


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
    fields += _telling_apart(results) if not wide else _WIDE_IDENTITY
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


def _telling_apart(results: Sequence[Result]) -> list[_Field]:
    """The further columns that tell rows apart which would look the same without them."""
    look = [tuple(field.cell(result).text for field in _IDENTITY) for result in results]
    added = []
    for field in _WIDE_IDENTITY:
        if field.column.title == "group":
            continue
        more = [
            (*seen, field.cell(result).text) for seen, result in zip(look, results, strict=True)
        ]
        if len(set(more)) > len(set(look)):
            look = more
            added.append(field)
    return added


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


def _throughput(group: Group) -> Cell:
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


def _accuracy(reached: AccuracyResult) -> str:
    unit = "" if reached.unit == "%" else f" {reached.unit}"
    return f"{numbers.plain(reached.best, 5)}{unit} ({reached.metric})"


def _millions(value: float) -> str:
    return numbers.millions(int(value))


def _gmac(value: float) -> str:
    return numbers.plain(value, 4)


def _seconds(value: float) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".")


def _optional(name: str, write: Callable[[Any], str]) -> Callable[[Result], Cell]:
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
    _field("throughput", lambda r: _throughput(r.group), right=True, stays=True),
    _field("estimator", lambda result: Cell(result.group.estimator)),
    _field("interval", _interval, right=True),
    _field("speedup", lambda r: _figure(r.speedup, numbers.ratio), right=True),
    _field("efficiency", lambda r: _figure(r.efficiency, numbers.percent), right=True),
)
_TRAINED: tuple[_Field, ...] = (
    _field("Time2train(sec)", _optional("time_to_train_s", _seconds), right=True),
    _field("accuracy(%)", _optional("accuracy", _accuracy), right=True),
)
_WIDE_FIGURES: tuple[_Field, ...] = (
    _field("mean", _mean, right=True),
    _field("CV", _cv, right=True),
    _field("TFLOP/s per GPU", lambda r: _figure(r.tflops_per_gpu, numbers.plain), right=True),
    _field("of peak", lambda r: _figure(r.peak_share, numbers.percent), right=True),
    _field("GPU-hours", _optional("gpu_hours", numbers.plain), right=True),
    _field("parameters", _optional("parameters", _millions), right=True),
    _field("GMAC", _optional("gmac", _gmac), right=True),
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
    return _table(
        "Paddle : PyTorch",
        parities,
        {
            "case": lambda p: Cell(p.paddle.key.case),
            "benchmark": lambda p: Cell(p.paddle.key.benchmark),
            "precision": lambda p: Cell(p.paddle.key.precision),
            "batch": lambda p: _both(p, lambda g: str(g.key.batch_size)),
            "Paddle": lambda p: _throughput(p.paddle),
            "PyTorch": lambda p: _throughput(p.pytorch),
            "estimator": lambda p: _both(p, lambda g: g.estimator),
            "parameters": lambda p: _both_cell(p, "parameters", "parameters", _millions),
            "GMAC": lambda p: _both_cell(p, "GMAC", "gmac", _gmac),
            "in effect": lambda p: Cell(f"{effective(p.paddle)} : {effective(p.pytorch)}"),
            "Paddle ÷ PyTorch": parity_cell,
        },
    )


def _table(title: str, items: Sequence[Item], cells: dict[str, Callable[[Item], Cell]]) -> Table:
    """A table with a row for each item; the first and the last column stay."""
    ends = (next(iter(cells)), next(reversed(cells)))
    return Table(
        title=title,
        columns=tuple(
            Column(title=name, right=name in _RIGHT, stays=name in ends) for name in cells
        ),
        rows=tuple(tuple(cell(item) for cell in cells.values()) for item in items),
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


def _both(pair: Parity, write: Callable[[Group], str]) -> Cell:
    """What both sides have; once where it is equal."""
    return Cell(" : ".join(dict.fromkeys((write(pair.paddle), write(pair.pytorch)))))


def _both_cell(pair: Parity, title: str, name: str, write: Callable[[float], str]) -> Cell:
    texts, notes = [], []
    for group in (pair.paddle, pair.pytorch):
        value = getattr(group, name)
        texts.append(ABSENT if value is None else write(value))
        if value is None:
            why = group.missing.get(name, "not known")
            notes.append(f"{title} on {group.key.framework}: {why}")
    return Cell(" : ".join(texts), tuple(notes))


# Published figures


def _published_table(results: Sequence[Result]) -> Table:
    """A row for each published figure, or one that says why there is none."""
    items = [(r, figure) for r in results for figure in r.deviations or (None,)]

    def of_figure(
        write: Callable[[Group, Deviation], Cell],
    ) -> Callable[[tuple[Result, Deviation | None]], Cell]:
        return lambda item: Cell(ABSENT) if item[1] is None else write(item[0].group, item[1])

    return _table(
        "Published figures",
        items,
        {
            "case": lambda item: Cell(item[0].group.key.case),
            "benchmark": lambda item: Cell(item[0].group.key.benchmark),
            "framework": lambda item: Cell(item[0].group.key.framework),
            "precision": lambda item: Cell(precision(item[0].group)),
            "source": of_figure(lambda _, d: Cell(d.source, (f"{d.source}: {d.title}",))),
            "published": of_figure(
                lambda g, d: Cell(
                    f"{numbers.rate(d.published)} {g.unit}", (d.remark,) if d.remark else ()
                )
            ),
            "estimator": of_figure(lambda _, d: Cell(d.estimator)),
            "published on": of_figure(
                lambda _, d: Cell(f"{d.case}, {d.precision}, batch {d.batch_size}, {d.gpu_model}")
            ),
            "ours": of_figure(
                lambda g, d: (
                    absent(_no_such_estimator(g, d))
                    if d.ours is None
                    else Cell(f"{numbers.rate(d.ours)} {g.unit}")
                )
            ),
            "deviation": lambda item: (
                absent(item[0].deviations_reason) if item[1] is None else deviation_cell(item[1])
            ),
        },
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
