"""The deletion of what is left of jobs that are over, while others are followed."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from typing import TYPE_CHECKING

from k8sbench.model.errors import BenchError
from k8sbench.model.run import Run
from k8sbench.runs import wishes
from k8sbench.runs.context import Reporter, RunContext

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

REQUESTS = 4
"""Jobs that are deleted at a time."""
PUT_OFF_SECONDS = 300.0
"""For which that is put off, while pods of others are created."""


class Removals:
    """The runs that are closed and what is left of which is to be deleted; that is on record.

    ``in_threads``: by other threads, else at once by the one that calls.
    """

    def __init__(self, context: RunContext, reporter: Reporter, *, in_threads: bool) -> None:
        self._context, self._reporter = context, reporter
        self._workers: ThreadPoolExecutor | None = None
        if in_threads:
            from concurrent.futures import ThreadPoolExecutor

            self._workers = ThreadPoolExecutor(REQUESTS, thread_name_prefix="delete")
        self._waiting: list[Run] = []
        self._wait_until = math.inf
        """When they are deleted at the latest, Unix seconds."""
        self._going_on: set[Future[Run]] = set()
        self._done: deque[Future[Run]] = deque()

    def add(self, run: Run) -> Run:
        """Delete what is left of a run's job, at once or later; returns the run as it is now."""
        if self._workers is None:
            return remove(run, self._context, self._reporter)
        if not self._waiting:
            self._wait_until = self._context.clock() + PUT_OFF_SECONDS
        self._waiting.append(run)
        return run

    def start(self, is_put_off: Callable[[], bool]) -> None:
        """Have other threads delete what is left of jobs, unless that is to be put off."""
        if self._workers is None or not self._waiting:
            return
        if self._context.clock() >= self._wait_until or not is_put_off():
            for run in self._waiting:
                future = self._workers.submit(remove, run, self._context, self._reporter)
                self._going_on.add(future)
                future.add_done_callback(self._done.append)
            self._waiting.clear()

    def take(self, *, wait: bool = False) -> bool:
        """Whether any is done since the last call; raises what went wrong: a fault of ours."""
        done = wait_for(self._going_on).done if wait else set()
        while self._done:
            done.add(self._done.popleft())
        self._going_on -= done
        for one in done:
            one.result()
        return bool(done)

    def close(self) -> None:
        """Wait for those that go on."""
        if self._workers is not None:
            self._workers.shutdown()


def remove(run: Run, context: RunContext, reporter: Reporter) -> Run:
    """Delete what is left of a job; the run is measured, whatever becomes of that."""
    run_id = run.run_id
    try:
        run, why = wishes.delete(context, run_id)
    except BenchError as wrong:
        reporter.note(
            f"warning: what is left of {run_id} on the cluster stays there: {wrong}"
            f" Then: k8sbench delete {run_id}"
        )
        return run
    finally:
        context.store.claims.release(run_id)
    if why is not None:
        reporter.note(f"{run_id} stays on the cluster: {why}")
    return run
