"""Requests on other threads: an API server may take long to answer, and others are followed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from typing import Any, TypeVar

T = TypeVar("T")


class Threads:
    """Does calls beside the thread that follows runs; how many at a time its callers limit.

    Each on a thread that does not keep the program from ending.
    """

    def __init__(self) -> None:
        self._done = threading.Event()

    def start(self, call: Callable[[], T], name: str) -> Future[T]:
        """Start a thread that makes the call; returns at once."""
        future = in_thread(call, name)
        future.add_done_callback(lambda _: self._done.set())
        return future

    def wait(self, seconds: float) -> None:
        """Wait until a call is done, or so long."""
        self._done.wait(seconds)
        self._done.clear()

    def join(self, calls: Sequence[Future[Any]], seconds: float | None = None) -> None:
        """Wait until all of these calls are done, or so long."""
        wait(calls, seconds)


class Inline(Threads):
    """Makes each call at once: what starts processes must be the thread that they live with."""

    def start(self, call: Callable[[], T], name: str) -> Future[T]:  # noqa: ARG002
        """Make the call."""
        future: Future[T] = Future()
        try:
            future.set_result(call())
        except Exception as error:
            future.set_exception(error)
        return future


def in_thread(call: Callable[[], T], name: str) -> Future[T]:
    """Make a call on a thread of its own that does not keep the program from ending."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future
