"""``k8sbench benchmarks``: the catalog; one benchmark with its cases and published figures.

Nothing of a figure is left out: its estimator stands beside it even where it is unknown, what is
odd about it stands below the table. On a terminal that is too narrow for the table, every row
becomes a short list.
"""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from k8sbench.app import catalog
from k8sbench.cli.terminal import output
from k8sbench.model.measurement import SCHEMA
from k8sbench.model.spec import BenchmarkSpec, Published, Source, Upstream, Variant
from k8sbench.report.text_table import Column, clean, plain_table

if TYPE_CHECKING:
    from k8sbench.app.catalog import LoadedSpec

LIST = (
    Column("NAME", whole=True),
    Column("TITLE"),
    Column("FRAMEWORKS"),
    Column("VARIANTS"),
    Column("CASES"),
)
LIST_WIDE = (Column("UNIT"), Column("PUBLISHED", right=True), Column("TASK"))
FIELD = 12
"""Width of the names of facts, which stand before them."""


@click.command()
@click.argument("name", metavar="[NAME|FILE]", required=False)
@click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(["table", "wide", "json", "yaml", "name"]),
    default="table",
    help="Format; wide adds upstream's commands.",
)
def command(name: str | None, form: str) -> None:
    """List the catalog, or one benchmark with figures.

    A path in the place of a name shows a file of your own; docs/catalog.md tells how to write one.
    """
    if name is None:
        _list(catalog.benchmarks(), form)
        return
    found = catalog.benchmark(name)
    if found.shadows:
        output.note(
            f"{found.source} defines {found.spec.name}, which is also a built-in benchmark:"
            " this is the file's."
        )
    _one(found, form)


def _list(every: Sequence[LoadedSpec], form: str) -> None:
    if form in ("json", "yaml"):
        write = output.write_json if form == "json" else output.write_yaml
        write({"schema": SCHEMA, "benchmarks": [_entry(found) for found in every]})
    elif form == "name":
        output.write_names(found.spec.name for found in every)
    else:
        wide = form == "wide"
        _show(
            LIST + (LIST_WIDE if wide else ()),
            [_row(found.spec)[: None if wide else len(LIST)] for found in every],
        )


def _entry(found: LoadedSpec) -> dict[str, Any]:
    spec = found.spec
    return {
        "name": spec.name,
        "title": spec.title,
        "task": spec.task,
        "unit": spec.unit,
        "frameworks": spec.frameworks,
        "default_framework": spec.default_framework,
        "variants": [
            {
                "name": variant.name,
                "framework": variant.framework,
                "title": variant.title,
                "default": spec.default_variant(variant.framework) is variant,
                "impl": variant.impl,
                "batch_size": variant.batch_size,
                "cases": variant.cases,
                "repeats": variant.repeats,
                "published": len(variant.published),
            }
            for variant in spec.variants
        ],
        "source": found.source,
        "digest": found.digest,
    }


def _row(spec: BenchmarkSpec) -> list[str | None]:
    cases = {case for variant in spec.variants for case in variant.cases}
    return [
        spec.name,
        spec.title,
        ", ".join(spec.frameworks),
        ", ".join(variant.name for variant in spec.variants),
        ", ".join(sorted(cases, key=_size)),
        spec.unit,
        str(sum(len(variant.published) for variant in spec.variants)),
        spec.task,
    ]


def _size(case: str) -> tuple[int, int]:
    replicas, gpus = case.split("x")
    return int(replicas) * int(gpus), int(replicas)


def _one(found: LoadedSpec, form: str) -> None:
    spec = found.spec
    if form in ("json", "yaml"):
        write = output.write_json if form == "json" else output.write_yaml
        write(
            {
                "schema": SCHEMA,
                "source": found.source,
                "digest": found.digest,
                "shadows_built_in": found.shadows,
                "benchmark": spec,
            }
        )
        return
    if form == "name":
        output.write_names([spec.name])
        return
    _say(f"{spec.name}: {spec.title}")
    _facts(_about(found))
    for variant in spec.variants:
        _say("")
        default = " (default)" if spec.default_variant(variant.framework) is variant else ""
        _say(f"{variant.framework} · {variant.name}{default}: {variant.title}")
        _facts(_settings(variant))
        if form == "wide" and variant.upstream is not None:
            _facts(_commands(variant.upstream))
        _figures(spec, variant)
    if spec.sources:
        _say("")
        _say("Sources")
        _facts((key, _source(source)) for key, source in spec.sources.items())


