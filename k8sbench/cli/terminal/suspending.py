"""Ctrl-Z while something is drawn: the terminal is given back first, and taken again afterwards.

A process that is stopped cannot show the cursor that it has hidden.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any


class Suspending:
    """Between :meth:`begin` and :meth:`end`, calls ``leave`` before a stop and ``enter`` after it.

    Only the main thread can take signals; begun by another one it does nothing.
    """

    def __init__(self, leave: Callable[[], None], enter: Callable[[], None]) -> None:
        self._leave, self._enter = leave, enter
        self._before: Any = None

    def begin(self) -> None:
        """Take the signal from now on."""
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGTSTP, self._take)

    def end(self) -> None:
        """Let the signal do what it did before; idempotent."""
        if self._before is not None:
            signal.signal(signal.SIGTSTP, self._before)
            self._before = None

    def _take(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        self._leave()
        # The shell is told of a stop by the signal itself, not by one of ours.
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        # It goes on here after SIGCONT.
        signal.signal(signal.SIGTSTP, self._take)
        self._enter()
