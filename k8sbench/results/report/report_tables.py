"""Tables of the five published reports with our figures (``-o report``).

Each report has its own columns, order and headings: AI-Rank's five columns for each precision, one
column for each precision, Paddle beside PyTorch, or DLPerf's. A cell without a valid figure is
``-``, as in the reports. Smoke and CPU runs are left out, because they do not measure GPUs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import msgspec

from k8sbench.messages import Lang
from k8sbench.model.errors import list_few
from k8sbench.model.group import Group, Result
from k8sbench.results.report import formats, group_words, words
from k8sbench.results.report.columns import (
    as_published,
    from_corrected,
    is_of_case,
    nearest,
    trains,
)
from k8sbench.results.report.noted_tables import Cell, Table, without
from k8sbench.results.report.tables import Column
from k8sbench.results.report.words import say

NONE = "-"
MOST_NAMED = 10
"""Rows that a sentence about rows without a table names."""
PRECISIONS = ("fp32", "amp")


class Rows(msgspec.Struct, frozen=True):
    """Rows of one program, for the tables of one report."""

    results: Sequence[Result]
    beside: Sequence[Result]
    """PyTorch rows of the benchmark, for the tables of both frameworks."""
    gpus: tuple[int, ...]
    """GPU counts of the published rows; measured counts are added."""
    lang: Lang

    @property
    def unit(self) -> str:
        """Unit of the throughputs."""
        return self.results[0].group.unit or "samples/s"

    def counts(self, *precisions: str) -> list[int]:
        """Return the GPU counts with a line in a table of these precisions."""
        cases = [r.group.facts for r in self.results if r.group.facts.precision in precisions]
        return sorted({*self.gpus, *(one.world_size for one in cases if one.world_size)})

    def find(self, gpus: int, precision: str, *, trained: bool = False) -> Result | None:
        """Return the row of a cell: the newest with a figure.

        Without a throughput run, the throughput is that of a training.
        """
        fitting = [
            result
            for result in self.results
            if (result.group.facts.world_size, result.group.facts.precision) == (gpus, precision)
            and (trains(result) or not trained)
        ]
        return max(fitting, key=lambda r: (trains(r) is trained, r.group.began[1]), default=None)

    def batch(self, precision: str) -> str:
        """Return the batch per GPU of the rows; without rows the published one."""
        cases = (r.group.facts for r in self.results)
        some = {str(one.batch_size) for one in cases if one.precision == precision}
        return "/".join(sorted(some, key=int)) or _BATCHES[precision]


ReportCell = Callable[[Rows, int, str], str]
"""Text of a cell, from GPUs and precision."""


def tables(results: Sequence[Result], lang: Lang = "en") -> list[Table]:
    """Lay out each program's rows in the tables of its report."""
    programs: dict[tuple[str, ...], list[Result]] = {}
    for result in results:
        key = result.group.key
        if why_left_out(result.group) is None:
            own: tuple[str, ...]
            own = (key.benchmark, key.framework, key.variant, key.impl, key.gpu_model)
            programs.setdefault(own, []).append(result)
    for title in group_words.TELL_APART:
        programs = {
            (*program, *more): each
            for program, some in programs.items()
            for more, each in _apart(some, title)
        }
    made = []
    for program, some in programs.items():
        benchmark, framework = program[:2]
        published = _REPORTS.get((benchmark, framework), _OTHER)
        ours = (benchmark, "pytorch", program[4])
        theirs = {of: rs for of, rs in programs.items() if (*of[:2], of[4]) == ours}
        alike = {of: rs for of, rs in theirs.items() if of[5:] == program[5:]}
        beside = [r for rs in (alike or theirs).values() for r in rs]
        rows = Rows(some, beside, published.gpus, lang)
        for layout in published.layouts:
            head = (benchmark, *program[4:]) if layout.of_benchmark else program
            for table in _lay_out(layout, rows):
                parts = (*head, table.title)
                title = " · ".join(
                    str(word) for word in parts if word and word not in ("-", "unknown")
                )
                made.append(msgspec.structs.replace(table, title=title))
    return made


