"""``k8sbench doctor``, ``pools`` and ``operator``: a cluster's readiness, pools and service."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import click
import msgspec

from k8sbench.app import doctor, packaged_texts, pools, serve
from k8sbench.app.doctor import Preflight
from k8sbench.cli.options import F, access_options, format_option, request_options
from k8sbench.cli.running import SignalStop
from k8sbench.cli.terminal import output, progress
from k8sbench.model import errors
from k8sbench.model.errors import Severity, Unreachable, UsageError
from k8sbench.model.measurement import SCHEMA
from k8sbench.model.pool import NodePool
from k8sbench.model.request import FLAGS as ALL_FLAGS
from k8sbench.model.request import ClusterAccess, Flag, SubmitRequest
from k8sbench.results.report.tables import Column

LEVELS: dict[Severity, str] = {"ok": "ok", "warn": "warning", "fail": "failure"}
"""Severity of a finding → its level in documents of schema 2."""
FINDINGS = (
    Column("LEVEL", lambda finding: finding.severity, whole=True),
    Column("CHECK", lambda finding: finding.id, whole=True),
    Column("FINDING", lambda one: " ".join(filter(None, (one.sentence, one.action)))),
)
FLAGS = {
    "framework": Flag("Framework; default: each."),
    **{
        name: ALL_FLAGS[name]
        for name in (
            *("replicas", "gpus", "image", "node_pool", "pools_file", "queue"),
            *("data", "prometheus", "job_kind"),
        )
    },
}
"""Options of the planned run."""


@click.command()
@request_options(FLAGS, benchmark=doctor.DOCTORS_BENCHMARK)
@click.option(
    "--init-template",
    is_flag=True,
    help="Print an init container template for the operator that the restricted profile "
    "allows, and exit.",
)
@click.option(
    "--observe",
    "is_observer",
    is_flag=True,
    help="Check the rights that 'k8sbench observe' needs instead.",
)
@format_option("table", "json")
def doctor_command(
    request: SubmitRequest, init_template: bool, is_observer: bool, output_format: str
) -> int:
    """Check whether a cluster is ready; name a fix for each failure.

    Give it the options of the submit that you plan, as far as it has them. It only reads from the
    cluster. Exit code: 0 ready, perhaps with warnings; 6 for any failure.
    """
    if init_template:
        output.write(packaged_texts.init_template())
        return 0
    if is_observer:
        done = doctor.examine_rights_to_observe(request.access)
    else:
        done = doctor.examine(request, output.note)
    if output_format == "table":
        _write_findings(done)
    else:
        _write_document(done)
    return 0 if done.is_ready else Unreachable.exit_code


def _write_findings(done: Preflight) -> None:
    output.write_table(FINDINGS, done.findings)
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
        output.write(pools.proposed_pools(access))
        return
    known, unread = pools.known_pools(pools_file, access)
    if unread is not None:
        output.error(f"warning: the pools of the cluster are not read: {unread}")
    listed = tuple(known.pools.values())
    if output_format == "yaml":
        output.write(known.text)
        return
    document = PoolList(source=known.source, default=known.default, pools=listed)
    output.write_items(output_format, POOLS, listed, document, known.pools)
    if output_format == "table":
        chosen = known.default or "none: --node-pool is required"
        output.note(f"pools from {known.source}; default: {chosen}")


# -- the long-running process that the chart installs ----------------------------------------------


def _setting(name: str, metavar: str | None, about: str, **more: Any) -> Callable[[F], F]:
    """Make an option that a variable of the environment may give, too."""
    envvar = f"K8SBENCH_{name.upper().replace('-', '_')}"
    return click.option(f"--{name}", envvar=envvar, metavar=metavar, help=about, **more)


def _names(_: click.Context, __: click.Parameter, given: Sequence[str]) -> list[str]:
    """Split the names that a variable of the environment joins by commas."""
    return [name for text in given for name in text.split(",") if name]


@click.group(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.pass_context
@click.option(
    "-n",
    "--namespace",
    "namespaces",
    envvar="K8SBENCH_NAMESPACES",
    multiple=True,
    metavar="NAME",
    callback=_names,
    help="Namespace to collect from; may be repeated. Default: its own.",
)
@_setting("store", "FOLDER", "Store; default: the user's data folder.")
@_setting(
    "prometheus", "URL|auto|none", "Where GPU metrics are; default auto: found in the cluster."
)
@_setting(
    "baseline",
    "NAME",
    "Baseline of the store with which /metrics compares the newest sets; default: none.",
)
@_setting(
    "keep-logs-for", "TIME", "Delete the logs of runs that ended longer ago (90d); default: never."
)
@_setting(
    "name",
    "NAME",
    "Name of its Service; default dlperf-operator. Its Secret is NAME-token.",
    default="dlperf-operator",
)
@_setting(
    "reserved",
    "NAMESPACE/NAME",
    "Claim or Secret that no Benchmark may name, such as its own; may be repeated.",
    multiple=True,
    callback=_names,
)
@_setting(
    "allow-own-pools",
    None,
    "Let Benchmarks bring any node pool (host network, capabilities, priority, tolerations), and"
    " not only narrow the operator's.",
    is_flag=True,
)
@_setting(
    "observe",
    None,
    "Observe the jobs of others that have the label k8sbench.io/observe: 'true'.",
    is_flag=True,
)
@_setting(
    "observe-keep-logs-for",
    "TIME",
    "Delete the logs of observed jobs that ended longer ago (30d); default: as the other logs.",
)
@_setting(
    "observe-serve-logs", None, "Serve the logs of observed jobs to its readers.", is_flag=True
)
@_setting("listen", "[ADDRESS]:PORT", "Address of its HTTP server; default :8080.", default=":8080")
@_setting(
    "probe-listen",
    "[ADDRESS]:PORT",
    "Another address for the probes alone (/startupz, /healthz, /readyz), in a thread of its own;"
    " default: none.",
)
@_setting(
    "log-format",
    "text|json",
    "Format of its log; default text.",
    type=click.Choice(progress.LOG_FORMATS),
    default="text",
)
def operator_command(
    context: click.Context,
    /,
    name: str,
    listen: str,
    probe_listen: str | None,
    log_format: str,
    **given: Any,
) -> None:
    """Collect every run of some namespaces, until SIGTERM.

    Follows each k8sbench job as it appears, archives its logs and GPU metrics, measures and records
    it, and then deletes the job, unless it is to be kept or another process still follows it. It
    holds the Lease k8sbench-operator of each namespace: another replica with its name waits, and
    another operator is refused. A flag overrides the environment.
    """
    if context.invoked_subcommand is not None:
        return
    try:
        from k8sbench.operator import http, metrics
    except ImportError as error:
        raise UsageError(
            f"The operator needs a package that is not installed: {error.name}.",
            errors.how_to_install("operator"),
        ) from error
    from k8sbench.operator.controller import Controller, settings

    asked = settings(given)
    stop = SignalStop()
    figures = metrics.Metrics()
    reporter = progress.LogLines(time.time, log_format)
    leading = serve.leadership(name, asked.namespaces, reporter.note)
    controller = Controller(asked, leading, reporter, figures.closed)
    figures.state = controller.state
    app = http.application(controller.state, figures.registry, lambda: leading.token)
    probes: AbstractContextManager[Any] = nullcontext()
    if probe_listen:
        probes = http.Server(probe_listen, http.probes(controller.state))
    with stop, probes, http.Server(listen, app) as server:
        reporter.note(f"Others read it at port {server.port}.")
        with leading:
            controller.run(stop)
    reporter.note(
        f"{stop.cause}: the operator ends; the next one continues with the unfinished runs."
    )


@operator_command.command()
def crd() -> None:
    """Print the CRD of Benchmark objects.

    Give it to ``kubectl apply --server-side -f -``.
    """
    click.echo(packaged_texts.crd(), nl=False)
