"""The tables of results: which columns a row has, and the text of each cell.

The default table fits 80 columns: what a row is, its figure, and whether that holds. Where two rows
would look the same it also has the column in which they differ. ``wide`` has the rest. The figure
of rows that train to an accuracy is their time to train: a narrow table may lack their throughput.

The rule of every cell: a figure, or ``–`` with the reason as a footnote; never 0 for "not
measured". A group without a valid run has ``rejected: ids`` in place of its figure. Of the GPU
metrics that a row lacks the first cell has all reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from k8sbench.model.counts import ABSENT
from k8sbench.model.group import Deviation, Figure, Group, Parity, Result, Spread
from k8sbench.report import gpu_columns, numbers, training_columns
from k8sbench.report.gpu_columns import Cells
from k8sbench.report.group_words import few_sets, footnotes, interval, marks, no_figure, precision
from k8sbench.report.tables import Cell, Table, absent
from k8sbench.report.text_table import Column

OF_ONE_SET = (
    "an interval speaks of repeats in one set; from set to set speeds vary more, as -o wide shows"
    " for three sets or more"
)
_RIGHT = (
    *("GPUs", "batch", "runs", "throughput", "min–max", "interval", "speedup", "efficiency"),
    "throughput(samples/sec)",
    *("over sets", "mean", "CV", "TFLOP/s per GPU", "of peak", "GPU-hours", "data wait"),
    *("parameters", "GMAC"),
    *("Paddle", "PyTorch", "published", "ours"),
    *gpu_columns.TITLES,
    *training_columns.TITLES,
)
"""Columns of numbers."""
_KEPT = (
    *("case", "throughput", "time to train", "accuracy", "verdict"),
    *("Paddle ÷ PyTorch", "deviation"),
)
"""Columns that stay in a narrow table although all rows are equal."""
_OPTIONAL = {"min–max": 3, "restarts": 2}
"""Columns that a narrow table may lack: the higher, the sooner."""
_AIRANK = ("GPUs", "Time2train(sec)", "throughput", "accuracy(%)", "speedup")


def tables(
    results: Sequence[Result],
    parities: Sequence[Parity],
    *,
    wide: bool = False,
    airank: bool = False,
) -> list[Table]:
    """Lay out the rows, the Paddle : PyTorch rows, and the published figures if requested.

    ``airank`` is the table of a document: it has the interval and the speedup, and AI-Rank's five
    columns first, under its own names, where a row has them.
    """
    cells = _columns(results, wide=wide, airank=airank)
    rows = [[cell(result) for cell in cells.values()] for result in results]
    notes = []
    if "interval" in cells:
        place = list(cells).index("interval")
        if any(row[place].text != ABSENT for row in rows):
            notes.append(f"{'INTERVAL' if wide else 'interval'}: {OF_ONE_SET}")
    if "estimator" not in cells and results:
        notes.append(f"THROUGHPUT: median of the valid runs by {results[0].group.estimator}")
    # The figure of a row that trains is its time to train.
    are_trained = bool(results) and all(r.group.plan.mode == "train" for r in results)
    optional = _OPTIONAL | ({"throughput": 1} if are_trained else {})
    found = [_table(None, cells, rows, notes, optional)]
    if parities:
        found.append(_table("Paddle : PyTorch", _PARITY, map(_parity, parities)))
    if any(r.deviations is not None or r.deviations_reason for r in results):
        published = (row for result in results for row in _published(result))
        found.append(_table("Published figures", _PUBLISHED, published))
    return found


def _table(
    title: str | None,
    names: Iterable[str],
    rows: Iterable[Sequence[Cell]],
    notes: Iterable[str] = (),
    optional: Mapping[str, int] = _OPTIONAL,
) -> Table:
    columns = (
        Column(
            name,
            right=name in _RIGHT,
            stays=name in _KEPT,
            optional=optional.get(name, 0),
            states=name == "verdict",
        )
        for name in names
    )
    return Table(
        title=title,
        columns=tuple(columns),
        rows=tuple(map(tuple, rows)),
        notes=tuple(notes),
        capitals=True,
        said_once=True,
    )


def _columns(results: Sequence[Result], *, wide: bool, airank: bool) -> Cells:
    trained = training_columns.of_groups(results, short=not (wide or airank))
    sources = {member.source for r in results for member in r.group.members}
    source: Cells = {"source": _source} if sources - {"here"} else {}
    if not (wide or airank):
        estimators = {result.group.estimator for result in results}
        return {
            **_SHORT_IDENTITY,
            **_distinguishing(results, _SHORT_IDENTITY),
            **_SHORT_FIGURES,
            **({"estimator": _FIGURES["estimator"]} if len(estimators) > 1 else {}),
            **trained,
            "verdict": _short_verdict,
            **source,
        }
    gpu = gpu_columns.of_groups(results)
    # As kubectl does it, the wide table begins with the columns of the default one.
    cells = {
        **({**_SHORT_IDENTITY, **_SHORT_FIGURES} if wide else {}),
        **_IDENTITY,
        **source,
        **(_WIDE_IDENTITY if wide else _distinguishing(results, _IDENTITY)),
        **_FIGURES,
        **trained,
        **(_WIDE_FIGURES if wide else {}),
        **gpu,
        "verdict": _verdict_without_gpu if wide and not gpu else _verdict,
    }
    if not (airank and trained):
        return cells
    renamed = {"throughput": "throughput(samples/sec)"}
    return {renamed.get(name, name): cells.pop(name) for name in _AIRANK} | cells


def _distinguishing(results: Sequence[Result], shown: Cells) -> Cells:
    """Select the further columns without which two different rows would look the same."""
    rows = [tuple(cell(result).text for cell in shown.values()) for result in results]
    added: Cells = {}
    for name, cell in {**_IDENTITY, **_WIDE_IDENTITY}.items():
        longer = [(*row, cell(result).text) for row, result in zip(rows, results, strict=True)]
        if name != "group" and len(set(longer)) > len(set(rows)):
            rows = longer
            added[name] = cell
    return added


# Cells


def _source(result: Result) -> Cell:
    """Write which stores have the runs of a row."""
    return Cell(", ".join(sorted({member.source for member in result.group.members})))


def _figure(name: str, write: Callable[[float], str]) -> Callable[[Result], Cell]:
    """Write a figure of the result, which carries its own reason."""

    def cell(result: Result) -> Cell:
        figure: Figure = getattr(result, name)
        if figure.value is None:
            return absent(figure.reason, *figure.notes)
        return Cell(write(figure.value), figure.notes)

    return cell


def _min_max(result: Result) -> Cell:
    """Write the slowest and the fastest valid run; of one run that is no range."""
    spread = result.group.spread
    if spread is None:
        return Cell(ABSENT, ("no valid figure",))
    if result.group.counted < 2:
        return absent(spread.interval_reason)
    return Cell(f"{numbers.rate(spread.minimum)}–{numbers.rate(spread.maximum)}")


def _optional(name: str, write: Callable[[Any], str]) -> Callable[[Result], Cell]:
    """Write a field of the group, whose ``missing`` has the reason."""

    def cell(result: Result) -> Cell:
        value = getattr(result.group, name)
        if value is None:
            return absent(result.group.missing.get(name, "no valid figure"))
        return Cell(write(value))

    return cell


def _of_spread(write: Callable[[Spread], str | None]) -> Callable[[Result], Cell]:
    def cell(result: Result) -> Cell:
        spread = result.group.spread
        if spread is None:
            return absent("no valid figure")
        text = write(spread)
        return absent(spread.interval_reason) if text is None else Cell(text)

    return cell


def _over_sets(result: Result) -> Cell:
    if result.over_sets is None:
        return absent(few_sets(result))
    ends = interval(result.over_sets) or ABSENT
    return Cell(f"{numbers.rate(result.over_sets.median)} of {result.sets} sets, {ends}")


def _gpus(result: Result) -> Cell:
    if result.group.plan.device == "cpu":
        return absent("CPU processes: no GPU was used")
    return Cell(str(result.group.plan.world_size))


def _runs(result: Result) -> Cell:
    """Count the valid runs; the reasons of the others are footnotes, here or at the figure."""
    group = result.group
    rejected = footnotes(group, "reject") if group.spread is not None else ()
    return Cell(f"{group.counted}/{len(group.members)}", rejected)


def _throughput(group: Group) -> Cell:
    if group.spread is not None:
        return Cell(f"{numbers.rate(group.spread.median)} {group.unit}")
    return Cell(no_figure(group), footnotes(group, "reject"))


def _gmac(value: float) -> str:
    return numbers.plain(value, 4)


def _short_throughput(result: Result) -> Cell:
    """Write the figure, or the state alone: the reasons are in the notes."""
    cell = _throughput(result.group)
    return cell if result.group.spread is not None else Cell(result.group.state, cell.notes)


def _short_verdict(result: Result) -> Cell:
    """Write each mark in a word or two, and what it means in a note.

    The runs that were left out are counted in their own column, with the reasons.
    """
    full, parts, notes = _verdict(result), [], []
    for part in full.text.split("; "):
        words, _, meaning = part.partition(": ")
        if meaning and words == "left out":
            continue
        is_whole = words == "accepted"  # what was overruled stands in the table by name
        parts.append(part if is_whole else words)
        if meaning and not is_whole and words != "warn":  # whose reasons are notes already
            notes.append(part)
    return Cell("; ".join(parts), (*notes, *full.notes))


def _verdict(result: Result) -> Cell:
    group = result.group
    notes = (*footnotes(group, "warn"), *footnotes(group, "accepted"))
    return Cell("; ".join([group.state, *marks(group)]), notes)


def _verdict_without_gpu(result: Result) -> Cell:
    """Say why there are no GPU metrics, where no row has any and so no column says it."""
    found, group = _verdict(result), result.group
    if group.on_cpu or group.spread is None:
        return found
    why = (f"no GPU metrics: {text}" for text in gpu_columns.lacking(group))
    return Cell(found.text, (*found.notes, *why))


def _key(name: str) -> Callable[[Result], Cell]:
    def cell(result: Result) -> Cell:
        value = str(getattr(result.group.key, name))
        return Cell(value if value not in ("unknown", "-") else ABSENT)

    return cell


_IDENTITY: Cells = {
    "case": _key("case"),
    "GPUs": _gpus,
    **{name: _key(name) for name in ("benchmark", "framework", "variant", "impl")},
    "precision": lambda result: Cell(precision(result.group)),
    "batch": _key("batch_size"),
}
_WIDE_IDENTITY: Cells = {
    "set": _key("set_name"),
    **{name: _key(name) for name in ("preset", "mode", "data", "window", "options")},
    **{name: _key(name) for name in ("backend", "pool")},
    "GPU model": _key("gpu_model"),
    "image": _key("image"),
    "program": _key("program"),
    "group": _key("id"),
}
_SHORT_IDENTITY: Cells = {name: _IDENTITY[name] for name in ("benchmark", "case", "precision")}
_SHORT_FIGURES: Cells = {
    "runs": _runs,
    "throughput": _short_throughput,
    "min–max": _min_max,
}
_FIGURES: Cells = {
    "runs": _runs,
    "throughput": lambda result: _throughput(result.group),
    "estimator": lambda result: Cell(result.group.estimator),
    "interval": _of_spread(interval),
    "speedup": _figure("speedup", numbers.ratio),
    "efficiency": _figure("efficiency", numbers.percent),
}
_WIDE_FIGURES: Cells = {
    "over sets": _over_sets,
    "mean": _of_spread(lambda spread: numbers.rate(spread.mean)),
    "CV": _of_spread(lambda spread: None if spread.cv is None else f"{spread.cv:.4f}"),
    "TFLOP/s per GPU": _figure("tflops_per_gpu", numbers.plain),
    "of peak": _figure("peak_share", numbers.percent),
    "GPU-hours": _optional("gpu_hours", numbers.plain),
    "data wait": _optional("data_fraction", numbers.percent),
    "parameters": _optional("parameters", numbers.millions),
    "GMAC": _optional("gmac", _gmac),
}


# Paddle : PyTorch

_PARITY = (
    *("case", "benchmark", "precision", "batch", "Paddle", "PyTorch", "estimator"),
    *("parameters", "GMAC", "in effect", "Paddle ÷ PyTorch"),
)


def _parity(pair: Parity) -> tuple[Cell, ...]:
    key = pair.paddle.key
    return (
        Cell(key.case),
        Cell(key.benchmark),
        Cell(key.precision),
        _both(str(key.batch_size), str(pair.pytorch.key.batch_size)),
        _throughput(pair.paddle),
        _throughput(pair.pytorch),
        _both(pair.paddle.estimator, pair.pytorch.estimator),
        _both_optional(pair, "parameters", "parameters", numbers.millions),
        _both_optional(pair, "GMAC", "gmac", _gmac),
        Cell(f"{_effective(pair.paddle)} : {_effective(pair.pytorch)}"),
        Cell(parity_text(pair)),
    )


def _effective(group: Group) -> str:
    """Name the precision in effect, with the AMP type where AMP had effect."""
    if group.precision_effective == "amp" and group.plan.amp_dtype:
        return f"amp ({group.plan.amp_dtype})"
    return group.precision_effective or ABSENT


def parity_text(pair: Parity) -> str:
    """Write the ratio, or the ids of what forbids it; and what else differs."""
    notes = f" ({', '.join(pair.notes)})" if pair.notes else ""
    if pair.ratio is None:
        return f"not comparable: {', '.join(pair.not_comparable)}{notes}"
    return f"{numbers.rate(pair.ratio)}{notes}"


def _both(paddle: str, pytorch: str) -> Cell:
    """Write the values of both sides; one value where they are equal."""
    return Cell(paddle if paddle == pytorch else f"{paddle} : {pytorch}")


def _both_optional(pair: Parity, title: str, name: str, write: Callable[[Any], str]) -> Cell:
    texts, notes = [], []
    for group in (pair.paddle, pair.pytorch):
        value = getattr(group, name)
        texts.append(ABSENT if value is None else write(value))
        if value is None:
            why = group.missing.get(name, "not known")
            notes.append(f"{title} on {group.key.framework}: {why}")
    return Cell(" : ".join(texts), tuple(notes))


# Published figures

_PUBLISHED = (
    *("case", "benchmark", "framework", "precision"),
    *("source", "published", "estimator", "published on", "ours", "deviation"),
)


def _published(result: Result) -> list[tuple[Cell, ...]]:
    """Lay out a row for each published figure, or one with the reason why there is none."""
    group = result.group
    names = (group.key.case, group.key.benchmark, group.key.framework, precision(group))
    start = tuple(Cell(name) for name in names)
    if not result.deviations:
        return [(*start, *[Cell(ABSENT)] * 5, absent(result.deviations_reason))]
    return [(*start, *_deviation(group, deviation)) for deviation in result.deviations]


def _quantity(group: Group, one: Deviation, value: float) -> str:
    if one.quantity == "time_to_train":
        return f"{numbers.seconds(value)} s"
    if one.quantity == "accuracy":
        return f"{numbers.plain(value, 5)} %"
    return f"{numbers.rate(value)} {group.unit}"


def _deviation(group: Group, one: Deviation) -> tuple[Cell, ...]:
    if one.ours is not None:
        ours = Cell(_quantity(group, one, one.ours))
    elif one.quantity != "throughput":
        name = {"time_to_train": "time_to_train_s"}.get(one.quantity, one.quantity)
        ours = absent(group.missing.get(name, "no valid figure"))
    elif group.spread is None:
        ours = absent("no valid figure")
    elif one.estimator == "unknown":
        ours = absent("the report does not say how its figure was computed")
    else:
        ours = absent(f"our runs have no figure by {one.estimator}")
    if one.ratio is None:
        ratio = f"not comparable: {', '.join(one.not_comparable)}"
    else:
        notes = f" ({', '.join(one.notes)})" if one.notes else ""
        ratio = f"{numbers.signed_percent(one.ratio)}{notes}"
    return (
        Cell(one.source, (f"{one.source}: {one.title}",)),
        Cell(_quantity(group, one, one.published), (one.remark,) if one.remark else ()),
        Cell(one.estimator),
        Cell(f"{one.case}, {one.precision}, batch {one.batch_size}, {one.gpu_model}"),
        ours,
        Cell(ratio),
    )
