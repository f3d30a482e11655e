"""Serving namespaces: all their runs are collected, and new ones as they appear, until a stop.

One thread serves any number of namespaces in turn. Nothing is kept of a run that is closed, so that
memory stays the same however many there are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from k8sbench.model.errors import BenchError
from k8sbench.model.run import Run
from k8sbench.runs.collecting import Collecting, CollectResult, owed_runs
from k8sbench.runs.context import Reporter, RunContext, Stop
from k8sbench.runs.following import LOOK_SECONDS
from k8sbench.runs.gathering import Gathering

LIST_SECONDS = 15.0
"""Between two lists of the jobs of a namespace that is served."""


class Serving:
    """One namespace that is served.

    ``find`` returns its runs that need collection. Unless it is ``patient`` the first list must
    succeed; a cluster that does not answer a later one is asked again.
    """

    def __init__(
        self,
        find: Callable[[], Iterable[Run]],
        context: RunContext,
        reporter: Reporter,
        *,
        keep: bool = False,
        wait: bool = False,
        patient: bool = False,
    ) -> None:
        self._find, self._clock, self._reporter = find, context.clock, reporter
        self._owed = partial(owed_runs, context)
        self._gathering = Gathering(context, reporter)
        self._collecting = Collecting(context, reporter, self._gathering, keep=keep, wait=wait)
        self._may_fail = patient
        self._due, self._reported = -math.inf, ""
        self.listed_at: float | None = None
        """When its jobs were last listed, Unix seconds; None: not yet."""

    def __enter__(self) -> Serving:
        return self

    def __exit__(self, *_: object) -> None:
        self._collecting.__exit__()

    def step(self, seconds: float) -> list[Run]:
        """Do what there is to do, or wait so long for it; returns the runs that were closed.

        One whose job could not be deleted then may come again.
        """
        if self._clock() >= self._due:
            self._look()
        self._collecting.sort(self._collecting.following.step(seconds))
        self._gathering.completed.clear()
        return self._collecting.hand_over()

    def open_runs(self) -> list[Run]:
        """The runs that are followed."""
        return self._collecting.following.runs()

    def left(self) -> CollectResult:
        """The runs that go on, and those that could not be collected."""
        result = self._collecting.result
        result.going_on += self.open_runs()
        return result

    def _look(self) -> None:
        try:
            for run in self._find():
                self._collecting.take(run)
            if self.listed_at is None:
                for run in self._owed():
                    self._gathering.add(run)
            self.listed_at, self._may_fail, self._reported = self._clock(), True, ""
        except BenchError as wrong:
            if not self._may_fail:
                raise
            if str(wrong) != self._reported:
                self._reporter.note(f"warning: new jobs are not seen for now: {wrong}")
            self._reported = str(wrong)
        self._due = self._clock() + LIST_SECONDS


def serve(
    places: Sequence[Serving],
    stop: Stop,
    closed: Callable[[Run], None],
    look: Callable[[Sequence[Serving]], None] = lambda _: None,
) -> CollectResult:
    """Serve namespaces until asked to stop; returns what goes on then.

    ``closed`` takes the runs as they are closed, and ``look`` sees the namespaces in each turn.
    """
    while stop.cause is None:
        for place in places:
            for run in place.step(LOOK_SECONDS / len(places)):
                closed(run)
        look(places)
    result = CollectResult()
    for place in places:
        result.add(place.left())
    return result
