"""``k8sbench images``: the image of each benchmark, and which GPUs it can run on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import click

from k8sbench import __version__
from k8sbench.adapters import catalog, image_table
from k8sbench.cli import output
from k8sbench.cli.output import Column
from k8sbench.model.image import Gpus, Image, ImageTable, built_image
from k8sbench.model.measurement import SCHEMA
from k8sbench.model.spec import BenchmarkSpec

COLUMNS = (
    Column("BENCHMARK", whole=True),
    Column("FRAMEWORK", whole=True),
    Column("IMAGE", whole=True),
    Column("VERSIONS"),
    Column("DRIVER", whole=True),
    Column("GPUS"),
)


@click.command()
@click.argument("benchmark", metavar="[BENCHMARK|FILE]", required=False)
@click.option(
    "--image-registry", metavar="HOST/PATH", help="List the images of images/, pushed to there."
)
@click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(["table", "json", "name"]),
    default="table",
    help="Format.",
)
def command(benchmark: str | None, image_registry: str | None, form: str) -> None:
    """List the image of each benchmark, and its GPUs.

    These are the images that k8sbench's own trainers run in. GPUS names those of data centres that
    the framework in the image has kernels for; on others it fails at its first step.
    """
    table = image_table.load()
    found = [catalog.find(benchmark)] if benchmark else catalog.load_all()
    rows = list(_rows(table, [each.spec for each in found], image_registry))
    if form == "json":
        output.write_json({"schema": SCHEMA, "images": rows})
    elif form == "name":
        output.write_names(dict.fromkeys(row["image"] for row in rows))
    else:
        output.write_table(COLUMNS, [_cells(row) for row in rows])


def _rows(
    table: ImageTable, specs: Iterable[BenchmarkSpec], registry: str | None
) -> Iterator[dict[str, Any]]:
    for spec in specs:
        for framework in spec.frameworks:
            variants = spec.variants_of(framework)
            if any(variant.trainer for variant in variants):
                image = table.image(framework, "built" if registry else "public")
                name = _pushed(registry, image) if registry else image.name
                yield {"benchmark": spec.name, "framework": framework, **_known(table, image, name)}
            for own in dict.fromkeys(v.image for v in variants if v.command and v.image):
                yield {"benchmark": spec.name, "framework": framework, **_unknown(own)}


def _pushed(registry: str, image: Image) -> str:
    from k8sbench.adapters import trainer_sources

    digest = trainer_sources.read().digest
    return built_image(registry, image.framework, version=__version__, trainers_digest=digest)


def _known(table: ImageTable, image: Image, name: str) -> dict[str, Any]:
    build = table.build_in(image)
    assert build is not None, "the table's rules demand a build for each image"
    return {
        "image": name,
        "origin": image.origin,
        "versions": {
            "framework": image.version,
            "cuda": image.cuda,
            "cudnn": image.cudnn,
            "nccl": image.nccl,
            "python": image.python,
        },
        "minimum_driver": image.minimum_driver,
        "compute_capabilities": build.capabilities,
        "gpus": [_gpus(row) for row in table.running_on(build)],
        "sources": [image.source, build.source],
        "note": image.note,
    }


def _gpus(row: Gpus) -> dict[str, Any]:
    return {
        "compute_capability": row.capability,
        "architecture": row.architecture,
        "data_center": row.data_center,
        "other": row.other,
    }


def _unknown(name: str) -> dict[str, Any]:
    """What is known of an image that a benchmark's own file names: nothing but that."""
    return {
        "image": name,
        "origin": "user",
        "versions": None,
        "minimum_driver": None,
        "compute_capabilities": None,
        "gpus": None,
        "sources": [],
        "note": "An image of the benchmark's own: k8sbench does not know what is in it.",
    }


def _cells(row: dict[str, Any]) -> list[str | None]:
    versions, gpus, driver = row["versions"], row["gpus"], row["minimum_driver"]
    return [
        row["benchmark"],
        row["framework"],
        row["image"],
        versions and f"{versions['framework']}, CUDA {versions['cuda']}, cuDNN {versions['cudnn']}",
        driver and f"≥ {driver}",
        gpus and ", ".join(name for row in gpus for name in row["data_center"]),
    ]
