"""Stop requests and the reporter of a command."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any

from k8sbench.cli.terminal import output
from k8sbench.cli.terminal.progress import Progress
from k8sbench.lifecycle.stop import Stop
from k8sbench.model.times import Clock

CAUSES = {
    signal.SIGINT: "Interrupted (Ctrl-C)",
    signal.SIGTERM: "Interrupted (SIGTERM)",
    signal.SIGHUP: "Interrupted (terminal closed)",
}


class SignalStop(Stop):
    """A Stop set by a signal; a second signal ends the program immediately.

    Signals have Python's behaviour outside the context: nothing needs an orderly end there.
    """

    def __init__(self) -> None:
        super().__init__()
        self._before: list[dict[signal.Signals, Any]] = []

    def __enter__(self) -> Stop:
        self._before.append({number: signal.signal(number, self._take) for number in CAUSES})
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.pop().items():
            signal.signal(number, handler)

    def _take(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self.cause is not None:
            raise KeyboardInterrupt("k8sbench list shows what became of the runs.")
        self(CAUSES[signal.Signals(number)])


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
        and os.environ.get("TERM", "") not in output.PLAIN_TERMS
    ):
        from k8sbench.cli.terminal.display import Display

        reporter = Display(clock)
    with contextlib.closing(reporter):
        yield reporter
