"""``k8sbench operator``: the long-running process that the chart installs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import click
from click.core import ParameterSource

from k8sbench.app import cases, collect
from k8sbench.cli.options import F
from k8sbench.cli.running import SignalStop
from k8sbench.cli.terminal import log_lines
from k8sbench.model import errors
from k8sbench.model.errors import UsageError
from k8sbench.model.plain_text import without_passwords


def _setting(name: str, metavar: str, about: str, **more: Any) -> Callable[[F], F]:
    """Make an option that a variable of the environment may give, too."""
    envvar = f"K8SBENCH_{name.upper().replace('-', '_')}"
    return click.option(f"--{name}", envvar=envvar, metavar=metavar, help=about, **more)


def _names(_: click.Context, __: click.Parameter, given: Sequence[str]) -> list[str]:
    """Split the names that a variable of the environment joins by commas."""
    return [name for text in given for name in text.split(",") if name]


def _reject_password(
    context: click.Context, option: click.Parameter, value: str | None
) -> str | None:
    """Reject a password on the command line, where ``ps`` shows it."""
    typed = context.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE
    if typed and value is not None and without_passwords(value) != value:
        raise UsageError(
            "--store holds a password, which ps shows to every user of this machine.",
            "Give the URL in K8SBENCH_STORE.",
        )
    return value


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
@_setting(
    "store", "FOLDER|URL", "Store; default: the user's data folder.", callback=_reject_password
)
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
@_setting("listen", "[ADDRESS]:PORT", "Address of its HTTP server; default :8080.", default=":8080")
@_setting(
    "probe-listen",
    "[ADDRESS]:PORT",
    "Another address for /healthz and /readyz alone, in a thread of its own; default: none.",
)
@_setting(
    "log-format",
    "text|json",
    "Format of its log; default text.",
    type=click.Choice(log_lines.FORMATS),
    default="text",
)
def command(
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
    stop, figures = SignalStop(), metrics.Metrics()
    progress = log_lines.LogLines(time.time, log_format)
    leading = collect.leadership(name, asked.namespaces, progress.note)
    controller = Controller(asked, leading, progress, figures.closed)
    figures.state = controller.state
    app = http.application(controller.state, figures.registry, lambda: leading.token)
    probes: AbstractContextManager[Any] = nullcontext()
    if probe_listen:
        probes = http.Server(probe_listen, http.probes(controller.state))
    with stop, probes, http.Server(listen, app) as server:
        progress.note(f"Others read it at port {server.port}.")
        with leading:
            controller.run(stop)
    progress.note(
        f"{stop.cause}: the operator ends; the next one continues with the unfinished runs."
    )


@command.command()
def crd() -> None:
    """Print the CRD of Benchmark objects for ``kubectl apply --server-side -f -``."""
    click.echo(cases.crd(), nl=False)
