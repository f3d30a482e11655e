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


COLUMNS = (
    Column("BENCHMARK", whole=True),
    Column("FRAMEWORK", whole=True, optional=1),
    Column("IMAGE", whole=True),
    Column("VERSIONS", optional=3),
    Column("DRIVER", whole=True, optional=2),
    Column("GPUS", cut=True),
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
    if output_format == "json":
        output.write_json(ImageList(images=tuple(rows)))
    elif output_format == "name":
        output.write_names(dict.fromkeys(row.image for row in rows))
    else:
        output.write_table(COLUMNS, [_cells(row) for row in rows])


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


def _cells(row: ListedImage) -> list[str | None]:
    there, gpus = row.content, row.gpus
    return [
        row.benchmark,
        row.framework,
        row.image,
        f"{there.version}, CUDA {there.cuda}, cuDNN {there.cudnn}" if there else None,
        f"≥ {there.minimum_driver}" if there else None,
        ", ".join(name for kind in gpus for name in kind.data_center) if gpus else None,
    ]


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


POOL_COLUMNS = (
    Column("POOL", whole=True),
    Column("GPUS", right=True, whole=True),
    Column("GPU MODEL", whole=True, optional=1),  # most selectors name it
    Column("CPU", right=True, whole=True),
    Column("MEMORY", right=True, whole=True),
    Column("SELECTOR", whole=True),
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
    if output_format == "json":
        output.write_json(PoolList(source=known.source, default=known.default, pools=pools))
    elif output_format == "yaml":
        output.write(known.text)
    elif output_format == "name":
        output.write_names(known.pools)
    else:
        output.write_table(POOL_COLUMNS, [_pool_cells(pool) for pool in pools])
        chosen = known.default or "none: --node-pool is required"
        output.note(f"pools from {known.source}; default: {chosen}")


def _pool_cells(pool: NodePool) -> list[str | None]:
    labels = ", ".join(f"{key}={value}" for key, value in pool.selector.items())
    per_gpu = (pool.cpu_per_gpu, pool.memory_per_gpu)
    return [pool.name, str(pool.gpus_per_node), pool.gpu_model, *per_gpu, labels or "any node"]
