"""What a user sees while a run goes on: all of it on stderr.

On a terminal one line is redrawn; elsewhere (CI logs) plain lines come at state changes and for
at most one step in :data:`QUIET_SECONDS`. What a failing replica last said is shown whole.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict, deque

from k8sbench.cli import output
from k8sbench.model.phase import Phase
from k8sbench.model.plan import RunPlan
from k8sbench.model.planning import describe
from k8sbench.model.run import Run
from k8sbench.ports import Clock, JobEvent, LogLine

QUIET_SECONDS = 5.0
LAST_LINES = 15
"""How much of a failing replica's output is repeated."""


def tell(plan: RunPlan) -> None:
    """Print the plan in one line, and what the user should know of it."""
    output.note(describe(plan))
    for text in plan.notes:
        output.note(f"  note: {text}")


class Progress:
    """Tells one run after the other; implements :class:`k8sbench.runs.submitting.Reporter`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._live = sys.stderr.isatty()
        self._last_step_at = 0.0
        self._drawn = False
        self._tail: dict[str, deque[str]] = defaultdict(lambda: deque(maxlen=LAST_LINES))
        self._failed: list[str] = []

    def planned(self, run: Run) -> None:
        """Print the plan line, the notes and the run id, before anything is created."""
        self._tail.clear()
        self._failed.clear()
        tell(run.plan)
        output.note(f"run {run.run_id} (set {run.plan.set_name}, repeat {run.plan.repeat})")

    def happened(self, run: Run, event: JobEvent) -> None:  # noqa: ARG002
        """Print a change of state; draw a step."""
        if event.line is not None:
            self._tail[event.line.replica].append(event.line.text)
            self._step(event.line)
        if event.replica is not None and event.replica.phase is Phase.FAILED:
            self._failed.append(event.replica.replica)
        if event.transition is not None:
            self._clear()
            cause = f": {event.transition.cause}" if event.transition.cause else ""
            output.note(f"  {event.transition.phase}{cause}")
            if event.transition.phase is Phase.FAILED:
                self._show_tail()

    def ended(self, run: Run) -> None:
        """Print the verdict where it is not simply valid."""
        self._clear()
        if run.measurement is None:
            return
        for reason in run.measurement.reasons:
            mark = " (accepted)" if reason.accepted else ""
            output.note(f"  {reason.severity} {reason.id}{mark}: {reason.message}")

    def _step(self, line: LogLine) -> None:
        at = line.text.find("K8SBENCH {")
        if at < 0:
            return
        try:
            step = json.loads(line.text[at + len("K8SBENCH ") :])
            if step["event"] != "step":
                return
            text = (
                f"  step {step['step']}/{step['of']}"
                f"  {float(step['samples_per_second']):.4g} samples/s"
                f"  loss {float(step['loss']):.4g}"
            )
        except (ValueError, KeyError, TypeError):
            return
        now = self._clock()
        if self._live:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()
            self._drawn = True
        elif now - self._last_step_at >= QUIET_SECONDS:
            output.note(text)
            self._last_step_at = now

    def _clear(self) -> None:
        if self._drawn:
            sys.stderr.write("\r\x1b[K")
            self._drawn = False

    def _show_tail(self) -> None:
        for replica in self._failed or list(self._tail):
            lines = self._tail.get(replica)
            if lines:
                output.note(f"  last lines of {replica}:")
                for text in lines:
                    output.note(f"    {output.plain(text)[:500]}")