def _apart(results: Sequence[Result], title: str) -> list[tuple[tuple[str, ...], list[Result]]]:
    """Split rows that share a cell by what tells them apart.

    A value that separates none of them splits nothing: cases would be tables of one line.
    """
    values: dict[str, list[Result]] = {}
    for row in results:
        values.setdefault(group_words.word(row.group, title), []).append(row)
    apart = {(word, *_cell_of(row)) for word, some in values.items() for row in some}
    if len(apart) == len({_cell_of(row) for row in results}):
        return [((), [*results])]
    return [((word,), some) for word, some in values.items()]


def _cell_of(row: Result) -> tuple[object, ...]:
    """Return what decides the cell of a row in the tables of its program."""
    facts, key = row.group.facts, row.group.key
    has_own = (key.benchmark, key.framework) not in _REPORTS
    # The tables of an own benchmark are of one batch each.
    batch = facts.batch_size if has_own else None
    return facts.world_size, facts.precision, trains(row), batch


def left_out(results: Sequence[Result]) -> list[str]:
    """Return a sentence for each reason why rows are in no table."""
    rows: dict[str, list[str]] = {}
    groups = [result.group for result in results]
    names = group_words.names(groups)
    for group in groups:
        if (why := why_left_out(group)) is not None:
            rows.setdefault(why, []).append(names[group.key.id])
    return [
        f"left out, {say('en', why)}: {list_few(some, MOST_NAMED)}" for why, some in rows.items()
    ]


def why_left_out(group: Group) -> str | None:
    """Return the id of the reason's message; None for rows in the tables."""
    if group.smoke:
        return "why_smoke"
    if group.on_cpu:
        return "why_cpu"
    return None if group.state == "valid" else "why_invalid"


# Cells


def _throughput(rows: Rows, gpus: int, precision: str) -> str:
    """Write a throughput; if requested with published figure and deviation."""
    result = rows.find(gpus, precision)
    if result is None or result.group.spread is None:
        return NONE
    text = formats.rate(result.group.spread.median)
    return text + _beside_published(result, "throughput", rows.lang)


def _beside_published(result: Result, quantity: str, lang: Lang) -> str:
    """Write a published figure and the deviation in brackets; empty without a comparison."""
    one = nearest(result, quantity)
    if one is None or not is_of_case(one, result):
        return ""
    if (deviation := formats.deviation(one)) is None:
        return ""
    # As in all comparisons, both sides are by one estimator.
    is_other = one.ratio is not None and one.estimator != result.group.estimator
    is_named = is_other and quantity == "throughput"
    deviation += from_corrected(one, lang)
    rule = say(lang, "by_rule", rule=one.estimator) if is_named else ""
    word = say(lang, "published_figure")
    return f" ({word} {as_published(one, lang)}, {one.source}, {deviation}{rule})"


def _batch(rows: Rows, gpus: int, precision: str) -> str:
    result = rows.find(gpus, precision)
    return rows.batch(precision) if result is None else _batch_of(result)


def _batch_of(result: Result) -> str:
    return formats.or_absent(result.group.facts.batch_size)


def _pytorch_figure(rows: Rows, gpus: int, precision: str) -> str:
    """Write PyTorch's figure at the line's batch; others are another case."""
    batch = _batch(rows, gpus, precision)
    beside = [result for result in rows.beside if _batch_of(result) == batch]
    return _throughput(msgspec.structs.replace(rows, results=beside), gpus, precision)


def _speedup(rows: Rows, gpus: int, precision: str) -> str:
    result = rows.find(gpus, precision)
    if result is None or result.speedup.value is None:
        return NONE
    return formats.ratio(result.speedup.value)


def _accuracy(rows: Rows, gpus: int, precision: str) -> str:
    result = rows.find(gpus, precision, trained=True)
    reached = None if result is None else group_words.accuracy(result.group)
    if result is None or reached is None:
        return NONE
    figure, is_part = reached
    shown = say(rows.lang, "accuracy-unfinished", figure=figure) if is_part else figure
    return shown + _beside_published(result, "accuracy", rows.lang)


