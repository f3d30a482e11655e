"""Live view of runs: phase, replicas, output, sweeps.

Only the last lines and steps of each replica are kept, so that a thousand runs fit in memory. The
figures are for display; the measurement is computed later, from whole logs.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator, Sequence
from typing import TypeVar

from k8sbench.diagnose.job import exits
from k8sbench.model.kinds import rank_order
from k8sbench.model.phase import RESTARTING, Phase
from k8sbench.model.plan import RunPlan
from k8sbench.model.replica_logs import LogLine
from k8sbench.model.run import Run
from k8sbench.model.sample import Evaluation, Item, Record
from k8sbench.ports.cluster import JobEvent
from k8sbench.reader.family import Family, LineReader
from k8sbench.reader.lines import pieces

LAST_LINES = 15
"""Kept lines of a replica's output."""
LONGEST_LINE = 500
"""Characters of a kept line."""
LONGEST_READ = 4096
"""Characters of a line that are searched for a step, from its end."""
RECENT_STEPS = 8
"""Printed steps that the pace is taken from."""
UNREAD_LINES = 2 * RECENT_STEPS
"""Kept unparsed lines that may have a step.

Most are never parsed: nobody looks at them.
"""
_EVALUATES = '"event": "evaluation"'
"""Text of our trainers' evaluation lines.

Hours may lie between two of them, so each is parsed at once.
"""
_T = TypeVar("_T")
_REPLICA = re.compile(r"\b[a-z]+-\d+\b")


class Output:
    """The last lines of one replica, and the steps in them."""

    def __init__(self, plan: RunPlan, family: Family, needles: Sequence[str]) -> None:
        """Every line with a step holds one of the ``needles``."""
        self._plan, self._family, self._needles = plan, family, needles
        self._reader: LineReader | None = None
        """Made when a line is parsed."""
        self._is_declared = not isinstance(plan.log, str)
        # Lists, because an empty deque takes 0.8 kB, and thousands of replicas have three.
        self._recent: list[tuple[float, Record]] = []
        """Steps, each with the time of its line in Unix seconds."""
        self._unread: list[LogLine] = []
        self.tail: list[str] = []
        """Last lines, without torchrun's table of failed ranks."""
        self._report = exits.TorchrunReport()
        self.last_at = 0.0
        """Time of the replica's last line, Unix seconds; 0 before the first."""
        self.evaluation: Evaluation | None = None
        """The latest; None before the first, and of the published programs."""

    @property
    def last(self) -> Record | None:
        """The latest step; None before the first."""
        unread = self._unread
        self._unread = []
        for line in unread:
            self._take(line)
        return self._recent[-1][1] if self._recent else None

    @property
    def rate(self) -> float | None:
        """Samples per second of the whole job in the latest step; None without them."""
        # Imported with the first step, as the family is with the first line.
        from k8sbench.reader.measuring import recorded

        return None if self.last is None else recorded.rate(self.last, self._plan)

    def _take(self, line: LogLine) -> None:
        """Take in the step of a line, if it has one."""
        for found in [item for item in self._items(line) if isinstance(item, Record)][-1:]:
            if self._recent and found.iteration <= self._recent[-1][1].iteration:
                self._recent.clear()  # a new epoch, or the replica was started again
            _add(self._recent, (line.at, found), RECENT_STEPS)

    def read(self, line: LogLine) -> bool:
        """Read a line; True if it may have a step."""
        if not self._report.has(line.text):
            _add(self.tail, line.text[:LONGEST_LINE], LAST_LINES)
        self.last_at = line.at
        if _EVALUATES in line.text:
            found = [item for item in self._items(line) if isinstance(item, Evaluation)]
            self.evaluation = found[0] if found else self.evaluation
            return False
        may_have = any(needle in line.text for needle in self._needles)
        if may_have and self._is_declared:
            self._take(line)  # now: any line may have one, and later ones would push it out
        elif may_have:
            _add(self._unread, line, UNREAD_LINES)
        return may_have

    def remaining(self, now: float) -> float | None:
        """Return the estimated seconds until the last iteration.

        The recent pace is assumed to continue. None while the pace is unknown.
        """
        last = self.last
        if last is None or last.total is None or last.shape.numbering == "epoch":
            return None
        (began, first), (at, _) = self._recent[0], self._recent[-1]
        if at <= began:
            return None
        pace = (at - began) / (last.iteration - first.iteration)
        return max(0.0, pace * (last.total - last.iteration) - (now - at))

    def _items(self, line: LogLine) -> Iterator[Item]:
        self._reader = self._reader or self._family.reader()
        for piece in pieces(line.text[-LONGEST_READ:]):
            yield from self._reader.read(piece)


