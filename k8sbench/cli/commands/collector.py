"""``k8sbench collector``: the long-running process that the chart installs."""

from __future__ import annotations

from typing import Any

import click

from k8sbench.app import collector_settings
from k8sbench.app.leadership import Leadership
from k8sbench.cli.options import unseen_password
from k8sbench.cli.signals import SignalStop
from k8sbench.cli.terminal import reporter
from k8sbench.model import extras
from k8sbench.model.errors import UsageError


@click.command()
@click.option(
    "-n",
    "--namespace",
    "namespaces",
    envvar="K8SBENCH_NAMESPACES",
    multiple=True,
    metavar="NAME",
    callback=lambda _, __, value: [name for one in value for name in one.split(",") if name],
    help="Namespace to collect from; may be repeated. Default: its own.",
)
@click.option(
    "--store",
    envvar="K8SBENCH_STORE",
    metavar="FOLDER|URL",
    callback=unseen_password,
    help="Store; default: the user's data folder.",
)
@click.option(
    "--prometheus",
    envvar="K8SBENCH_PROMETHEUS",
    metavar="URL|auto|none",
    help="Where GPU metrics are; default auto: found in the cluster.",
)
@click.option(
    "--baseline",
    envvar="K8SBENCH_BASELINE",
    metavar="NAME",
    help="Baseline of the store with which /metrics compares the newest sets; default: none.",
)
@click.option(
    "--keep-logs-for",
    envvar="K8SBENCH_KEEP_LOGS_FOR",
    metavar="TIME",
    help="Delete the logs of runs that ended longer ago (90d); default: never.",
)
@click.option(
    "--lease",
    envvar="K8SBENCH_LEASE",
    metavar="NAME",
    default="dlperf-collector",
    help="Name of the Lease, which one collector holds; default dlperf-collector.",
)
@click.option(
    "--listen",
    envvar="K8SBENCH_LISTEN",
    metavar="[ADDRESS]:PORT",
    default=":8080",
    help="Address of its HTTP server; default :8080.",
)
@click.option(
    "--config",
    envvar="K8SBENCH_CONFIG",
    metavar="FILE",
    help="YAML with namespaces, store, prometheus, baseline, keepLogsFor.",
)
def command(lease: str, listen: str, config: str | None, **given: Any) -> None:
    """Collect every run of some namespaces, until SIGTERM.

    Follows each k8sbench job as it appears, archives its logs and GPU metrics, measures and records
    it, and then deletes the job, unless it is to be kept or another process still follows it. If
    there are several collectors, one holds the Lease and the others wait. A flag overrides the
    environment, which overrides the file.
    """
    try:
        from k8sbench.collector import http, metrics
    except ImportError as error:
        raise UsageError(
            f"The collector needs a package that is not installed: {error.name}.",
            extras.how_to_install("collector"),
        ) from error
    from k8sbench.collector.controller import Controller

    settings = collector_settings.load(config, given)
    stop, figures = SignalStop(), metrics.Metrics()
    with reporter.reporting(drawn=False) as progress:
        leading = Leadership(lease, progress.note)
        observed = metrics.Observed(progress, figures)
        controller = Controller(settings, leading, observed, figures.closed)
        figures.state = controller.state
        app = http.application(controller.state, figures.registry)
        with stop, http.Server(listen, app) as server:
            progress.note(f"Others read it at port {server.port}.")
            with leading:
                controller.run(stop)
        progress.note(
            f"{stop.cause}: the collector ends; the next one continues with the unfinished runs."
        )
