"""``k8sbench top``: a run's GPUs, a line each, and its throughput above them."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping

import click

from k8sbench.app import top
from k8sbench.cli.options import access_options, prometheus_option, store_option
from k8sbench.cli.signals import SignalStop
from k8sbench.cli.terminal import output
from k8sbench.cli.terminal.output import PLAIN_TERMS
from k8sbench.cli.terminal.progress import state_words
from k8sbench.lifecycle.live_metrics import LiveMetrics
from k8sbench.measure.run.gpu_metrics import GpuNow
from k8sbench.model import times
from k8sbench.model.counts import ABSENT
from k8sbench.model.gpu_metrics import METRICS, GpuMetric
from k8sbench.model.phase import Phase
from k8sbench.model.plain_text import clean
from k8sbench.model.request import ClusterAccess
from k8sbench.report.text_table import Column, plain_table, wrapped


def _of(metric: GpuMetric) -> Callable[[GpuNow], str | None]:
    def cell(gpu: GpuNow) -> str | None:
        sample = gpu.metrics.get(metric.id)
        if sample is None:
            return None
        # Sizes as kubectl writes them: 13.8Gi.
        return metric.text(sample.value).replace(" ", "").replace("GiB", "Gi")

    return cell


def _replica(one: GpuNow) -> str | None:
    """Write the pod's name without the run's."""
    return None if one.gpu.pod is None else "-".join(one.gpu.pod.rsplit("-", 2)[-2:])


def _number(one: GpuNow) -> str | None:
    """Write the GPU's number on its node, and which part of it (MIG)."""
    return one.gpu.index if one.gpu.mig is None else f"{one.gpu.index or '?'}/{one.gpu.mig}"


def _node(one: GpuNow) -> str | None:
    """Write a node's name without its domain; an address stays whole."""
    node = one.gpu.node
    if node is None or node.replace(".", "").isdecimal():
        return node
    return node.partition(".")[0]


def _age(one: GpuNow) -> str | None:
    ages = [sample.age for sample in one.metrics.values()]
    return times.duration(round(min(ages))) if ages else None


def _column(title: str, keep: int) -> Column:
    """Make a column; of those that a narrow terminal may lack the least kept is left out first."""
    return Column(title, right=True, whole=True, optional=keep and MOST_KEPT - keep)


MOST_KEPT = 1 + max(metric.live[1] for metric in METRICS if metric.live)
COLUMNS: tuple[tuple[Column, Callable[[GpuNow], str | None]], ...] = (
    (_column("NODE", 4), _node),
    (_column("REPLICA", 0), _replica),
    (_column("GPU", 0), _number),
    *((_column(*metric.live), _of(metric)) for metric in METRICS if metric.live),
    (_column("AGE", 1), _age),
)


@click.command()
@click.argument("run", metavar="RUN")
@access_options
@store_option
@prometheus_option
def command(run: str, access: ClusterAccess, where: str | None, prometheus: str) -> None:
    """Show the GPU metrics and the throughput of a run, live.

    RUN is a run id or a unique beginning of one, in the store or, if it was submitted from another
    store, on the cluster. The command ends with the run; Ctrl-C does not change the run. A metric
    without a source is -, and a note says why.
    """
    stop = SignalStop()
    with _shown() as show:
        seen = top.top(run, where, access, output.note, stop, show, prometheus=prometheus)
    output.note(f"Run {seen.run_id} is {seen.phase}. {seen.history[-1].cause}")
    if seen.phase is Phase.SUCCEEDED:
        output.note(f"See what was measured with: k8sbench results {seen.run_id}")


@contextlib.contextmanager
def _shown() -> Iterator[Callable[[LiveMetrics], None]]:
    """Give what shows the GPUs: renewed in place on a terminal, one after the other in a pipe."""
    if not sys.stdout.isatty() or os.environ.get("TERM", "") in PLAIN_TERMS:
        yield lambda metrics: output.write(text(metrics, None) + "\n")
    else:
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        console = Console(force_terminal=True, no_color=not output.wanted())
        with Live(console=console, auto_refresh=False) as live:
            yield lambda metrics: live.update(
                Text(text(metrics, console.width), no_wrap=True), refresh=True
            )


def text(metrics: LiveMetrics, width: int | None) -> str:
    """Write a run's state, a line for each of its GPUs, and why columns are empty."""
    live, (gpus, missing) = metrics.live, metrics.gpus()
    above, below = [" · ".join(state_words(live, metrics.clock()))], list[str]()
    if live.phase is Phase.RUNNING:
        below = _notes(missing)
    else:
        above += filter(None, (live.state.cause, live.state.action))
    table = ""
    if gpus:
        rows = [[cell(gpu) or ABSENT for _, cell in COLUMNS] for gpu in gpus]
        table = plain_table([column for column, _ in COLUMNS], rows, room=width)
    first, last = (
        "".join(f"{wrapped(clean(line), width, indent='')}\n" for line in lines)
        for lines in (above, below)
    )
    return first + table + last


def _notes(missing: Mapping[str, str]) -> list[str]:
    """Say why columns are empty; what is the same for several stands once."""
    if "*" in missing:
        return [f"No GPU metrics: {missing['*']} k8sbench doctor says what a cluster lacks."]
    by_text: dict[str, list[str]] = {}
    for metric in METRICS:
        if metric.live and metric.id in missing:
            by_text.setdefault(missing[metric.id], []).append(metric.title)
    return [f"{', '.join(titles)}: {text}" for text, titles in by_text.items()]
