"""A process that draws the live display of what a test has it say."""

import sys

from k8sbench.cli.running import reporting
from k8sbench.cli.terminal import output
from tests.unit.cli import live_runs


def draw() -> None:
    """Execute the lines of stdin, on ``tell``; always removes the display at its end."""
    names = {**vars(live_runs), "output": output}
    with reporting(lambda: live_runs.NOW) as names["tell"]:
        for said in sys.stdin:
            exec(said, names)