def _about(found: LoadedSpec) -> Iterator[tuple[str, str]]:
    spec = found.spec
    yield "Task", spec.task
    yield "Throughput", f"{spec.unit} per second of the whole job"
    if spec.target_accuracy is not None:
        target = spec.target_accuracy
        note = f". {target.note}" if target.note else ""
        yield "Target", f"{_number(target.value)} {target.unit} {target.metric}{note}"
    yield "Read from", found.source
    for note in spec.notes:
        yield "Note", note


def _settings(variant: Variant) -> Iterator[tuple[str, str]]:
    if variant.fingerprint is not None:
        model = variant.fingerprint
        yield (
            "Model",
            f"{model.model}; {model.parameters / 1e6:.3f} M parameters,"
            f" {_number(model.gmac)} GMAC at {model.input}"
            + (f". {model.note}" if model.note else ""),
        )
    batches = ", ".join(f"{size} at {name}" for name, size in variant.batch_size.items())
    amp = f"; AMP is {variant.amp_dtype}" if "amp" in variant.batch_size else ""
    yield "Batch", f"per GPU {batches}{amp}"
    window = variant.window
    yield (
        "Window",
        f"{window.warmup} iterations of warm-up, {window.iterations} measured ({window.rule})",
    )
    log = variant.log if isinstance(variant.log, str) else f"{variant.log.name} (this file's own)"
    one, many = window.log_interval["one_gpu"], window.log_interval["many_gpus"]
    several = "" if one == many else f" on one GPU, {many} on several"
    each = "iteration" if one == many == 1 else f"{one} iterations"
    yield "Log", f"{log}, a line each {each}{several}"
    times = "once each" if variant.repeats == 1 else f"{variant.repeats} times each"
    yield "Cases", f"{', '.join(variant.cases)}; {times} with --all-cases"
    yield from variant.case_notes.items()
    if variant.sync_bn:
        yield "Batch norm", "synchronised over the GPUs where there are several"
    if variant.data_set is not None:
        data = variant.data_set
        parts = [data.name, data.file, f"md5 {data.md5}" if data.md5 else None]
        parts.append(f"{data.samples} samples" if data.samples else None)
        yield "Data set", ", ".join(p for p in parts if p) + (f". {data.note}" if data.note else "")
    yield from _programs(variant)
    if variant.note is not None:
        yield "Note", variant.note


def _programs(variant: Variant) -> Iterator[tuple[str, str]]:
    if variant.trainer is not None:
        options = "".join(f" --{key} {value}" for key, value in variant.args.items())
        where = "; the local backend may run it" if variant.local else ""
        yield "Program", f"k8sbench's trainer {variant.trainer}{options}{where}"
    if variant.command:
        image = f" in {variant.image}" if variant.image else ""
        yield "Program", f"{' '.join(variant.command)}{image}"
    if variant.upstream is not None:
        upstream = variant.upstream
        precisions = " and ".join(upstream.command)
        text = f"{upstream.repository} at {upstream.commit}, {precisions}, {upstream.data} data"
        yield "Upstream", f"{text}; --impl upstream --image NAME:TAG runs it"
        if upstream.environment:
            known = (f"{key} {value}" for key, value in upstream.environment.items())
            yield "Ran on", ", ".join(known)
        if upstream.note is not None:
            yield "", upstream.note


def _commands(upstream: Upstream) -> Iterator[tuple[str, str]]:
    for precision, words in upstream.command_one_gpu.items():
        yield "Command", f"{precision}, one GPU: {' '.join(words)}"
    for precision, words in upstream.command.items():
        yield "Command", f"{precision}: {' '.join(words)}"
    for mode, words in upstream.added.items():
        yield "Added", f"for {mode}: {' '.join(words)}"
    for name, number in upstream.numbers.items():
        yield "Number", f"{{{name}}} is {' × '.join([_number(number.factor), *number.of])}"
    for key, value in upstream.env.items():
        yield "Variable", f"{key}={value}"


