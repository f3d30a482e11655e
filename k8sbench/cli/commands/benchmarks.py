"""``k8sbench benchmarks`` and ``data``: the catalog with images, figures and data sets."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from k8sbench.app import data_sets
from k8sbench.catalog import spec_files
from k8sbench.catalog.published import Published
from k8sbench.catalog.spec import BenchmarkSpec, Variant
from k8sbench.catalog.training import DATA_SETS, find_data_set
from k8sbench.cli.options import format_option
from k8sbench.cli.running import SignalStop
from k8sbench.cli.terminal import output
from k8sbench.model.errors import UsageError
from k8sbench.model.measurement import SCHEMA
from k8sbench.model.plain_text import clean
from k8sbench.model.spec_values import Framework
from k8sbench.results.report.tables import Column, wrapped

if TYPE_CHECKING:
    from k8sbench.catalog.image import ListedImage
    from k8sbench.catalog.planning import LoadedSpec


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
    """List the catalog with images and GPUs, or one benchmark.

    IMAGE is what k8sbench's own trainers run in. GPUS are the data centre GPUs for which the
    framework in it has kernels; on others a run fails at its first step. A path instead of a name
    shows a file of your own; docs/catalog.md says how to write one.
    """
    if benchmark is None:
        every = spec_files.load_all()
        documents = map(_document, every)
        names = [loaded.spec.name for loaded in every]
        rows = [row for loaded in every for row in _rows(loaded)]
        output.write_items(output_format, COLUMNS, rows, [*documents], names)
        return
    loaded = spec_files.load_spec(benchmark)
    if output_format == "table":
        _one(loaded)
    else:
        output.write_items(output_format, (), (), _document(loaded), [loaded.spec.name])


def _document(loaded: LoadedSpec) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "source": loaded.source,
        "digest": loaded.digest,
        "images": _images(loaded),
        "benchmark": loaded.spec,
    }


def _images(loaded: LoadedSpec) -> tuple[ListedImage, ...]:
    from k8sbench.catalog import packaged  # it imports YAML

    return packaged.benchmark_images(loaded.spec)


def _rows(loaded: LoadedSpec) -> Iterator[Row]:
    images = _images(loaded)
    for framework in loaded.spec.frameworks:
        own = [image for image in images if image.framework == framework]
        yield from ((loaded, framework, image) for image in own or (None,))


def _size(case: str) -> tuple[int, int]:
    replicas, gpus = case.split("x")
    return int(replicas) * int(gpus), int(replicas)


def _one(loaded: LoadedSpec) -> None:
    """Print a benchmark: how to run it, variants, published figures."""
    spec, target = loaded.spec, loaded.spec.target_accuracy
    _write(f"{spec.name}: {spec.title}. {spec.task}.")
    _write(f"Unit: {spec.unit}/s, of the whole job")
    name = spec.name if loaded.source == "built-in" else loaded.source
    variant = spec.default_variant(spec.default_framework) or spec.variants[0]
    replicas, gpus = max(variant.cases, key=_size).split("x")
    amp = " --amp" if "amp" in variant.batch_size else ""
    _write(f"Run it: k8sbench submit {name} --replicas {replicas} --gpus {gpus}{amp}")
    if target is not None:
        _write(f"Target: {target.value:.15g} {target.unit} {target.metric}")
    programs = [one.upstream for one in spec.variants if one.upstream is not None]
    if named := dict.fromkeys(f"{one.repository} {one.commit[:8]}" for one in programs):
        _write(f"Published program: {', '.join(named)}; --impl upstream runs it")
    output.write("\n")
    output.write_table(VARIANTS, spec.variants)
    figures = [(one, figure) for one in spec.variants for figure in one.published]
    published = dict.fromkeys(figure.source for _, figure in figures)
    keys = published | dict.fromkeys(one.source for one in spec.references)
    cited = {key: f"[{number}]" for number, key in enumerate(keys, 1)}
    if speeds := [(one, figure) for one, figure in figures if figure.throughput is not None]:
        output.write("\n")
        _write_figures(spec.unit, speeds, cited)
    for one, figure in figures:
        if (reached := figure.accuracy) is not None:
            time = f"{_number(figure.time_to_train_s)} s to " if figure.time_to_train_s else ""
            of = f"{figure.case} {figure.precision} {one.framework} {one.name}"
            text = f"{time}{reached.value:.15g} {reached.unit} {reached.metric}"
            _write(f"{of}: {text} {cited[figure.source]}")
    for key in published:
        _write(f"  {cited[key]} {spec.sources[key].title}")
    output.write("\n")
    _write(f"Rules, notes and what an image must hold: k8sbench benchmarks {name} -o yaml")
    if spec.references:
        output.write("\n")
        _write_references(spec, cited)


def _batches(variant: Variant) -> str:
    return ", ".join(f"{size or 'any'} ({name})" for name, size in variant.batch_size.items())


def _default(variant: Variant) -> str:
    return f"{variant.name} (default)" if variant.default else variant.name


VARIANTS = (
    Column("FRAMEWORK", lambda variant: variant.framework, whole=True),
    Column("VARIANT", _default, whole=True),
    Column("TITLE", lambda variant: variant.title, optional=1),
    Column("BATCH PER GPU", _batches),
    Column("CASES", lambda variant: ", ".join(variant.cases)),
    Column("RUNS", lambda variant: str(variant.repeats), right=True),
)
"""RUNS: of each case with ``--all-cases``."""


def _write_figures(
    unit: str, figures: Sequence[tuple[Variant, Published]], cited: Mapping[str, str]
) -> None:
    """Print published figures: rows of cases, columns of variants."""
    by_row: dict[tuple[str, str], dict[str, str]] = {}
    for variant, figure in figures:
        mark = "*" if figure.anomalous else ""
        of = f"{variant.framework} {variant.name} {cited[figure.source]}".upper()
        row = by_row.setdefault((figure.case, figure.precision), {})
        row[of] = f"{_number(figure.throughput)}{mark}"
    odd = any(figure.anomalous for _, figure in figures)
    _write(f"Published {unit}/s{' (* odd or wrong by its own report)' if odd else ''}")

    def column(title: str) -> Column:
        return Column(title, lambda row: by_row[row].get(title), right=True)

    output.write_table(
        [
            Column("CASE", lambda row: row[0], whole=True),
            Column("PRECISION", lambda row: row[1], whole=True),
            *map(column, dict.fromkeys(of for row in by_row.values() for of in row)),
        ],
        sorted(by_row, key=lambda row: (row[1] != "fp32", _size(row[0]))),
    )


def _write_references(spec: BenchmarkSpec, cited: Mapping[str, str]) -> None:
    """Print the table of references; below it what differs, and the sources."""
    _write("References: other programs, settings or GPUs; no ratio to them is computed")
    texts = dict.fromkeys(one.differs for one in spec.references)
    letters = dict(zip(texts, string.ascii_lowercase, strict=False))
    rate = Column(f"{spec.unit}/s", lambda one: _number(one.throughput), right=True)
    by = Column("SOURCE", lambda one: cited[one.source], whole=True)
    what = Column("DIFFERS", lambda one: letters[one.differs], whole=True)
    output.write_table([*REFERENCES, rate, by, what], spec.references)
    for text, letter in letters.items():
        _write(f"  {letter}: {text}")
    for key in dict.fromkeys(one.source for one in spec.references):
        _write(f"  {cited[key]} {spec.sources[key].title}")


REFERENCES = (
    Column("CASE", lambda one: one.case, whole=True),
    Column("GPU", lambda one: one.gpu_model),
    Column("PRECISION", lambda one: one.precision),
    Column("BATCH", lambda one: one.batch_size and str(one.batch_size), right=True),
    Column("LAYOUT", lambda one: one.layout, optional=2),
    Column("DATA", lambda one: one.data, optional=1),
)


def _number(value: float | None) -> str:
    """Write a number with every digit that it was given."""
    return f"{value:.15g}"


def _write(line: str) -> None:
    """Write a paragraph; folded on a terminal, one line in a pipe."""
    start = line[: len(line) - len(line.lstrip())]
    text = wrapped(start + clean(line.strip()), output.terminal_width(), indent=f"{start}  ")
    output.write(f"{text}\n")


DATA_COLUMNS = (
    Column("NAME", lambda data_set: data_set.name, whole=True),
    Column("TITLE", lambda data_set: data_set.title),
    Column("BENCHMARKS", lambda data_set: ", ".join(data_set.benchmarks)),
    Column("TRAINING", lambda data_set: f"{data_set.training:,}", right=True),
    Column("VALIDATION", lambda data_set: f"{data_set.validation:,}", right=True),
    Column("SOURCE", lambda data_set: data_set.source),
)
MISSING = "missing: "
"""First word of the program's lines about missing files."""
_place = click.option(
    "--data", "place", required=True, metavar="DIR", help="Where the data set is."
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def data_command() -> None:
    """List, check and draw data sets."""


@data_command.command("list")
@format_option("table", "json", "name")
def list_(output_format: str) -> None:
    """List the data sets: what they hold, and where to get them."""
    document = data_sets.DataSetList(data_sets=DATA_SETS)
    names = [data_set.name for data_set in DATA_SETS]
    output.write_items(output_format, DATA_COLUMNS, DATA_SETS, document, names)


@data_command.command("make-sample")
@click.argument("name", metavar="NAME")
@click.argument("place", metavar="DIR")
@click.option(
    "--pictures", type=click.IntRange(2, 10_000), metavar="N", help="Number of training pictures."
)
@click.option("--size", metavar="HxW", help="Size of a picture, as 64x128.")
@click.option("--seed", type=click.IntRange(0), metavar="N", help="Default 0.")
def make_sample(**given: Any) -> int:
    """Draw a small data set of the same form, for tests."""
    if given["size"] and not re.fullmatch("[1-9][0-9]*x[1-9][0-9]*", given["size"]):
        raise UsageError(
            f"--size {given['size']!r} is not a size.", "Write HEIGHTxWIDTH, as 64x128."
        )
    words = [f"--{key}={given[key]}" for key in ("pictures", "size", "seed") if given[key]]
    return _run("make-sample", words, **given)


@data_command.command()
@click.argument("name", metavar="NAME")
@_place
@click.option("--deep", is_flag=True, help="Decode every sample.")
def check(**given: Any) -> int:
    """List the files that are missing in a folder.

    Exit code 0 if the set is complete, 2 if something is missing.
    """
    return _run("check", ["--deep"] if given["deep"] else [], **given)


def _run(action: Any, words: list[str], **given: Any) -> int:
    name, place = given["name"], given["place"]
    missing: list[str] = []

    def tell(line: str) -> None:
        """Print a line of the program; missing files go to stdout."""
        if line.startswith(MISSING):
            missing.append(clean(line.removeprefix(MISSING)))
            output.write(f"{missing[-1]}\n")
        else:
            output.note(clean(line))

    code = data_sets.work_on_data(action, name, place, words, SignalStop(), tell)
    if code == 0:
        output.note(f"{name}: all is there, in {place}.")
    elif missing:
        source = find_data_set(name).source
        output.note(f"{name}: something is missing or broken in {place}. {source}")
    return code