def _add(kept: list[_T], new: _T, most: int) -> None:
    """Append an item, and drop the first one of too many."""
    kept.append(new)
    if len(kept) > most:
        del kept[0]


class LiveRun:
    """One run that has not ended."""

    def __init__(self, run: Run) -> None:
        self.run_id = run.run_id
        self.plan = run.plan
        self.created_at = run.created_at
        self.state = run.history[-1]
        self.restarts = run.restarts
        self.reported_at = float("-inf")
        """Time of the last step printed as plain text, Unix seconds."""
        self._failed: dict[str, None] = {}
        self._outputs: dict[str, Output] = {}
        self._format: tuple[Family, Sequence[str]] | None = None
        """Family and needles of its logs; None before the first line."""

    @property
    def phase(self) -> Phase:
        """Its latest state."""
        return self.state.phase

    def replan(self, plan: RunPlan) -> None:
        """Take another plan: the log of an observed job shows its format."""
        if plan.log != self.plan.log:
            self._format = None
            self._outputs = {}
        self.plan = plan

    def take(self, event: JobEvent) -> bool:
        """Apply an event; True if it may have a step."""
        if event.transition is not None:
            self.state = event.transition
            if event.transition.cause_id == RESTARTING:
                self.restarts += 1
                self._failed = {}
        elif event.replica is not None:
            name = event.replica.replica
            if event.replica.phase is Phase.FAILED:
                self._failed.setdefault(name)
            else:
                self._failed.pop(name, None)
        elif event.line is not None:
            name = event.line.replica
            if name not in self._outputs:
                self._format = self._format or _format(self.plan)
                self._outputs[name] = Output(self.plan, *self._format)
            return self._outputs[name].read(event.line)
        return False

    def output(self, replica: str) -> Output | None:
        """The output of a replica; None if it printed nothing."""
        return self._outputs.get(replica)

    def steps(self) -> Output | None:
        """Return the output of the first replica that prints steps.

        Its steps are those of the job. None before the first step.
        """
        outputs = (self._outputs[name] for name in sorted(self._outputs, key=rank_order))
        return next((output for output in outputs if output.last is not None), None)

    def last_line_at(self) -> float | None:
        """Return the time of the last line, Unix seconds; None before."""
        return max((output.last_at for output in self._outputs.values()), default=None)

    def failed(self) -> list[str]:
        """Name the failed replicas, first the one that the cause names.

        The others follow in the order of their failures. If no failure is known, all replicas that
        printed are named. The replica that caused the failure may later be ended by others, once
        its peers have failed.
        """
        named = [name for name in _REPLICA.findall(self.state.cause) if name in self._outputs]
        failed = dict.fromkeys([*named[:1], *self._failed])
        return list(failed) or sorted(self._outputs, key=rank_order)


def _format(plan: RunPlan) -> tuple[Family, Sequence[str]]:
    # Imported with the first line: a run that is only submitted prints none.
    from k8sbench.reader.reading import family_of

    family = family_of(plan.log, plan.framework)
    return family, family.reader().needles


# -- sweeps ----------------------------------------------------------------------------------------


class Sweep:
    """Progress of the runs of one command, and the remaining time.

    Each run is expected to take the mean time of those that have succeeded, less the time already
    passed. The sum is divided by the number of concurrent runs. Time in the cluster's queue is part
    of a run's time, so the estimate is too short while a cluster fills up.
    """

    def __init__(self, to_come: int, finished: int, parallel: int) -> None:
        self.wanted = to_come + finished
        """Number of runs, those that the set had before among them."""
        self.ended = finished
        """Number of runs that have ended."""
        self._parallel = parallel
        self._going_on: dict[str, float] = {}
        """Time of creation or joining by run id, Unix seconds."""
        self._took: list[float] = []
        """Seconds of the runs that succeeded while they were followed."""

    def began(self, run: Run, now: float) -> None:
        """Note that a run was recorded or taken up."""
        self._going_on[run.run_id] = now

    def closed(self, run: Run, now: float) -> None:
        """Note that a run has ended; once for each."""
        since = self._going_on.pop(run.run_id, None)
        self.ended += 1
        if since is not None and run.phase is Phase.SUCCEEDED:
            self._took.append(now - since)

    def remaining(self, now: float) -> float | None:
        """Return the estimated remaining seconds; None before the first success."""
        if not self._took:
            return None
        mean = statistics.fmean(self._took)
        left = [max(0.0, mean - (now - since)) for since in self._going_on.values()]
        left += [mean] * (self.wanted - self.ended - len(self._going_on))
        return max([sum(left) / max(1, self._parallel), *left], default=0.0)
