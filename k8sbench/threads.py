"""Calls on daemon threads, as futures."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


IDLE_SECONDS = 10.0
"""Time after which a thread without a call ends."""


class Threads:
    """Makes calls on daemon threads, ``most`` at a time.

    Without ``most`` the callers limit their number. A thread that is done makes another call:
    starting one takes long while others compute.
    """

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._done = threading.Event()
        self._calls = SimpleQueue[tuple[Callable[[], None], str]]()
        self._count = 0
        """Threads."""
        self._idle = 0
        """Threads without a call, less the calls that wait for one."""
        self._lock = threading.Lock()

    def start(self, call: Callable[[], T], name: str) -> Future[T]:
        """Have a thread make the call; returns at once."""
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(call())
            except BaseException as error:
                future.set_exception(error)
            finally:
                self._done.set()

        with self._lock:
            is_new = self._idle <= 0 and (self._most is None or self._count < self._most)
            if is_new:
                self._count += 1
            else:
                self._idle -= 1
        self._calls.put((run, name))
        if is_new:
            threading.Thread(target=self._work, daemon=True).start()
        return future

    def _work(self) -> None:
        """Make calls until none comes for a while."""
        while True:
            try:
                run, threading.current_thread().name = self._calls.get(timeout=IDLE_SECONDS)
            except Empty:
                with self._lock:
                    if self._idle > 0:  # else a call is on its way
                        self._idle -= 1
                        self._count -= 1
                        return
                continue
            run()
            with self._lock:
                self._idle += 1

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
