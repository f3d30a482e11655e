"""``k8sbench benchmarks``: the catalog with images; one benchmark with its published figures.

A published figure is shown whole: with its estimator, also where that is unknown, and with its
notes below the table.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from k8sbench.app import catalog
from k8sbench.cli.options import format_option
from k8sbench.cli.rows import terminal_width
from k8sbench.cli.terminal import output
from k8sbench.model.counts import counted
from k8sbench.model.measurement import SCHEMA
from k8sbench.model.plain_text import clean
from k8sbench.model.spec import BenchmarkSpec, Citation, Framework, Published, Variant
from k8sbench.report.text_table import Column, wrapped

if TYPE_CHECKING:
    from k8sbench.app.catalog import LoadedSpec
    from k8sbench.model.image import ListedImage

Row = tuple["LoadedSpec", "Framework", "ListedImage | None"]
"""A benchmark, one of its frameworks, and an image that runs it."""


def _variants(row: Row) -> str:
    loaded, framework, _ = row
    return ", ".join(variant.name for variant in loaded.spec.variants_of(framework))


def _framework_cases(row: Row) -> str:
    loaded, framework, _ = row
    variants = loaded.spec.variants_of(framework)
    return ", ".join(sorted({case for one in variants for case in one.cases}, key=_size))


def _gpus(image: ListedImage | None) -> str | None:
    return None if image is None or image.gpus is None else ", ".join(image.gpus)


COLUMNS = (
    Column("NAME", lambda row: row[0].spec.name, whole=True),
    Column("TITLE", lambda row: row[0].spec.title, optional=3),
    Column("FRAMEWORK", lambda row: row[1], whole=True),
    Column("VARIANTS", _variants),
    Column("CASES", _framework_cases),
    Column("IMAGE", lambda row: row[2] and row[2].image, whole=True, optional=1),
    Column("GPUS", lambda row: _gpus(row[2]), cut=True),
)


@click.command()
@click.argument("benchmark", metavar="[NAME|FILE]", required=False)
@format_option("table", "json", "yaml", "name", about="Format; yaml has all that the file has.")
def command(benchmark: str | None, output_format: str) -> None:
    """List the catalog with images and GPUs, or one benchmark with figures.

    IMAGE is what k8sbench's own trainers run in. GPUS are the data centre GPUs for which the
    framework in it has kernels; on others a run fails at its first step. A path instead of a name
    shows a file of your own; docs/catalog.md says how to write one.
    """
    if benchmark is None:
        every = catalog.benchmarks()
        documents, names = map(_document, every), [loaded.spec.name for loaded in every]
        rows = [row for loaded in every for row in _rows(loaded)]
        output.write_items(output_format, COLUMNS, rows, [*documents], names)
        return
    loaded = catalog.benchmark(benchmark)
    if output_format == "table":
        _one(loaded)
    else:
        output.write_items(output_format, (), (), _document(loaded), [loaded.spec.name])


def _document(loaded: LoadedSpec) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "source": loaded.source,
        "digest": loaded.digest,
        "images": catalog.images(loaded.spec),
        "benchmark": loaded.spec,
    }


def _rows(loaded: LoadedSpec) -> Iterator[Row]:
    images = catalog.images(loaded.spec)
    for framework in loaded.spec.frameworks:
        own = [image for image in images if image.framework == framework]
        yield from ((loaded, framework, image) for image in own or (None,))


def _size(case: str) -> tuple[int, int]:
    replicas, gpus = case.split("x")
    return int(replicas) * int(gpus), int(replicas)


def _one(loaded: LoadedSpec) -> None:
    spec = loaded.spec
    _write(f"{spec.name}: {spec.title}")
    _write_facts(_about(loaded))
    for variant in spec.variants:
        default = " (default)" if spec.default_variant(variant.framework) is variant else ""
        output.write("\n")
        _write(f"{variant.framework} · {variant.name}{default}: {variant.title}")
        _write_facts(_settings(variant))
        for source in dict.fromkeys(figure.source for figure in variant.published):
            _write_figures(spec, source, [f for f in variant.published if f.source == source])
        if not variant.published:
            _write_facts([("Published", "no figures")])
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
    for image in catalog.images(spec):
        gpus = _gpus(image)
        yield f"Image of {image.framework}", f"{image.image}{f', for {gpus}' if gpus else ''}"
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


def _write_figures(spec: BenchmarkSpec, source: str, figures: Sequence[Published]) -> None:
    models = {figure.gpu_model for figure in figures}
    one_model = len(models) == 1
    where = f"on {models.pop()}" if one_model else "by GPU model"
    _write(f"  Published: {source}, {where}")
    notes = list(dict.fromkeys(figure.note for figure in figures if figure.note is not None))

    def marks(figure: Published) -> str | None:
        number = [] if figure.note is None else [f"[{notes.index(figure.note) + 1}]"]
        return " ".join([*(["anomalous"] if figure.anomalous else []), *number]) or None

    amount = functools.partial(Column, right=True, whole=True)
    columns = (
        Column("CASE", lambda figure: figure.case, whole=True),
        Column("PRECISION", lambda figure: figure.precision, whole=True),
        amount("BATCH", lambda figure: str(figure.batch_size)),
        amount(f"{spec.unit}/s".upper(), lambda figure: _number(figure.throughput)),
        Column("ESTIMATOR", lambda figure: figure.estimator if figure.throughput else None),
        amount("SPEEDUP", lambda figure: _number(figure.speedup)),
        Column("RUNS", lambda figure: ", ".join(f"{run:.15g}" for run in figure.runs) or None),
        Column("TIME TO TRAIN", lambda one: _number(one.time_to_train_s, " s"), right=True),
        Column("ACCURACY", _accuracy, right=True),
        # One GPU model for all is in the line above.
        Column("GPU", lambda figure: None if one_model else figure.gpu_model),
        Column("NOTE", marks),
    )
    # A column without a value is left out.
    kept = [column for column in columns if column.cell and any(map(column.cell, figures))]
    output.write_table(kept, figures)
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
