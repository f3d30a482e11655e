"""``k8sbench benchmarks``: the catalog; one benchmark with its cases and published figures.

A published figure is shown whole: with its estimator, also where that is unknown, and with its
notes below the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from k8sbench.app import catalog
from k8sbench.cli.options import format_option
from k8sbench.cli.rows import terminal_width
from k8sbench.cli.terminal import output
from k8sbench.model.counts import counted
from k8sbench.model.measurement import SCHEMA
from k8sbench.model.plain_text import clean
from k8sbench.model.spec import BenchmarkSpec, Citation, Published, Variant
from k8sbench.report.text_table import Column, wrapped

if TYPE_CHECKING:
    from k8sbench.app.catalog import LoadedSpec

LIST = (
    Column("NAME", whole=True),
    Column("TITLE"),
    Column("FRAMEWORKS"),
    Column("VARIANTS"),
    Column("CASES"),
)
DOCUMENTS: dict[str, Callable[[Any], None]] = {
    "json": output.write_json,
    "yaml": output.write_yaml,
}


@click.command()
@click.argument("benchmark", metavar="[NAME|FILE]", required=False)
@format_option("table", "json", "yaml", "name", about="Format; yaml has all that the file has.")
def command(benchmark: str | None, output_format: str) -> None:
    """List the catalog, or one benchmark with figures.

    A path instead of a name shows a file of your own; docs/catalog.md says how to write one.
    """
    if benchmark is None:
        _list(catalog.benchmarks(), output_format)
        return
    loaded = catalog.benchmark(benchmark)
    if loaded.shadows:
        output.note(
            f"{loaded.source} defines {loaded.spec.name}, which is also a built-in benchmark:"
            " this is the file's."
        )
    _one(loaded, output_format)


def _list(every: Sequence[LoadedSpec], output_format: str) -> None:
    if output_format in DOCUMENTS:
        DOCUMENTS[output_format]([_document(loaded) for loaded in every])
    elif output_format == "name":
        output.write_names(loaded.spec.name for loaded in every)
    else:
        output.write_table(LIST, [_row(loaded.spec) for loaded in every])


def _document(loaded: LoadedSpec) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "source": loaded.source,
        "digest": loaded.digest,
        "shadows_built_in": loaded.shadows,
        "benchmark": loaded.spec,
    }


def _row(spec: BenchmarkSpec) -> list[str | None]:
    cases = {case for variant in spec.variants for case in variant.cases}
    return [
        spec.name,
        spec.title,
        ", ".join(spec.frameworks),
        ", ".join(variant.name for variant in spec.variants),
        ", ".join(sorted(cases, key=_size)),
    ]


def _size(case: str) -> tuple[int, int]:
    replicas, gpus = case.split("x")
    return int(replicas) * int(gpus), int(replicas)


def _one(loaded: LoadedSpec, output_format: str) -> None:
    spec = loaded.spec
    if output_format in DOCUMENTS:
        DOCUMENTS[output_format](_document(loaded))
        return
    if output_format == "name":
        output.write_names([spec.name])
        return
    _write(f"{spec.name}: {spec.title}")
    _write_facts(_about(loaded))
    for variant in spec.variants:
        default = " (default)" if spec.default_variant(variant.framework) is variant else ""
        output.write("\n")
        _write(f"{variant.framework} · {variant.name}{default}: {variant.title}")
        _write_facts(_settings(variant))
        _write_figures(spec, variant)
    if spec.sources:
        output.write("\nSources\n")
        _write_facts((key, _source(source)) for key, source in spec.sources.items())


def _about(loaded: LoadedSpec) -> Iterator[tuple[str, str]]:
    spec, target = loaded.spec, loaded.spec.target_accuracy
    yield "Task", spec.task
    yield "Throughput", f"{spec.unit} per second of the whole job"
    if target is not None:
        note = f". {target.note}" if target.note else ""
        yield "Target", f"{target.value:.15g} {target.unit} {target.metric}{note}"
    yield "Read from", loaded.source
    for note in spec.notes:
        yield "Note", note


def _settings(variant: Variant) -> Iterator[tuple[str, str]]:
    batches = ", ".join(f"{size} at {name}" for name, size in variant.batch_size.items())
    amp = f"; AMP is {variant.amp_dtype}" if "amp" in variant.batch_size else ""
    yield "Batch", f"per GPU {batches}{amp}"
    window = variant.window
    measured = f"{window.iterations} measured ({window.rule})"
    yield "Window", f"{window.warmup} iterations of warm-up, {measured}"
    if (train := variant.train) is not None:
        length = f"{counted(train.length, train.unit[:-1])} from {train.start or 'scratch'}"
        yield "Training", f"{length}, evaluated by {train.metric} ({train.rule})"
    times = "once each" if variant.repeats == 1 else f"{variant.repeats} times each"
    yield "Cases", f"{', '.join(variant.cases)}; {times} with --all-cases"
    yield from variant.case_notes.items()
    if variant.command:
        yield "Program", " ".join(variant.command)
    if variant.upstream is not None:
        yield "Image", variant.upstream.note or "must hold the program"
    if variant.note is not None:
        yield "Note", variant.note


def _write_figures(spec: BenchmarkSpec, variant: Variant) -> None:
    figures = variant.published
    if not figures:
        _write_facts([("Published", "no figures")])
        return
    models = {figure.gpu_model for figure in figures}
    one_model = len(models) == 1
    _write_facts([("Published", f"on {models.pop()}" if one_model else "by GPU model")])
    notes = list(dict.fromkeys(figure.note for figure in figures if figure.note is not None))

    def marks(figure: Published) -> str | None:
        number = [] if figure.note is None else [f"[{notes.index(figure.note) + 1}]"]
        return " ".join([*(["anomalous"] if figure.anomalous else []), *number]) or None

    cells: tuple[tuple[Column, Callable[[Published], str | None]], ...] = (
        (Column("CASE", whole=True), lambda figure: figure.case),
        (Column("PRECISION", whole=True), lambda figure: figure.precision),
        (Column("BATCH", right=True, whole=True), lambda figure: str(figure.batch_size)),
        (
            Column(f"{spec.unit}/s".upper(), right=True, whole=True),
            lambda figure: _number(figure.throughput),
        ),
        (
            Column("ESTIMATOR"),
            lambda figure: figure.estimator if figure.throughput is not None else None,
        ),
        (Column("SPEEDUP", right=True, whole=True), lambda figure: _number(figure.speedup)),
        (Column("RUNS"), lambda figure: " ".join(f"{run:.15g}" for run in figure.runs) or None),
        (Column("TIME TO TRAIN", right=True), lambda figure: _number(figure.time_to_train_s, " s")),
        (Column("ACCURACY", right=True), _accuracy),
        # One GPU model for all is in the line above.
        (Column("GPU"), lambda figure: None if one_model else figure.gpu_model),
        (Column("SOURCE", whole=True), lambda figure: figure.source),
        (Column("NOTE"), marks),
    )
    # A column without a value is left out.
    kept = [(column, cell) for column, cell in cells if any(map(cell, figures))]
    output.write_table(
        [column for column, _ in kept], [[cell(figure) for _, cell in kept] for figure in figures]
    )
    for number, note in enumerate(notes, start=1):
        _write(f"  [{number}] {note}")


def _accuracy(figure: Published) -> str | None:
    if (reached := figure.accuracy) is None:
        return None
    return f"{reached.value:.15g} {reached.unit} {reached.metric}"


def _source(source: Citation) -> str:
    place = [source.repository, source.path, f"at {source.commit}" if source.commit else None]
    text = ", ".join([source.title, " ".join(part for part in place if part)]).removesuffix(", ")
    return f"{text}. {source.note}" if source.note else text


def _number(value: float | None, unit: str = "") -> str | None:
    """Write a number with every digit that it was given."""
    return None if value is None else f"{value:.15g}{unit}"


def _write_facts(facts: Iterable[tuple[str, str]]) -> None:
    for label, text in facts:
        _write(f"  {label}: {text}")


def _write(line: str) -> None:
    """Write a paragraph: folded on a terminal, one line in a pipe, where grep finds all of it."""
    start = line[: len(line) - len(line.lstrip())]
    text = wrapped(start + clean(line.strip()), terminal_width(), indent=f"{start}  ")
    output.write(f"{text}\n")
