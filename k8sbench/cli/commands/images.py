"""``k8sbench images``: the image of each benchmark, and which GPUs it can run on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

import click
import msgspec

from k8sbench import __version__
from k8sbench.app import catalog, targets
from k8sbench.cli.options import access_options, format_option
from k8sbench.cli.terminal import output
from k8sbench.model.image import Build, CapabilityGpus, Image, ImageTable, built_image
from k8sbench.model.measurement import SCHEMA
from k8sbench.model.pool import NodePool
from k8sbench.model.request import ClusterAccess
from k8sbench.model.spec import BenchmarkSpec, Framework
from k8sbench.report.text_table import Column


class ListedImage(msgspec.Struct, frozen=True, kw_only=True):
    """One image of one benchmark and framework."""

    benchmark: str
    """Name in the catalog, or in the user's file."""
    framework: Framework
    """The framework of the variants that run in it."""
    image: str
    """The image's name with its tag."""
    origin: Literal["public", "built", "user"]
    """From ``images/``, from the framework's authors, or named by the user's file."""
    content: Image | None = None
    """What is in it; None for a user's."""
    build: Build | None = None
    """The framework's build in it; None for a user's."""
    gpus: tuple[CapabilityGpus, ...] | None = None
    """The GPUs that the build has kernels for; None for a user's."""
    note: str | None = None
    """Remark; None for none."""


class ImageList(msgspec.Struct, frozen=True, kw_only=True):
    """What ``images -o json`` prints."""

    schema: int = SCHEMA
    """Version of the document."""
    images: tuple[ListedImage, ...]
    """One for each benchmark and framework, in the catalog's order."""


def _versions(row: ListedImage) -> str | None:
    there = row.content
    return f"{there.version}, CUDA {there.cuda}, cuDNN {there.cudnn}" if there else None


def _driver(row: ListedImage) -> str | None:
    return f"≥ {row.content.minimum_driver}" if row.content else None


def _gpus(row: ListedImage) -> str | None:
    return ", ".join(name for kind in row.gpus or () for name in kind.data_center) or None


COLUMNS = (
    Column("BENCHMARK", lambda row: row.benchmark, whole=True),
    Column("FRAMEWORK", lambda row: row.framework, whole=True, optional=1),
    Column("IMAGE", lambda row: row.image, whole=True),
    Column("VERSIONS", _versions, optional=3),
    Column("DRIVER", _driver, whole=True, optional=2),
    Column("GPUS", _gpus, cut=True),
)
UNKNOWN = "An image of the benchmark's own: k8sbench does not know what is in it."


@click.command()
@click.argument("benchmark", metavar="[BENCHMARK|FILE]", required=False)
@click.option(
    "--image-registry", metavar="HOST/PATH", help="List your own images in this registry."
)
@format_option("table", "json", "name")
def command(benchmark: str | None, image_registry: str | None, output_format: str) -> None:
    """List the image of each benchmark, and its GPUs.

    These are the images in which k8sbench's own trainers run. GPUS names the data centre GPUs for
    which the framework in the image has kernels; on other GPUs a run fails at its first step.
    """
    table = catalog.images()
    loaded = [catalog.benchmark(benchmark)] if benchmark else catalog.benchmarks()
    rows = list(_rows(table, [entry.spec for entry in loaded], image_registry))
    document, names = ImageList(images=tuple(rows)), dict.fromkeys(row.image for row in rows)
    output.write_items(output_format, COLUMNS, rows, document, names)


def _rows(
    table: ImageTable, specs: Iterable[BenchmarkSpec], registry: str | None
) -> Iterator[ListedImage]:
    for spec in specs:
        for framework in spec.frameworks:
            variants = spec.variants_of(framework)
            if any(variant.trainer for variant in variants):
                image = table.image(framework, "built" if registry else "public")
                build = table.build(image)
                assert build is not None, "the table's rules demand a build for each image"
                name = image.name
                if registry:
                    digest = catalog.trainers_digest()
                    name = built_image(
                        registry, framework, version=__version__, trainers_digest=digest
                    )
                yield ListedImage(
                    benchmark=spec.name,
                    framework=framework,
                    image=name,
                    origin=image.origin,
                    content=image,
                    build=build,
                    gpus=table.running_on(build),
                    note=image.note,
                )
            for own in dict.fromkeys(v.image for v in variants if v.command and v.image):
                yield ListedImage(
                    benchmark=spec.name, framework=framework, image=own, origin="user", note=UNKNOWN
                )


class PoolList(msgspec.Struct, frozen=True, kw_only=True):
    """What ``pools -o json`` prints."""

    schema: int = SCHEMA
    """Version of the document."""
    source: str
    """Path of the pools file, name of the cluster's ConfigMap, or ``built-in``."""
    default: str | None
    """The pool of runs without ``--node-pool``; None if there are several and none is named."""
    pools: tuple[NodePool, ...]
    """In the order of the file."""


def _selector(pool: NodePool) -> str:
    return ", ".join(f"{key}={value}" for key, value in pool.selector.items()) or "any node"


POOL_COLUMNS = (
    Column("POOL", lambda pool: pool.name, whole=True),
    Column("GPUS", lambda pool: str(pool.gpus_per_node), right=True, whole=True),
    # Most selectors name it.
    Column("GPU MODEL", lambda pool: pool.gpu_model, whole=True, optional=1),
    Column("CPU", lambda pool: pool.cpu_per_gpu, right=True, whole=True),
    Column("MEMORY", lambda pool: pool.memory_per_gpu, right=True, whole=True),
    Column("SELECTOR", _selector, whole=True),
)


@click.command()
@click.option("--pools", "pools_file", metavar="FILE", help="Pools file.")
@access_options
@format_option("table", "json", "yaml", "name", about="Format; yaml is the pools file.")
def pools_command(pools_file: str | None, access: ClusterAccess, output_format: str) -> None:
    """List the node pools that --node-pool names.

    They come from one pools file: that of --pools, of K8SBENCH_POOLS, of your configuration folder,
    of the cluster's namespace, or the built-in one. GPUS is per node; CPU and MEMORY are per GPU.

    \b
    k8sbench pools -o yaml > pools.yaml      a file to adapt to your nodes
    """
    known, unread = targets.known_pools(pools_file, access)
    if unread is not None:
        output.error(f"warning: the pools of the cluster are not read: {unread}")
    pools = tuple(known.pools.values())
    if output_format == "yaml":
        output.write(known.text)
        return
    document = PoolList(source=known.source, default=known.default, pools=pools)
    output.write_items(output_format, POOL_COLUMNS, pools, document, known.pools)
    if output_format == "table":
        chosen = known.default or "none: --node-pool is required"
        output.note(f"pools from {known.source}; default: {chosen}")
