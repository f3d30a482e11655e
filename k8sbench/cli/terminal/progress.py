"""What a user sees while runs go on: all of it on stderr.

Here in plain lines, as CI logs want them: changes of state, notes, and now and then a step. What
a failing replica last said is shown whole. On a terminal
:mod:`k8sbench.cli.terminal.display` draws the rest besides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from k8sbench.cli.terminal import output
from k8sbench.cli.terminal.live_state import LiveRun, Output
from k8sbench.model.phase import Phase
from k8sbench.model.plan import RunPlan
from k8sbench.model.planning import describe
from k8sbench.model.run import Run
from k8sbench.model.sample import LogGap
from k8sbench.ports import Clock, JobEvent
from k8sbench.report.text_table import clean

QUIET_SECONDS = 5.0
"""Between two plain lines about steps of one run."""
STEP_LINES_PER_SECOND = 2.0
"""Plain lines about steps, of all runs together."""
MOST_TAILS = 3
"""Failed replicas whose last lines are shown: the others mostly say that those have gone."""


class Progress:
    """Tells of any number of runs in plain lines; implements ``k8sbench.runs.context.Reporter``."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._runs: dict[str, LiveRun] = {}
        """Those that go on, in the order in which they came."""
        self._ended: Counter[Phase] = Counter()
        self._several = False
        """Whether several went on at once: from then on each line says which run it is about."""
        self._planned: list[str] = []

    def plan(self, plan: RunPlan) -> None:
        """Print the plan line and its notes, unless they were printed last."""
        lines = list(_plan_lines(plan))
        if lines != self._planned:  # repeats of a case share one plan
            for text in lines:
                self._say(text)
        self._planned = lines

    def planned(self, run: Run) -> None:
        """Print the plan line, the notes and the run id, before anything is created."""
        self.plan(run.plan)
        self._say(f"run {run.run_id} (set {run.plan.set_name}, repeat {run.plan.repeat})")
        live = self._followed(run)
        if len(run.history) > 1:  # it is taken up
            self._say_of(live, _with_cause(live.phase, live.state.cause))

    def on_event(self, run: Run, event: JobEvent) -> None:
        """Print a change of state, a gap or a note; tell of a step."""
        live = self._followed(run)
        before = live.state
        if live.take(event):
            self._stepped(live)
        if event.transition is not None:
            now = event.transition
            if (now.phase, now.cause) == (before.phase, before.cause):
                return  # only our hopes have changed
            self._say_of(live, _with_cause(now.phase, now.cause))
            if now.action:
                self._say_of(live, f"  {now.action}")
            if now.phase is Phase.FAILED:
                self._say_tails(live)
        elif event.gap is not None:
            self._say_of(live, _gap(event.gap))
        elif event.note is not None:
            self._say_of(live, event.note)

    def ended(self, run: Run) -> None:
        """Print the verdict where it is not simply valid; forget the run."""
        live = self._followed(run)
        for reason in run.measurement.reasons if run.measurement is not None else ():
            mark = " (accepted)" if reason.accepted else ""
            self._say_of(live, f"{reason.severity} {reason.id}{mark}: {reason.message}")
        del self._runs[run.run_id]
        self._ended[run.phase] += 1

    def note(self, text: str) -> None:
        """Tell something about the whole."""
        self._say(text)

    def close(self) -> None:
        """Leave the terminal as it was; idempotent. What is told afterwards comes as lines."""

    def _say(self, text: str) -> None:
        """Tell one line, for good."""
        output.note(clean(text))

    def _stepped(self, live: LiveRun) -> None:
        """Tell of a run's new step."""
        now = self._clock()
        pause = max(QUIET_SECONDS, len(self._runs) / STEP_LINES_PER_SECOND)
        steps = live.steps()
        if steps is not None and now - live.reported_at >= pause:
            live.reported_at = now
            self._say_of(live, "  ".join(step_words(steps, live.plan, now)))

    def _followed(self, run: Run) -> LiveRun:
        if run.run_id not in self._runs:
            self._runs[run.run_id] = LiveRun(run)
            self._several |= len(self._runs) > 1
        return self._runs[run.run_id]

    def _say_of(self, live: LiveRun, text: str) -> None:
        self._say(f"  [{live.run_id}] {text}" if self._several else f"  {text}")

    def _say_tails(self, live: LiveRun) -> None:
        failed = live.failed()
        for replica in failed[:MOST_TAILS]:
            printed = live.output(replica)
            if printed is not None:
                self._say_of(live, f"last lines of {replica}:")
                for text in printed.tail:
                    self._say_of(live, f"  {text}")
        if len(failed) > MOST_TAILS:
            more = f"last lines of {len(failed) - MOST_TAILS} more"
            self._say_of(live, f"{more}: k8sbench logs {live.run_id}")


def step_words(steps: Output, plan: RunPlan, now: float) -> Iterator[str]:
    """Say the latest step in a few words each: where, how fast, the loss, how long still."""
    step = steps.last
    if step is None:
        return
    yield f"step {step_count(steps)}"
    yield f"{rate(step.rate)} {rate_unit(plan)}"
    if step.loss is not None:
        yield f"loss {step.loss:.4g}"
    yield f"ETA {output.duration(steps.remaining(now))}"


def step_count(steps: Output) -> str:
    """Say where a replica is: ``30/100``, ``epoch 2 30/100``."""
    step = steps.last
    if step is None:
        return output.ABSENT
    count = f"{step.iteration}" if step.total is None else f"{step.iteration}/{step.total}"
    return count if step.epoch is None else f"epoch {step.epoch} {count}"


def rate(value: float | None) -> str:
    """Write samples per second: four digits, and all before the point."""
    if value is None:
        return output.ABSENT
    return f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"


def rate_unit(plan: RunPlan) -> str:
    """Say what a rate of the benchmark is: ``samples/s``."""
    return plan.unit if "/" in plan.unit else f"{plan.unit}/s"


def _plan_lines(plan: RunPlan) -> Iterator[str]:
    yield describe(plan)
    for text in plan.notes:
        yield f"  note: {text}"


def _with_cause(phase: Phase, cause: str) -> str:
    return f"{phase}: {cause}" if cause else str(phase)


def _gap(gap: LogGap) -> str:
    after, before = output.stamp(gap.after), output.stamp(gap.before)
    if after and before:
        what = f"lacks lines between {after} and {before}"
    elif after:
        what = f"ends at {after}, before its end"
    elif before:
        what = f"begins at {before}, after its beginning"
    else:
        what = "is missing"
    return f"the log of {gap.replica} {what}: {gap.why}"
