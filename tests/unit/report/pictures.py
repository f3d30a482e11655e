"""The README's pictures, drawn by the product from example data.

They are the live view and the plot. ``make golden`` writes them again; a test compares them. Their
figures are those of a published report and of an invented run: no picture shows a measurement of
k8sbench.
"""

import inspect
import io
import re

import msgspec
from rich.console import Console
from rich.terminal_theme import TerminalTheme

from k8sbench.cli.terminal import drawing
from k8sbench.cli.terminal.live import LiveRun
from k8sbench.measure.group.selection import Report, Wanted, report
from k8sbench.model.phase import Phase
from k8sbench.report import layout, plot, tables
from tests.unit.cli import live_runs
from tests.unit.cli.live_runs import NOW, moved, replica, step
from tests.unit.report import example, factory

WIDTH = 80
"""Columns; the view of the smallest usual terminal."""
THEME = TerminalTheme(
    (32, 33, 36),
    (222, 222, 222),
    [
        *((80, 80, 80), (230, 90, 90), (95, 190, 110), (215, 175, 80)),
        *((110, 150, 230), (190, 120, 210), (90, 190, 200), (222, 222, 222)),
    ],
)
NAME = "resnet50-261120-081500-x7k2qd"


def live_view() -> str:
    """Draw four replicas, one restarted, with rank 0's printed step."""
    live = LiveRun(
        live_runs.run(NAME, replicas=4, gpus_per_replica=8, processes_per_replica=8, batch_size=128)
    )
    for event in (
        moved(Phase.RUNNING, "All replicas run.", NAME),
        replica("master-0", Phase.RUNNING, NAME, node="gpu-1"),
        replica("worker-0", Phase.RUNNING, NAME, node="gpu-2"),
        replica("worker-1", Phase.RUNNING, NAME, node="gpu-4", restarts=1),
        replica("worker-2", Phase.RUNNING, NAME, node="gpu-7"),
        step(50, at=NOW + 53, total=120, seconds=0.3711, run_id=NAME),
        step(60, at=NOW + 56.711, total=120, seconds=0.3711, run_id=NAME),
    ):
        live.take(event)
    console = Console(
        file=io.StringIO(), record=True, width=WIDTH, force_terminal=True, color_system="standard"
    )
    console.print(drawing.one_run(live, NOW + 58, WIDTH, 24))
    console.print()  # the picture's clip would cut what is below the last base line
    return console.export_svg(
        title="k8sbench submit resnet50 --replicas 4",
        theme=THEME,
        code_format=_without_fonts(),
        unique_id="live",
    )


def plot_of_published_runs() -> str:
    """Draw the bars and the scaling of ResNet-50's published runs."""
    return plot.draw(_published("1x1", "1x4", "1x8").results).decode()


def sample_row() -> str:
    """Write the table of one case for a terminal of 80 columns."""
    made = _published("1x8")
    return tables.text(layout.tables(made.results, ()), width=WIDTH)


def _published(*cases: str) -> Report:
    """Report on upstream's published runs and the side runs beside them."""
    runs = [
        msgspec.structs.replace(
            one,
            plan=msgspec.structs.replace(one.plan, impl="upstream"),
            # No GPU metrics were published.
            measurement=one.measurement and factory.changed(one.measurement, gpu_metrics=None),
        )
        for one in example.runs()
        if (one.plan.precision, one.plan.preset) == ("fp32", "full") and one.plan.case in cases
    ]
    return report(runs, Wanted())


def _without_fonts() -> str:
    """Return rich's own format without the fonts that a browser would fetch from elsewhere."""
    form = inspect.signature(Console.export_svg).parameters["code_format"].default
    return re.sub(r"@font-face \{\{.*?\}\}\s*", "", form, flags=re.DOTALL)


PICTURES = {"live.svg": live_view, "plot.svg": plot_of_published_runs}
"""File in ``docs/pictures`` → what draws it."""
