"""Selection of the reporter: a display on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator

from k8sbench.cli.terminal import output
from k8sbench.cli.terminal.output import PLAIN_TERMS
from k8sbench.cli.terminal.progress import Progress
from k8sbench.ports import Clock


@contextlib.contextmanager
def reporting(clock: Clock = time.time, *, drawn: bool = True) -> Iterator[Progress]:
    """Report on runs while inside: drawn on a terminal, in plain lines elsewhere.

    Nothing else should write to the terminal until then: give notes to the reporter, and print data
    afterwards. Plain lines also where ``drawn`` is false: there is nothing to watch.
    """
    reporter = Progress(clock)
    if (
        drawn
        and not output.quiet
        and sys.stderr.isatty()
        and os.environ.get("TERM", "") not in PLAIN_TERMS
    ):
        from k8sbench.cli.terminal.display import Display

        reporter = Display(clock)
    with contextlib.closing(reporter):
        yield reporter
