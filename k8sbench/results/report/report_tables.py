"""Tables of the five published reports with our figures (``-o report``).

Each report has its own columns, order and headings: AI-Rank's five columns for each precision, one
column for each precision, Paddle beside PyTorch, or DLPerf's. A cell without a valid figure is
``-``, as in the reports. Smoke and CPU runs are left out, because they do not measure GPUs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

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
from k8sbench.results.report.noted_tables import Cell, Table
from k8sbench.results.report.tables import Column
from k8sbench.results.report.words import say

NONE = "-"
_IN_SAMPLES = "throughput (samples/s)"
_IN_PERCENT = "accuracy (%)"
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


Form = Callable[[Rows], list[Table]]
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
        gpus, forms = _REPORTS.get((benchmark, framework), ((), (_own_benchmark,)))
        ours = (benchmark, "pytorch", program[4])
        theirs = {of: rs for of, rs in programs.items() if (*of[:2], of[4]) == ours}
        alike = {of: rs for of, rs in theirs.items() if of[5:] == program[5:]}
        beside = [r for rs in (alike or theirs).values() for r in rs]
        rows = Rows(some, beside, gpus, lang)
        for form in forms:
            # The table beside PyTorch has rows of both frameworks.
            head = (benchmark, *program[4:]) if form is _beside_pytorch else program
            for table in form(rows):
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


def _heading(lang: Lang, name: str) -> str:
    if name == _IN_SAMPLES:
        return say(lang, "title-throughput-of", unit="samples/s")
    return words.name_of_fact(lang, name)


def _table(
    title: str, headings: Sequence[str], lines: Iterable[Sequence[str]], lang: Lang, unit: str = ""
) -> Table:
    heads = [_heading(lang, one) for one in headings]
    if unit not in ("", "samples/s"):
        heads = [word.replace("samples/s", unit) for word in heads]
    columns = tuple(
        Column(word, right=one != "case", whole=True, stays=True)
        for word, one in zip(heads, headings, strict=True)
    )
    return Table(
        title=_heading(lang, title),
        columns=columns,
        rows=tuple(tuple(map(Cell, line)) for line in lines),
    )


# Forms


def _by_precision(columns: Mapping[str, ReportCell], *, is_english: bool = False) -> Form:
    """Build one table per precision; ``is_english``: in any language."""

    def form(rows: Rows) -> list[Table]:
        made = []
        for precision in PRECISIONS:
            lines = [
                [cell(rows, gpus, precision) for cell in columns.values()]
                for gpus in rows.counts(precision)
            ]
            if lines and any(result.group.facts.precision == precision for result in rows.results):
                lang = "en" if is_english else rows.lang
                unit = rows.results[0].group.unit
                made.append(_table(precision.upper(), [*columns], lines, lang, unit))
        return made

    return form


def _by_quantity(quantities: Mapping[str, ReportCell], *, has_batches: bool = False) -> Form:
    """Build one table per quantity, with a column per precision."""

    def form(rows: Rows) -> list[Table]:
        made = []
        for title, cell in quantities.items():
            lines = [
                (str(gpus), *(cell(rows, gpus, precision) for precision in PRECISIONS))
                for gpus in rows.counts(*PRECISIONS)
            ]
            if title == _IN_PERCENT:  # of one GPU none was published
                lines = [line for line in lines if line[0] != "1" or {*line[1:]} != {NONE}]
            batches = [f"(BS={rows.batch(one)})" * has_batches for one in PRECISIONS]
            headings = [one.upper() + batch for one, batch in zip(PRECISIONS, batches, strict=True)]
            made.append(_table(title, ("GPUs", *headings), lines, rows.lang))
        return made

    return form


def _dlperf(unit: str, *identity: str) -> Form:
    """Build DLPerf's tables: row, samples/s, speedup."""

    def form(rows: Rows) -> list[Table]:
        # A report of one node has no column of them; more nodes need it.
        many = any(r.group.facts.replicas > 1 for r in rows.results)
        fields = dict.fromkeys((*(("node_num",) if many else ()), *identity))
        columns = {name: _read_plan(_IDENTITY[name]) for name in fields}
        columns |= {unit: _throughput, "speedup": _speedup}
        return _by_precision(columns, is_english=True)(rows)

    return form


def _beside_pytorch(rows: Rows) -> list[Table]:
    """Build the table of Paddle and PyTorch, headed by PyTorch's image."""
    images = {result.group.facts.image for result in rows.beside}
    image = images.pop() if len(images) == 1 else None
    columns: dict[str, ReportCell] = {
        "case": lambda rows, gpus, precision: f"GPU={gpus},BS={_batch(rows, gpus, precision)}",
        "PaddlePaddle": _throughput,
        f"PyTorch ({image})" if image else "PyTorch": _pytorch_figure,
    }
    return _by_precision(columns)(rows)


def _own_benchmark(rows: Rows) -> list[Table]:
    """Build AI-Rank's tables for each batch, without columns that no row of them fills."""
    by_case: dict[tuple[bool, int | float], list[Result]] = {}
    for result in rows.results:
        facts = result.group.facts
        by_case.setdefault((facts.precision == "amp", facts.batch_size or 0), []).append(result)
    made = []
    for (_, batch), some in sorted(by_case.items(), key=lambda of: of[0]):
        for table in _AI_RANK(msgspec.structs.replace(rows, results=some)):
            cells = ([row[place].text for row in table.rows] for place in range(len(table.columns)))
            kept = [place for place, column in enumerate(cells) if {*column} != {NONE}]
            columns = tuple(table.columns[place] for place in kept)
            lines = tuple(tuple(row[place] for place in kept) for row in table.rows)
            title = f"{table.title}(BS={batch})"
            made.append(msgspec.structs.replace(table, title=title, columns=columns, rows=lines))
    return made


_BATCHES = {"fp32": "2", "amp": "4"}
"""Samples per GPU in the published tables of DeepLabV3P on Paddle."""
_IDENTITY = {
    "node_num": "replicas",
    "gpu_num": "world_size",
    "gpu_num_per_node": "processes_per_replica",
    "batch_size_per_device": "batch_size",
}
_OF_AI_RANK: dict[str, ReportCell] = {
    "GPUs": lambda _, gpus, __: str(gpus),
    "Time2Train (s)": _time,
    _IN_SAMPLES: _throughput,
    _IN_PERCENT: _accuracy,
    "speedup": _speedup,
}
_AI_RANK = _by_precision(_OF_AI_RANK)
_WITH_BATCHES = _by_quantity({_IN_SAMPLES: _throughput}, has_batches=True)
_QUANTITIES = _by_quantity({_IN_SAMPLES: _throughput, _IN_PERCENT: _accuracy})
_RESNET50 = _dlperf("samples/s(PyTorch)", "gpu_num_per_node", "batch_size_per_device")
_REPORTS: dict[tuple[str, str], tuple[tuple[int, ...], tuple[Form, ...]]] = {
    ("deeplabv3p", "pytorch"): ((1, 8, 16, 32), (_AI_RANK,)),
    ("deeplabv3p", "paddle"): ((1, 8, 32), (_WITH_BATCHES, _beside_pytorch)),
    ("tsm", "pytorch"): ((1, 8, 32), (_QUANTITIES,)),
    ("resnet50", "pytorch"): ((), (_RESNET50,)),
    ("arcface", "paddle"): ((), (_dlperf("samples/s", "node_num", "gpu_num"),)),
}
"""(Benchmark, framework) → GPU counts and tables of its report."""
