"""``k8sbench doctor`` and ``pools``: whether a cluster is ready, and its node pools."""

from __future__ import annotations

from collections import Counter

import click
import msgspec

from k8sbench.app import cases
from k8sbench.app.cases import Preflight
from k8sbench.cli.options import access_options, format_option, request_options
from k8sbench.cli.terminal import output
from k8sbench.model.errors import Severity, Unreachable, UsageError
from k8sbench.model.measurement import SCHEMA
from k8sbench.model.pool import NodePool
from k8sbench.model.request import FLAGS as ALL_FLAGS
from k8sbench.model.request import ClusterAccess, SubmitRequest
from k8sbench.report.tables import Column

LEVELS: dict[Severity, str] = {"ok": "ok", "warn": "warning", "fail": "failure"}
"""Severity of a finding → its level in documents of schema 2."""
COLUMNS = (
    Column("LEVEL", lambda finding: finding.severity, whole=True),
    Column("CHECK", lambda finding: finding.id, whole=True),
    Column("FINDING", lambda one: " ".join(filter(None, (one.sentence, one.action)))),
)
FLAGS = {
    name: ALL_FLAGS[name]
    for name in (
        *("framework", "replicas", "gpus", "image", "node_pool", "pools_file", "queue"),
        *("data", "prometheus", "job_kind"),
    )
}
"""Options of the planned run."""


@click.command()
@request_options(FLAGS, benchmark=cases.BENCHMARK)
@click.option(
    "--init-template",
    is_flag=True,
    help="Print an init container template for the operator that the restricted profile "
    "allows, and exit.",
)
@format_option("table", "json")
def command(request: SubmitRequest, init_template: bool, output_format: str) -> int:
    """Check whether a cluster is ready; name a fix for each failure.

    The options are those of the submit that you plan. It only reads from the cluster. Exit code:
    0 ready, perhaps with warnings; 6 for any failure.
    """
    if init_template:
        output.write(cases.init_template())
        return 0
    done = cases.examine(request, output.note)
    if output_format == "table":
        _write_findings(done)
    else:
        _write_document(done)
    return 0 if done.is_ready else Unreachable.exit_code


def _write_findings(done: Preflight) -> None:
    output.write_table(COLUMNS, done.findings)
    count = Counter(finding.severity for finding in done.findings)
    counts = ", ".join(f"{count[severity]} {severity}" for severity in LEVELS)
    output.note(f"{'ready' if done.is_ready else 'not ready'}: {counts}")


def _write_document(done: Preflight) -> None:
    checks = [
        {
            "id": finding.id,
            "level": LEVELS[finding.severity],
            "message": finding.sentence,
            "action": finding.action,
            "manifest": None,  # no release prints one any more; readers of schema 2 expect it
        }
        for finding in done.findings
    ]
    output.write_json(
        {
            "schema": SCHEMA,
            "server": done.location.server if done.location else None,
            "namespace": done.location.namespace if done.location else None,
            "ready": done.is_ready,
            "checks": checks,
        }
    )


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


POOLS = (
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
def pools_command(
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
        output.write(cases.proposed_pools(access))
        return
    known, unread = cases.known_pools(pools_file, access)
    if unread is not None:
        output.error(f"warning: the pools of the cluster are not read: {unread}")
    pools = tuple(known.pools.values())
    if output_format == "yaml":
        output.write(known.text)
        return
    document = PoolList(source=known.source, default=known.default, pools=pools)
    output.write_items(output_format, POOLS, pools, document, known.pools)
    if output_format == "table":
        chosen = known.default or "none: --node-pool is required"
        output.note(f"pools from {known.source}; default: {chosen}")