def _time(rows: Rows, gpus: int, precision: str) -> str:
    result = rows.find(gpus, precision, trained=True)
    time = result and result.group.time_to_train_s
    if result is None or not time:
        return NONE
    return formats.seconds(time) + _beside_published(result, "time_to_train", rows.lang)


def _read_plan(name: str) -> ReportCell:
    def cell(rows: Rows, gpus: int, precision: str) -> str:
        result = rows.find(gpus, precision)
        return NONE if result is None else formats.or_absent(getattr(result.group.facts, name))

    return cell


# Columns


class ReportColumn(msgspec.Struct, frozen=True):
    """A column of a table, or the quantity of one."""

    title: Callable[[Rows], str]
    cell: ReportCell
    is_right: bool = True
    when: Callable[[Rows], bool] = lambda _: True
    """Rows whose table has it."""
    one_gpu: bool = True
    """False if one GPU has a line only with a figure: the reports have none."""


def _titled(name: str) -> Callable[[Rows], str]:
    return lambda rows: words.name_of_fact(rows.lang, name)


def _named(name: str) -> Callable[[Rows], str]:
    return lambda _: name


def _of_unit(rows: Rows) -> str:
    return say(rows.lang, "title-throughput-of", unit=rows.unit)


def _of_pytorch(rows: Rows) -> str:
    """Name PyTorch with its image, if all its rows have one."""
    images = {result.group.facts.image for result in rows.beside}
    image = images.pop() if len(images) == 1 else None
    return f"PyTorch ({image})" if image else "PyTorch"


def _case(rows: Rows, gpus: int, precision: str) -> str:
    return f"GPU={gpus},BS={_batch(rows, gpus, precision)}"


def _has_nodes(rows: Rows) -> bool:
    return any(result.group.facts.replicas > 1 for result in rows.results)


_NODES = ReportColumn(_named("node_num"), _read_plan("replicas"))
COLUMNS = {
    "gpus": ReportColumn(_titled("GPUs"), lambda _, gpus, __: str(gpus)),
    "time": ReportColumn(_titled("Time2Train (s)"), _time),
    "throughput": ReportColumn(_of_unit, _throughput),
    "accuracy": ReportColumn(_titled("accuracy (%)"), _accuracy, one_gpu=False),
    "speedup": ReportColumn(_titled("speedup"), _speedup),
    "case": ReportColumn(_titled("case"), _case, is_right=False),
    "paddle": ReportColumn(_named("PaddlePaddle"), _throughput),
    "pytorch": ReportColumn(_of_pytorch, _pytorch_figure),
    # DLPerf's report of one node has no column of them.
    "node_num if several": msgspec.structs.replace(_NODES, when=_has_nodes),
    "node_num": _NODES,
    "gpu_num": ReportColumn(_named("gpu_num"), _read_plan("world_size")),
    "gpu_num_per_node": ReportColumn(
        _named("gpu_num_per_node"), _read_plan("processes_per_replica")
    ),
    "batch_size_per_device": ReportColumn(
        _named("batch_size_per_device"), _read_plan("batch_size")
    ),
    "ratio": ReportColumn(_named("speedup"), _speedup),
    "rate": ReportColumn(lambda rows: rows.unit, _throughput),
    "rate of PyTorch": ReportColumn(lambda rows: f"{rows.unit}(PyTorch)", _throughput),
}
"""Name → column of the published reports."""


# Layouts


class Layout(msgspec.Struct, frozen=True):
    """Tables of a published report."""

    columns: tuple[str, ...]
    """Names of the columns; of tables by quantity those of the quantities."""
    by: Literal["precision", "quantity"] = "precision"
    """``quantity``: one table per quantity, with a column per precision."""
    has_batches: bool = False
    """True if the columns of precisions name their batches."""
    of_benchmark: bool = False
    """True if it has the rows of both frameworks."""
    of_one_batch: bool = False
    """True if each batch has tables, without columns that no row of them fills."""


class Report(msgspec.Struct, frozen=True):
    """A published report."""

    layouts: tuple[Layout, ...]
    gpus: tuple[int, ...] = ()
    """GPU counts of its rows."""


