"""``k8sbench top``: a run's GPUs, a line each, and its throughput above them."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import click

from k8sbench.app import top
from k8sbench.app.top import TopOptions
from k8sbench.cli.options import access_options, prometheus_option, store_option
from k8sbench.cli.output_format import format_option
from k8sbench.cli.signals import SignalStop
from k8sbench.cli.terminal import output
from k8sbench.cli.terminal.color import PLAIN_TERMS
from k8sbench.cli.terminal.progress import state_words
from k8sbench.lifecycle.live_metrics import LiveMetrics, RunTop
from k8sbench.measure.run.gpu_latest import GpuNow
from k8sbench.model import times
from k8sbench.model.gpu_metrics import METRICS, GpuMetric
from k8sbench.model.phase import Phase
from k8sbench.report.text_table import Column, clean


class Shown(NamedTuple):
    """A column of the table."""

    title: str
    keep: int
    """The higher, the longer it is kept in a narrow terminal; 0 is never left out."""
    cell: Callable[[GpuNow], str | None]


def _of(metric: GpuMetric) -> Callable[[GpuNow], str | None]:
    def cell(one: GpuNow) -> str | None:
        sample = one.metrics.get(metric.id)
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


COLUMNS = (
    Shown("NODE", 4, _node),
    Shown("REPLICA", 0, _replica),
    Shown("GPU", 0, _number),
    *(Shown(*metric.live, _of(metric)) for metric in METRICS if metric.live),
    Shown("AGE", 1, _age),
)


@click.command()
@click.argument("run", metavar="RUN")
@click.option("--once", is_flag=True, help="Read the metrics once, and end.")
@format_option("table", "json", about="Format; json is printed once.")
@access_options
@store_option
@prometheus_option
def command(output_format: str, where: str | None, **asked: Any) -> None:
    """Show the GPU metrics and the throughput of a run, live.

    RUN is a run id or a unique beginning of one, in the store or, if it was submitted from another
    store, on the cluster. The command ends with the run; Ctrl-C does not change the run. A metric
    without a source is -, and a note says why.
    """
    once = asked.pop("once") or output_format != "table"
    options = TopOptions(store=where, once=once, **asked)
    with _shown(output_format, once=once) as show:
        run = top.top(options, output.note, SignalStop(), show)
    if not once:
        output.note(f"Run {run.run_id} is {run.phase}. {run.history[-1].cause}")
        if run.phase is Phase.SUCCEEDED:
            output.note(f"See what was measured with: k8sbench results {run.run_id}")


@contextlib.contextmanager
def _shown(output_format: str, *, once: bool) -> Iterator[Callable[[LiveMetrics], None]]:
    """Give what shows the GPUs: drawn on a terminal, in blocks of plain text elsewhere."""
    if once:
        yield (
            _print
            if output_format == "table"
            else lambda metrics: output.write_json(metrics.view())
        )
    elif not sys.stdout.isatty() or os.environ.get("TERM", "") in PLAIN_TERMS:
        yield _Blocks()
    else:
        with _drawn() as show:
            yield show


@contextlib.contextmanager
def _drawn() -> Iterator[Callable[[LiveMetrics], None]]:
    from rich.console import Console

    from k8sbench.cli.terminal import color, drawing
    from k8sbench.cli.terminal.redrawing import Redrawing
    from k8sbench.cli.terminal.suspending import Suspending

    console = Console(
        force_terminal=True,
        markup=False,
        emoji=False,
        highlight=False,
        no_color=not color.wanted(),
    )
    with Redrawing(console=console, auto_refresh=False, vertical_overflow="crop") as live:

        def show(metrics: LiveMetrics) -> None:
            view, size = metrics.view(), console.size
            notes, now = _notes(view, metrics.advice()), metrics.clock()
            room = max(1, size.height - 1)
            drawn = drawing.gpus(metrics.live, COLUMNS, view.gpus, notes, now, size.width, room)
            live.update(drawn, refresh=True)

        def leave() -> None:
            live.update("", refresh=True)
            live.stop()

        suspending = Suspending(leave, live.start)
        suspending.begin()
        try:
            yield show
        finally:
            suspending.end()


class _Blocks:
    """Prints the table each time that the metrics were read, and when the state changes."""

    def __init__(self) -> None:
        self._last: tuple[object, ...] = ()

    def __call__(self, metrics: LiveMetrics) -> None:
        this = metrics.live.phase, metrics.reads
        if this not in (self._last, (Phase.RUNNING, 0)):
            output.write("\n" if self._last else "")
            _print(metrics)
            self._last = this


def _print(metrics: LiveMetrics) -> None:
    view = metrics.view()
    output.write(f"{' · '.join(state_words(metrics.live, metrics.clock()))}\n")
    if view.gpus:
        columns = [Column(each.title, right=True, whole=True) for each in COLUMNS]
        output.write_table(columns, [[each.cell(one) for each in COLUMNS] for one in view.gpus])
    for text in _notes(view, metrics.advice()):
        output.write(f"{clean(text)}\n")


def _notes(view: RunTop, advice: str | None) -> list[str]:
    """Say why columns are empty; what is the same for several stands once."""
    if view.phase is not Phase.RUNNING:
        return []
    if "*" in view.missing:
        return [f"No GPU metrics: {view.missing['*']}", *filter(None, [advice])]
    by_text: dict[str, list[str]] = {}
    for metric in METRICS:
        if metric.live and metric.id in view.missing:
            by_text.setdefault(view.missing[metric.id], []).append(metric.title)
    return [f"{', '.join(titles)}: {text}" for text, titles in by_text.items()]
