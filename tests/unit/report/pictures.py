"""The README's picture: the live view of an invented run."""

import inspect
import io
import re

from rich.console import Console
from rich.terminal_theme import TerminalTheme

from k8sbench.cli.terminal import drawing
from k8sbench.cli.terminal.live import LiveRun
from k8sbench.model.phase import Phase
from tests.unit.cli import live_runs
from tests.unit.cli.live_runs import NOW, moved, replica, step

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


def _without_fonts() -> str:
    """Return rich's own format without the fonts that a browser would fetch from elsewhere."""
    form = inspect.signature(Console.export_svg).parameters["code_format"].default
    return re.sub(r"@font-face \{\{.*?\}\}\s*", "", form, flags=re.DOTALL)
