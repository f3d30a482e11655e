"""Ctrl-C, SIGTERM and a closed terminal as requests to stop in good order."""

from __future__ import annotations

import signal
from types import FrameType
from typing import Any

from k8sbench.lifecycle.context import Stop

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
