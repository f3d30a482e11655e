"""``k8sbench benchmarks``: the catalog; one benchmark with its cases and published figures.

A published figure is shown whole: with its estimator, also where that is unknown, and with its
notes below the table.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from k8sbench.app import catalog
from k8sbench.cli.output_format import format_option
from k8sbench.cli.terminal import output
from k8sbench.model.counts import counted
from k8sbench.model.measurement import SCHEMA
from k8sbench.model.plain_text import clean
from k8sbench.model.spec import BenchmarkSpec, Citation, Published, Variant
from k8sbench.report.text_table import LONGEST_WORD, Column, folded

if TYPE_CHECKING:
    from k8sbench.app.catalog import LoadedSpec

LIST = (
    Column("NAME", whole=True),
    Column("TITLE"),
    Column("FRAMEWORKS"),
    Column("VARIANTS"),
    Column("CASES"),
)
ENTRY = ("name", "title", "task", "unit", "frameworks", "default_framework")
ENTRY_OF_VARIANT = ("name", "framework", "title", "impl", "batch_size", "cases", "repeats")
"""Fields of a benchmark and of its variants that the list for programs holds."""
DOCUMENTS: dict[str, Callable[[Any], None]] = {
    "json": output.write_json,
    "yaml": output.write_yaml,
}
FIELD = 12
"""Width of the labels."""


FIGURES = (
    Column("CASE", whole=True),
    Column("PRECISION", whole=True),
    Column("BATCH", right=True, whole=True),
    Column("RATE", right=True, whole=True),
    Column("ESTIMATOR"),
    Column("SPEEDUP", right=True, whole=True),
    Column("RUNS"),
    Column("TIME TO TRAIN", right=True),
    Column("ACCURACY", right=True),
    Column("GPU"),
    Column("SOURCE", whole=True),
    Column("NOTE"),
)


@click.command()
@click.argument("name", metavar="[NAME|FILE]", required=False)
@format_option("table", "json", "yaml", "name", about="Format; yaml has all that the file has.")
def command(name: str | None, output_format: str) -> None:
    """List the catalog, or one benchmark with figures.

    A path instead of a name shows a file of your own; docs/catalog.md says how to write one.
    """
    if name is None:
        _list(catalog.benchmarks(), output_format)
        return
    loaded = catalog.benchmark(name)
    if loaded.shadows:
        output.note(
            f"{loaded.source} defines {loaded.spec.name}, which is also a built-in benchmark:"
            " this is the file's."
        )
    _one(loaded, output_format)


def _list(every: Sequence[LoadedSpec], output_format: str) -> None:
    if output_format in DOCUMENTS:
        entries = [_entry(loaded) for loaded in every]
        DOCUMENTS[output_format]({"schema": SCHEMA, "benchmarks": entries})
    elif output_format == "name":
        output.write_names(loaded.spec.name for loaded in every)
    else:
        output.write_table(LIST, [_row(loaded.spec) for loaded in every])


def _entry(loaded: LoadedSpec) -> dict[str, Any]:
    spec = loaded.spec
    variants = [
        {
            **{key: getattr(variant, key) for key in ENTRY_OF_VARIANT},
            "default": spec.default_variant(variant.framework) is variant,
            "published": len(variant.published),
        }
        for variant in spec.variants
    ]
    own = {key: getattr(spec, key) for key in ENTRY}
    return {**own, "variants": variants, "source": loaded.source, "digest": loaded.digest}


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
        document = {
            "schema": SCHEMA,
            "source": loaded.source,
            "digest": loaded.digest,
            "shadows_built_in": loaded.shadows,
            "benchmark": spec,
        }
        DOCUMENTS[output_format](document)
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
    spec = loaded.spec
    yield "Task", spec.task
    yield "Throughput", f"{spec.unit} per second of the whole job"
    if spec.target_accuracy is not None:
        target = spec.target_accuracy
        note = f". {target.note}" if target.note else ""
        yield "Target", f"{target.value:.15g} {target.unit} {target.metric}{note}"
    yield "Read from", loaded.source
    for note in spec.notes:
        yield "Note", note


def _settings(variant: Variant) -> Iterator[tuple[str, str]]:
    if variant.fingerprint is not None:
        model = variant.fingerprint
        size = f"{model.parameters / 1e6:.3f} M parameters, {model.gmac:.15g} GMAC at {model.input}"
        yield "Model", f"{model.model}; {size}"
    batches = ", ".join(f"{size} at {name}" for name, size in variant.batch_size.items())
    amp = f"; AMP is {variant.amp_dtype}" if "amp" in variant.batch_size else ""
    yield "Batch", f"per GPU {batches}{amp}"
    window = variant.window
    yield (
        "Window",
        f"{window.warmup} iterations of warm-up, {window.iterations} measured ({window.rule})",
    )
    if (train := variant.train) is not None:
        length = f"{counted(train.length, train.unit[:-1])} from {train.start or 'scratch'}"
        yield "Training", f"{length}, evaluated by {train.metric} ({train.rule})"
    log = variant.log if isinstance(variant.log, str) else f"{variant.log.name} (this file's own)"
    yield "Log", log
    times = "once each" if variant.repeats == 1 else f"{variant.repeats} times each"
    yield "Cases", f"{', '.join(variant.cases)}; {times} with --all-cases"
    yield from variant.case_notes.items()
    if variant.data_set is not None:
        yield "Data set", variant.data_set.name
    if variant.trainer is not None:
        yield "Program", f"k8sbench's trainer {variant.trainer}"
    if variant.command:
        yield "Program", " ".join(variant.command)
    if variant.upstream is not None:
        program = f"{variant.upstream.repository} at {variant.upstream.commit}"
        yield "Upstream", f"{program}; --impl upstream --image NAME:TAG runs it"
        known = (f"{key} {value}" for key, value in variant.upstream.environment.items())
        yield "Ran on", ", ".join(known)
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
    rows = [_figure(figure, notes) for figure in figures]
    # A column without a value is left out; one GPU model for all is in the heading.
    kept = [
        column
        for column in FIGURES
        if any(row[column.title] is not None for row in rows)
        and not (one_model and column.title == "GPU")
    ]
    titled = {"RATE": f"{spec.unit}/s".upper()}
    output.write_table(
        [replace(column, title=titled.get(column.title, column.title)) for column in kept],
        [[row[column.title] for column in kept] for row in rows],
    )
    for number, note in enumerate(notes, start=1):
        _write(f"[{number}] {note}", indent=2, hang=4)


def _figure(figure: Published, notes: Sequence[str]) -> dict[str, str | None]:
    marks = ["anomalous"] if figure.anomalous else []
    if figure.note is not None:
        marks.append(f"[{notes.index(figure.note) + 1}]")
    train_s = figure.time_to_train_s
    accuracy = None
    if figure.accuracy is not None:
        reached = figure.accuracy
        accuracy = f"{reached.value:.15g} {reached.unit} {reached.metric}"
    known = figure.throughput is not None
    return {
        "CASE": figure.case,
        "PRECISION": figure.precision,
        "BATCH": str(figure.batch_size),
        "RATE": _number(figure.throughput),
        "ESTIMATOR": figure.estimator if known else None,
        "SPEEDUP": _number(figure.speedup),
        "RUNS": " ".join(f"{run:.15g}" for run in figure.runs) or None,
        "TIME TO TRAIN": f"{train_s:.15g} s" if train_s is not None else None,
        "ACCURACY": accuracy,
        "GPU": figure.gpu_model,
        "SOURCE": figure.source,
        "NOTE": " ".join(marks) or None,
    }


def _source(source: Citation) -> str:
    place = [source.repository, source.path, f"at {source.commit}" if source.commit else None]
    text = ", ".join([source.title, " ".join(part for part in place if part)]).removesuffix(", ")
    return f"{text}. {source.note}" if source.note else text


def _number(value: float | None) -> str | None:
    """Write a number with every digit that it was given."""
    return None if value is None else f"{value:.15g}"


def _write_facts(facts: Iterable[tuple[str, str]]) -> None:
    """Write labels and their texts; a long label has a line of its own."""
    for label, text in facts:
        if len(label) >= FIELD:
            _write(label, indent=2)
        start = "" if len(label) >= FIELD else label
        _write(f"{start:<{FIELD}}{text}", indent=2, hang=FIELD)


def _write(text: str, indent: int = 0, hang: int = 0) -> None:
    """Write a paragraph: folded on a terminal, one line in a pipe, where grep finds all of it."""
    start, blanks = text[:hang], " " * indent
    width = shutil.get_terminal_size().columns - indent - hang
    lines = [clean(text[hang:])]
    if sys.stdout.isatty():
        lines = folded(lines[0], max(width, LONGEST_WORD))
    output.write(f"{blanks}{start}{lines[0]}".rstrip() + "\n")
    for line in lines[1:]:
        output.write(f"{blanks}{' ' * hang}{line}\n")
