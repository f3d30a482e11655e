"""``k8sbench pools``: the node pools of a pools file."""

from __future__ import annotations

import click
import msgspec

from k8sbench.app import targets
from k8sbench.cli.options import access_options, format_option
from k8sbench.cli.terminal import output
from k8sbench.model.errors import UsageError
from k8sbench.model.measurement import SCHEMA
from k8sbench.model.pool import NodePool
from k8sbench.model.request import ClusterAccess
from k8sbench.report.tables import Column


class PoolList(msgspec.Struct, frozen=True, kw_only=True):
    """Output of ``pools -o json``."""

    schema: int = SCHEMA
    """Version of the document."""
    source: str
    """Path of the pools file, name of the cluster's ConfigMap, or ``built-in``."""
    default: str | None
    """Pool of runs without ``--node-pool``; None: the option is required."""
    pools: tuple[NodePool, ...]
    """In the order of the file."""


def _selector(pool: NodePool) -> str:
    return ", ".join(f"{key}={value}" for key, value in pool.selector.items()) or "any node"


COLUMNS = (
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
@click.option(
    "--from-cluster",
    is_flag=True,
    help="Print a pools file for the cluster's nodes, to be checked and adapted.",
)
@access_options
@format_option("table", "json", "yaml", "name", about="Format; yaml is the pools file.")
def command(
    pools_file: str | None, from_cluster: bool, access: ClusterAccess, output_format: str
) -> None:
    """List the node pools for --node-pool.

    They come from one pools file: that of --pools, of K8SBENCH_POOLS, of your configuration folder,
    of the cluster's namespace, or the built-in one. GPUS is per node; CPU and MEMORY are per GPU.

    \b
    k8sbench pools --from-cluster > pools.yaml      a file for your nodes
    """
    if from_cluster and output_format in ("json", "name"):
        raise UsageError("--from-cluster prints a pools file.", "Give -o yaml, or leave out -o.")
    if from_cluster:
        output.write(targets.proposed_pools(access))
        return
    known, unread = targets.known_pools(pools_file, access)
    if unread is not None:
        output.error(f"warning: the pools of the cluster are not read: {unread}")
    pools = tuple(known.pools.values())
    if output_format == "yaml":
        output.write(known.text)
        return
    document = PoolList(source=known.source, default=known.default, pools=pools)
    output.write_items(output_format, COLUMNS, pools, document, known.pools)
    if output_format == "table":
        chosen = known.default or "none: --node-pool is required"
        output.note(f"pools from {known.source}; default: {chosen}")