def _figures(spec: BenchmarkSpec, variant: Variant) -> None:
    figures = variant.published
    if not figures:
        _facts([("Published", "no figures")])
        return
    models = {figure.gpu_model for figure in figures}
    _facts([("Published", f"on {models.pop()}" if len(models) == 1 else "by GPU model")])
    notes: list[str] = []
    rows = [_figure(figure, notes) for figure in figures]
    columns = (
        Column("CASE", whole=True),
        Column("PRECISION", whole=True),
        Column("BATCH", right=True, whole=True),
        Column(f"{spec.unit}/s".upper(), right=True, whole=True),
        Column("ESTIMATOR"),
        Column("SPEEDUP", right=True, whole=True),
        Column("OF RUNS"),
        Column("RUNS"),
        Column("MEAN", right=True, whole=True),
        Column("TIME TO TRAIN", right=True),
        Column("ACCURACY", right=True),
        Column("DATA"),
        Column("GPU"),
        Column("SOURCE", whole=True),
        Column("NOTE"),
    )
    # A column without a value says nothing; the GPU is in the heading where it is one.
    kept = [
        index
        for index, column in enumerate(columns)
        if any(row[index] is not None for row in rows)
        and not (column.title == "GPU" and len({figure.gpu_model for figure in figures}) == 1)
    ]
    _show(
        [columns[i] for i in kept],
        [[row[i] for i in kept] for row in rows],
        indent="  ",
        heads=2,
    )
    for number, note in enumerate(notes, start=1):
        _say(f"[{number}] {note}", indent="  ", hang=len(f"[{number}] "))


def _figure(figure: Published, notes: list[str]) -> list[str | None]:
    marks = ["anomalous"] if figure.anomalous else []
    if figure.note is not None:
        if figure.note not in notes:
            notes.append(figure.note)
        marks.append(f"[{notes.index(figure.note) + 1}]")
    accuracy = figure.accuracy
    known = figure.throughput is not None
    return [
        figure.case,
        figure.precision,
        str(figure.batch_size),
        _number(figure.throughput) if figure.throughput is not None else None,
        figure.estimator if known else None,
        None if figure.speedup is None else _number(figure.speedup),
        figure.aggregate if figure.runs else None,
        " ".join(_number(run) for run in figure.runs) or None,
        None if figure.mean is None else _number(figure.mean),
        None if figure.time_to_train_s is None else f"{_number(figure.time_to_train_s)} s",
        None
        if accuracy is None
        else f"{_number(accuracy.value)} {accuracy.unit} {accuracy.metric}",
        figure.data if known else None,
        figure.gpu_model,
        figure.source,
        " ".join(marks) or None,
    ]


def _source(source: Source) -> str:
    place = [source.repository, source.path, f"at {source.commit}" if source.commit else None]
    text = ", ".join([source.title, " ".join(part for part in place if part)]).removesuffix(", ")
    return f"{text}. {source.note}" if source.note else text


def _number(value: float) -> str:
    """A number with every digit that it was given."""
    return f"{value:.15g}"


# --- how it is laid out -------------------------------------------------------------------------


def _facts(facts: Iterable[tuple[str, str]]) -> None:
    """Write names and what they stand for; a long name takes a line of its own."""
    for name, text in facts:
        if len(name) >= FIELD:
            _say(name, indent="  ")
            _say(text, indent="    ")
        else:
            _say(f"{name:<{FIELD}}{text}", indent="  ", hang=FIELD)


def _say(text: str, indent: str = "", hang: int = 0) -> None:
    """Write a paragraph: wrapped on a terminal, one line in a pipe, where grep finds all of it."""
    line = indent + clean(text).rstrip()
    if sys.stdout.isatty():
        line = textwrap.fill(
            line,
            width=max(_columns(), 20),
            subsequent_indent=indent + " " * min(hang, _columns() // 3),
            break_on_hyphens=False,
        )
    output.write(line + "\n")


def _show(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str | None]],
    indent: str = "",
    heads: int = 1,
) -> None:
    """Write a table; on a terminal that it does not fit, a list per row.

    Such a list is headed by the row's first cells, ``heads`` of them.
    """
    cells = [[output.ABSENT if cell is None else clean(cell) for cell in row] for row in rows]
    lines = plain_table(columns, cells).splitlines()
    if not sys.stdout.isatty():
        output.write("".join(f"{indent}{line}\n" for line in lines))
        return
    if max(map(len, lines)) <= _columns():
        output.write_table(columns, rows)
        return
    for row in rows:
        _say(" ".join(str(cell) for cell in row[:heads]), indent=indent)
        _facts(
            [
                (column.title.capitalize(), cell)
                for column, cell in zip(columns[heads:], row[heads:], strict=True)
                if cell is not None
            ]
        )


def _columns() -> int:
    return shutil.get_terminal_size().columns
