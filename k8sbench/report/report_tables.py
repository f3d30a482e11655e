"""The tables of the five published reports, with our figures (``-o report``).

Each report has its own columns, order and headings: AI-Rank's five columns for each precision, one
column for each precision, Paddle beside PyTorch, or DLPerf's. A cell without a figure is ``-``, as
the reports have it. Smoke and CPU runs are no speed of GPUs and are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from k8sbench.model.group import Group, Result
from k8sbench.report import formats
from k8sbench.report.columns import is_of_case, nearest, trains
from k8sbench.report.tables import Cell, Table
from k8sbench.report.text_table import Column

NONE = "-"
Lang = str
"""``en`` or ``zh``."""
PRECISIONS = ("fp32", "amp")
_NAMES = {"pytorch": "PyTorch", "paddle": "PaddlePaddle"}
_HEADINGS = {
    "GPUs": "卡数",
    "Time2Train (s)": "Time2Train(sec)",
    "throughput (samples/s)": "吞吐(samples/sec)",
    "accuracy (%)": "准确率(%)",
    "speedup": "加速比",
    "case": "参数",
    "throughput": "吞吐",
    "accuracy": "准确率",
}
"""Headings in English → those of the reports in Chinese."""


class Rows(msgspec.Struct, frozen=True):
    """The rows of one program, which one report's tables are made of."""

    results: Sequence[Result]
    beside: Sequence[Result]
    """Those of the same benchmark in PyTorch, for tables of Paddle beside PyTorch."""
    gpus: tuple[int, ...]
    """Numbers of GPUs of the published rows; those that were measured come with them."""
    lang: Lang

    def counts(self) -> list[int]:
        """Return the numbers of GPUs that have a line."""
        return sorted({*self.gpus, *(r.group.plan.world_size for r in self.results)})

    def of(self, gpus: int, precision: str, *, trained: bool = False) -> Result | None:
        """Return the row of a cell: of several the newest with a figure.

        Without one that measured throughput alone, the throughput is that of one that trained.
        """
        return _of(self.results, gpus, precision, trained=trained)


def _of(results: Sequence[Result], gpus: int, precision: str, *, trained: bool) -> Result | None:
    fitting = [
        result
        for result in results
        if (result.group.plan.world_size, result.group.plan.precision) == (gpus, precision)
        and result.group.spread is not None
        and (trains(result) or not trained)
    ]
    return max(fitting, key=lambda r: (trains(r) is trained, r.group.latest), default=None)


Form = Callable[[Rows], list[Table]]


def tables(results: Sequence[Result], lang: Lang = "en") -> list[Table]:
    """Lay out the rows as the reports do: for each program the tables of its report."""
    programs: dict[tuple[str, str, str, str], list[Result]] = {}
    for result in results:
        group = result.group
        if not (group.smoke or group.on_cpu):
            key = group.key
            program = (key.benchmark, key.framework, key.variant, key.impl)
            programs.setdefault(program, []).append(result)
    made = []
    for program, some in programs.items():
        benchmark, framework = program[:2]
        gpus, forms = _REPORTS.get((benchmark, framework), ((), (_by_precision,)))
        beside = [
            r for key, rs in programs.items() if key[:2] == (benchmark, "pytorch") for r in rs
        ]
        rows = Rows(some, beside, gpus, lang)
        for table in (table for form in forms for table in form(rows)):
            title = " · ".join(word for word in (*program, table.title) if word and word != "-")
            made.append(msgspec.structs.replace(table, title=title))
    return made


# Cells


def _throughput(result: Result | None, lang: Lang, decimals: int | None = None) -> str:
    """Write a throughput, with the published one and the deviation where they were asked for."""
    if result is None or result.group.spread is None:
        return NONE
    median = result.group.spread.median
    text = formats.seconds(median) if decimals is None else f"{median:.{decimals}f}"
    one = nearest(result, "throughput")
    if one is None or not is_of_case(one, result):
        return text
    unlike = ", ".join(one.not_comparable)
    deviation = f"≠ {unlike}" if one.ratio is None else formats.signed_percent(one.ratio)
    word = "公布值" if lang == "zh" else "published"
    return f"{text} ({word} {formats.seconds(one.published)}, {deviation})"


def _speedup(result: Result | None) -> str:
    if result is None or result.speedup.value is None:
        return NONE
    return str(round(result.speedup.value, 2))


def _accuracy(result: Result | None) -> str:
    reached = None if result is None else result.group.accuracy
    if reached is None:
        return NONE
    return formats.plain(reached.best * (100 if reached.unit == "fraction" else 1), 5)


def _time(result: Result | None) -> str:
    time = None if result is None else result.group.time_to_train_s
    return NONE if time is None else formats.seconds(time)


def _table(
    title: str, headings: Sequence[str], lines: Iterable[Sequence[str]], lang: Lang
) -> Table:
    words = [_HEADINGS.get(one, one) if lang == "zh" else one for one in headings]
    name = _HEADINGS.get(title, title) if lang == "zh" else title
    columns = tuple(
        Column(word, right=heading != "case", whole=True, stays=True)
        for word, heading in zip(words, headings, strict=True)
    )
    return Table(
        title=name,
        columns=columns,
        rows=tuple(tuple(map(Cell, line)) for line in lines),
        as_is=True,
    )


# Forms


