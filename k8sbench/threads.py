"""Calls on daemon threads, as futures."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from typing import Any, TypeVar

T = TypeVar("T")


class Threads:
    """Makes each call on its own thread, ``most`` at a time.

    Without ``most`` the callers limit their number.
    """

    def __init__(self, most: int | None = None) -> None:
        self._room = None if most is None else threading.Semaphore(most)
        self._done = threading.Event()

    def start(self, call: Callable[[], T], name: str) -> Future[T]:
        """Start a thread that makes the call; returns at once."""
        future: Future[T] = Future()

        def run() -> None:
            if self._room is not None:
                self._room.acquire()
            try:
                future.set_result(call())
            except BaseException as error:
                future.set_exception(error)
            finally:
                self._done.set()
                if self._room is not None:
                    self._room.release()

        threading.Thread(target=run, name=name, daemon=True).start()
        return future

    def wait(self, seconds: float) -> None:
        """Wait until a call is done, or so long."""
        self._done.wait(seconds)
        self._done.clear()

    def join(self, calls: Sequence[Future[Any]], seconds: float | None = None) -> None:
        """Wait until all of these calls are done, or so long."""
        wait(calls, seconds)


class Inline(Threads):
    """Makes each call at once, on the calling thread.

    A local process ends with the thread that started it.
    """

    def start(self, call: Callable[[], T], name: str) -> Future[T]:  # noqa: ARG002
        """Make the call."""
        future: Future[T] = Future()
        try:
            future.set_result(call())
        except Exception as error:
            future.set_exception(error)
        return future


def internal(error: BaseException) -> str:
    """Describe an error of the program itself, with the line that raised it."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"an internal error: {type(error).__name__}: {error} ({frame.filename}:{frame.lineno})"
