"""``k8sbench pools``: the node pools that a run can be placed on, and where they come from."""

from __future__ import annotations

import click
import msgspec

from k8sbench.app import targets
from k8sbench.cli.options import access_options, format_option
from k8sbench.cli.terminal import output
from k8sbench.model.measurement import SCHEMA
from k8sbench.model.pool import NodePool
from k8sbench.model.request import ClusterAccess
from k8sbench.report.text_table import Column


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


COLUMNS = (
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
def command(pools_file: str | None, access: ClusterAccess, output_format: str) -> None:
    """List the node pools that --node-pool names.

    They come from one pools file: that of --pools, of K8SBENCH_POOLS, of your configuration folder,
    of the cluster's namespace, or the built-in one. GPUS is per node; CPU and MEMORY are per GPU.

    \b
    k8sbench pools -o yaml > pools.yaml      a file to adapt to your nodes
    """
    known, unread = targets.known_pools(pools_file, access)
    if unread is not None:
        output.note(f"warning: the pools of the cluster are not read: {unread}")
    pools = tuple(known.pools.values())
    if output_format == "json":
        output.write_json(PoolList(source=known.source, default=known.default, pools=pools))
    elif output_format == "yaml":
        output.write(known.text)
    elif output_format == "name":
        output.write_names(known.pools)
    else:
        output.write_table(COLUMNS, [_cells(pool) for pool in pools])
        chosen = known.default or "none: --node-pool is required"
        output.note(f"pools from {known.source}; default: {chosen}")


def _cells(pool: NodePool) -> list[str | None]:
    labels = ", ".join(f"{key}={value}" for key, value in pool.selector.items())
    per_gpu = (pool.cpu_per_gpu, pool.memory_per_gpu)
    return [pool.name, str(pool.gpus_per_node), pool.gpu_model, *per_gpu, labels or "any node"]