def _by_precision(rows: Rows) -> list[Table]:
    """AI-Rank's five columns, one table for each precision."""
    headings: tuple[str, ...] = (
        *("GPUs", "Time2Train (s)", "throughput (samples/s)"),
        *("accuracy (%)", "speedup"),
    )
    made = []
    for precision in PRECISIONS:
        if not any(result.group.plan.precision == precision for result in rows.results):
            continue
        lines = []
        for gpus in rows.counts():
            result = rows.of(gpus, precision)
            trained = rows.of(gpus, precision, trained=True)
            figures = (_throughput(result, rows.lang), _accuracy(trained))
            speedup = _speedup(result) if gpus > 1 else NONE
            lines.append((str(gpus), _time(trained), *figures, speedup))
        made.append(_table(precision.upper(), headings, lines, rows.lang))
    return made


def _throughput_and_accuracy(rows: Rows) -> list[Table]:
    """Two tables, with a column for each precision; of one GPU no accuracy was published."""
    throughput, accuracy = [], []
    for gpus in rows.counts():
        found = [rows.of(gpus, precision) for precision in PRECISIONS]
        trained = [rows.of(gpus, precision, trained=True) for precision in PRECISIONS]
        throughput.append((str(gpus), *(_throughput(one, rows.lang) for one in found)))
        if gpus > 1 or any(_accuracy(one) != NONE for one in trained):
            accuracy.append((str(gpus), *map(_accuracy, trained)))
    headings = ("GPUs", "FP32", "AMP")
    return [
        _table("throughput", headings, throughput, rows.lang),
        _table("accuracy", headings, accuracy, rows.lang),
    ]


_BATCHES = {"fp32": "2", "amp": "4"}
"""Samples per GPU of the published tables of DeepLabV3P on Paddle."""


def _batch(rows: Sequence[Result], precision: str) -> str:
    """Return the batch per GPU of a column: of the rows, or as published where there are none."""
    some = {str(r.group.key.batch_size) for r in rows if r.group.plan.precision == precision}
    return "/".join(sorted(some, key=int)) or _BATCHES[precision]


def _with_batches(rows: Rows) -> list[Table]:
    batches = {precision: _batch(rows.results, precision) for precision in PRECISIONS}
    lines = [
        (str(gpus), *(_throughput(rows.of(gpus, one), rows.lang) for one in PRECISIONS))
        for gpus in rows.counts()
    ]
    headings = ("GPUs", *(f"{one.upper()}(BS={batches[one]})" for one in PRECISIONS))
    return [_table("throughput", headings, lines, rows.lang)]


def _beside_pytorch(rows: Rows) -> list[Table]:
    """Paddle beside PyTorch, one table for each precision."""
    made = []
    for precision in PRECISIONS:
        batch = _batch(rows.results, precision)
        lines = [
            (
                f"GPU={gpus},BS={batch}",
                _throughput(rows.of(gpus, precision), rows.lang),
                _throughput(_of(rows.beside, gpus, precision, trained=False), rows.lang),
            )
            for gpus in rows.counts()
        ]
        headings = ("case", "PaddlePaddle", "NGC PyTorch")
        made.append(_table(precision.upper(), headings, lines, rows.lang))
    return made


def _dlperf(*identity: str) -> Form:
    """DLPerf's tables: what a row is, samples/s to two decimals, speedup."""

    def form(rows: Rows) -> list[Table]:
        name = f"({_NAMES[rows.results[0].group.key.framework]})"
        unit = "samples/s" + name * ("batch_size_per_device" in identity)
        # A report of one node has no column of them; more nodes need it.
        many = any(r.group.plan.replicas > 1 for r in rows.results if r.group.spread is not None)
        fields = identity if "node_num" in identity or not many else ("node_num", *identity)
        made = []
        for precision in PRECISIONS:
            of = [r for r in rows.results if r.group.plan.precision == precision]
            counts = sorted({(r.group.plan.replicas, r.group.plan.world_size) for r in of})
            lines = []
            for _, gpus in counts:
                result = rows.of(gpus, precision)
                if result is not None:
                    words = [str(_IDENTITY[field](result.group)) for field in fields]
                    lines.append((*words, _throughput(result, rows.lang, 2), _speedup(result)))
            if lines:
                title = precision.upper()
                made.append(_table(title, (*fields, unit, "speedup"), lines, "en"))
        return made

    return form


_IDENTITY: dict[str, Callable[[Group], int]] = {
    "node_num": lambda group: group.plan.replicas,
    "gpu_num": lambda group: group.plan.world_size,
    "gpu_num_per_node": lambda group: group.plan.processes_per_replica,
    "batch_size_per_device": lambda group: group.key.batch_size,
}
_REPORTS: dict[tuple[str, str], tuple[tuple[int, ...], tuple[Form, ...]]] = {
    ("deeplabv3p", "pytorch"): ((1, 8, 16, 32), (_by_precision,)),
    ("deeplabv3p", "paddle"): ((1, 8, 32), (_with_batches, _beside_pytorch)),
    ("tsm", "pytorch"): ((1, 8, 32), (_throughput_and_accuracy,)),
    ("resnet50", "pytorch"): ((), (_dlperf("gpu_num_per_node", "batch_size_per_device"),)),
    ("arcface", "paddle"): ((), (_dlperf("node_num", "gpu_num"),)),
}
"""Benchmark and framework → numbers of GPUs of the published rows, and the tables of its report."""