_OF_AI_RANK = ("gpus", "time", "throughput", "accuracy", "speedup")
_OF_ARCFACE = ("node_num", "gpu_num", "rate", "ratio")
_OF_RESNET50 = (
    *("node_num if several", "gpu_num_per_node", "batch_size_per_device"),
    *("rate of PyTorch", "ratio"),
)
_OTHER = Report((Layout(_OF_AI_RANK, of_one_batch=True),))
"""The tables of a benchmark without a report: those of AI-Rank."""
_REPORTS = {
    ("deeplabv3p", "pytorch"): Report((Layout(_OF_AI_RANK),), (1, 8, 16, 32)),
    ("deeplabv3p", "paddle"): Report(
        (
            Layout(("throughput",), by="quantity", has_batches=True),
            Layout(("case", "paddle", "pytorch"), of_benchmark=True),
        ),
        (1, 8, 32),
    ),
    ("tsm", "pytorch"): Report((Layout(("throughput", "accuracy"), by="quantity"),), (1, 8, 32)),
    ("resnet50", "pytorch"): Report((Layout(_OF_RESNET50),)),
    ("arcface", "paddle"): Report((Layout(_OF_ARCFACE),)),
}
"""(Benchmark, framework) → its report."""
_BATCHES = {"fp32": "2", "amp": "4"}
"""Samples per GPU in the published tables of DeepLabV3P on Paddle."""


def _lay_out(layout: Layout, rows: Rows) -> list[Table]:
    """Build the tables of a layout."""
    if layout.of_one_batch:
        return _by_batch(layout, rows)
    columns = [column for name in layout.columns if (column := COLUMNS[name]).when(rows)]
    if layout.by == "quantity":
        return [_of_quantity(column, rows, has_batches=layout.has_batches) for column in columns]
    measured = {result.group.facts.precision for result in rows.results}
    return [_of_precision(columns, rows, one) for one in PRECISIONS if one in measured]


def _of_precision(columns: Sequence[ReportColumn], rows: Rows, precision: str) -> Table:
    lines = [
        [column.cell(rows, gpus, precision) for column in columns]
        for gpus in rows.counts(precision)
    ]
    heads = [Column(one.title(rows), right=one.is_right) for one in columns]
    return _table(precision.upper(), heads, lines)


def _of_quantity(quantity: ReportColumn, rows: Rows, *, has_batches: bool) -> Table:
    lines = [
        (str(gpus), *(quantity.cell(rows, gpus, precision) for precision in PRECISIONS))
        for gpus in rows.counts(*PRECISIONS)
    ]
    if not quantity.one_gpu:
        lines = [line for line in lines if line[0] != "1" or {*line[1:]} != {NONE}]
    batches = (f"(BS={rows.batch(one)})" * has_batches for one in PRECISIONS)
    heads = [COLUMNS["gpus"].title(rows)]
    heads += [one.upper() + batch for one, batch in zip(PRECISIONS, batches, strict=True)]
    return _table(quantity.title(rows), [Column(head, right=True) for head in heads], lines)


def _by_batch(layout: Layout, rows: Rows) -> list[Table]:
    """Build the tables of each batch, without columns that no row of them fills."""
    by_case: dict[tuple[bool, int | float], list[Result]] = {}
    for result in rows.results:
        facts = result.group.facts
        by_case.setdefault((facts.precision == "amp", facts.batch_size or 0), []).append(result)
    made = []
    plain = msgspec.structs.replace(layout, of_one_batch=False)
    for (_, batch), some in sorted(by_case.items(), key=lambda of: of[0]):
        for table in _lay_out(plain, msgspec.structs.replace(rows, results=some)):
            places = range(len(table.columns))
            empty = [n for n in places if {row[n].text for row in table.rows} == {NONE}]
            title = f"{table.title}(BS={batch})"
            made.append(msgspec.structs.replace(without(table, empty), title=title))
    return made


def _table(title: str, columns: Sequence[Column], lines: Iterable[Sequence[str]]) -> Table:
    return Table(
        title=title,
        columns=tuple(msgspec.structs.replace(one, whole=True, stays=True) for one in columns),
        rows=tuple(tuple(map(Cell, line)) for line in lines),
    )
