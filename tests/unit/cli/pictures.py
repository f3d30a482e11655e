"""The README's pictures: cases over invented nights, and the live view of invented runs."""

import inspect
import io
import re
from collections import Counter

from rich.console import Console
from rich.terminal_theme import TerminalTheme

from k8sbench.cli.terminal import display
from k8sbench.cli.terminal.live import LiveRun
from k8sbench.model.phase import Phase
from k8sbench.results.report import plot, svg
from k8sbench.results.report.time_axis import time_axis
from tests.results.report import pages
from tests.unit.cli import live_runs
from tests.unit.cli.live_runs import NOW, moved, step

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
NAME = "night"


def live_view() -> str:
    """Draw two running repeats and one that waits."""
    size = {"replicas": 4, "gpus_per_replica": 8, "processes_per_replica": 8, "batch_size": 128}
    first, second, third = (LiveRun(live_runs.run(f"{NAME}-{n}", **size)) for n in (1, 2, 3))
    for live, seconds in ((first, 0.3711), (second, 0.3722)):
        live.take(moved(Phase.RUNNING, "All replicas run.", live.run_id))
        for at in (50, 60):
            line = step(at, at=NOW + at, total=120, seconds=seconds, run_id=live.run_id)
            live.take(line)
    third.take(moved(Phase.PULLING, "The images are being pulled.", third.run_id))
    console = Console(
        file=io.StringIO(), record=True, width=WIDTH, force_terminal=True, color_system="standard"
    )
    console.print(display.drawn([first, second, third], Counter(), 0, NOW + 61, WIDTH, 24))
    console.print()  # the picture's clip would cut what is below the last base line
    return console.export_svg(
        title="k8sbench submit resnet50 --replicas 4 --repeats 3 --set night",
        theme=THEME,
        code_format=_without_fonts(),
        unique_id="live",
    )


def _without_fonts() -> str:
    """Return rich's own format without the fonts that a browser would fetch from elsewhere."""
    form = inspect.signature(Console.export_svg).parameters["code_format"].default
    return re.sub(r"@font-face \{\{.*?\}\}\s*", "", form, flags=re.DOTALL)


def history() -> str:
    """Draw four cases of one benchmark over thirty nights, with what happened to them."""
    made = pages.nightly(30, 4, change=pages.troubled)
    axis = time_axis(made.series)
    return svg.document(plot.over_sets(made.series, axis)).decode()
