"""Progress of runs as plain lines, or as a log.

Plain lines go to stderr, as CI logs want them: changes of state, notes, a step every few seconds,
and the last lines of replicas that failed. On a terminal :mod:`k8sbench.cli.terminal.display` draws
the state of the runs as well.
"""

from __future__ import annotations

import datetime
import logging
from collections import Counter
from collections.abc import Iterator

import msgspec

from k8sbench.catalog.planning import describe_plan
from k8sbench.cli.terminal import output
from k8sbench.cli.terminal.live import LiveRun, Output, Sweep
from k8sbench.model import times
from k8sbench.model.masking import masked
from k8sbench.model.measurement import Measurement
from k8sbench.model.phase import Phase
from k8sbench.model.plain_text import ABSENT, clean, clean_lines
from k8sbench.model.plan import SMOKE_MARK, RunPlan
from k8sbench.model.run import Run
from k8sbench.model.sample import LogGap
from k8sbench.model.times import Clock
from k8sbench.ports.cluster import JobEvent
from k8sbench.results.report import formats, group_words

QUIET_SECONDS = 5.0
"""Between two plain lines about steps of one run."""
STEP_LINES_PER_SECOND = 2.0
"""Plain lines about steps, of all runs together."""
SILENT_SECONDS = 30.0
"""Seconds without output after which the silence is shown."""
MOST_TAILS = 3
"""Maximum failed replicas with last lines; the others mostly report the lost peers."""


class Progress:
    """Reports on any number of runs in plain lines; a ``k8sbench.lifecycle.context.Reporter``."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._runs: dict[str, LiveRun] = {}
        """Active runs, in the order of their first event."""
        self.ended_runs: Counter[Phase] = Counter()
        self.left: set[str] = set()
        """Ids of runs that are no longer followed, but need collection."""
        self._several = False
        """True once several runs were active: each line then names its run."""
        self._printed_plan = ""
        self._printed_notes: set[str] = set()
        self._sweep: Sweep | None = None
        """Progress of several runs; None for one run."""

    def plan(self, plan: RunPlan) -> None:
        """Print the plan line unless just printed, and new notes."""
        described = describe_plan(plan)
        if described != self._printed_plan:  # repeats of a case share one plan
            self.note(described)
        self._printed_plan = described
        for note in plan.notes:
            if note not in self._printed_notes:
                self._printed_notes.add(note)
                self.note(f"  note: {note}")

    def expect(self, to_come: int, finished: int, parallel: int) -> None:
        """Count the runs of a sweep from now on."""
        if to_come > 1:
            self._sweep = Sweep(to_come, finished, parallel)

    def planned(self, run: Run) -> None:
        """Print the plan line, the notes and the run id, before anything is created."""
        if self._sweep is not None:
            self._sweep.began(run, self._clock())
        self.plan(run.plan)
        self.note(f"run {run.run_id} (set {run.set_name}, repeat {run.repeat})")
        live = self._followed(run)
        if len(run.history) > 1:  # it is resumed
            self._print(live, _with_cause(live.phase, live.state.cause))

    def on_event(self, run: Run, event: JobEvent) -> None:
        """Print a change of state, a gap, a note or a step."""
        live = self._followed(run)
        before = live.state
        if live.take(event):
            self._stepped(live)
        if event.transition is not None:
            now = event.transition
            if (now.phase, now.cause) == (before.phase, before.cause):
                return  # only whether it can recover has changed
            self._print(live, _with_cause(now.phase, now.cause))
            if now.action:
                self._print(live, f"  {now.action}")
            if now.phase is Phase.FAILED:
                self._print_tails(live)
        elif event.gap is not None:
            self._print(live, _gap(event.gap))
        elif event.note is not None:
            self._print(live, event.note)

    def ended(self, run: Run) -> None:
        """Print the figure and the verdict; forget the run."""
        live = self._followed(run)
        if run.measurement is not None and self._sweep is None:
            self._print(live, figure_words(run.measurement, run.plan))
        for reason in run.measurement.reasons if run.measurement is not None else ():
            mark = " (accepted)" if reason.accepted else ""
            self._print(live, f"{reason.severity} {reason.id}{mark}: {reason.sentence}")
        del self._runs[run.run_id]
        if self._sweep is not None:
            self._sweep.closed(run, self._clock())
            self._swept(run, self._sweep)
        if run.phase.final:
            self.ended_runs[run.phase] += 1
        else:
            self.left.add(run.run_id)

    def note(self, text: str) -> None:
        """Print one line."""
        output.note(clean(text))

    def close(self) -> None:
        """Restore the terminal; idempotent. Later reports are printed as lines."""

    def _swept(self, run: Run, sweep: Sweep) -> None:
        """Print the result of a sweep's run, and the sweep's progress."""
        plan, measured = run.plan, run.measurement
        node = f" on {plan.node}" if plan.node is not None else ""
        case = f"{plan.benchmark} {plan.framework} {plan.precision} {plan.case}{node}"
        what = str(run.phase) if measured is None else measured.verdict
        if measured is not None and measured.rate is not None:
            what = f"{formats.rate(measured.rate)} {plan.rate_unit}"
        self.note(f"{sweep_words(sweep, self._clock())}; {case}, repeat {plan.repeat}: {what}")

    def _stepped(self, live: LiveRun) -> None:
        """Print a run's new step, but not too often."""
        now = self._clock()
        pause = max(QUIET_SECONDS, len(self._runs) / STEP_LINES_PER_SECOND)
        if now - live.reported_at >= pause and (steps := live.steps()) is not None:
            live.reported_at = now
            self._print(live, "  ".join(step_words(steps, live.plan, now)))

    def _followed(self, run: Run) -> LiveRun:
        if run.run_id not in self._runs:
            self._runs[run.run_id] = LiveRun(run)
            self.left.discard(run.run_id)
            self._several |= len(self._runs) > 1
        self._runs[run.run_id].replan(run.plan)
        return self._runs[run.run_id]

    def _print(self, live: LiveRun, text: str) -> None:
        self.note(f"  [{live.run_id}] {text}" if self._several else f"  {text}")

    def _print_tails(self, live: LiveRun) -> None:
        failed = live.failed()
        for replica in failed[:MOST_TAILS]:
            printed = live.output(replica)
            if printed is not None:
                self._print(live, f"last lines of {replica}:")
                # Together: a private key has several lines.
                for text in masked("\n".join(printed.tail)).split("\n"):
                    self._print(live, f"  {text}")
        more = len(failed) - MOST_TAILS
        what = f"last lines of {more} more" if more > 0 else "all lines"
        self._print(live, f"{what}: k8sbench logs {live.run_id}")


def sweep_words(sweep: Sweep, now: float) -> str:
    """Write a sweep's progress: ``7 of 20 ended, about 40m left …``."""
    words = f"{sweep.ended} of {sweep.wanted} ended"
    seconds = sweep.remaining(now)
    if sweep.ended >= sweep.wanted:
        return words
    if seconds is None:
        return f"{words}, no estimate yet of the time left"
    return f"{words}, about {times.duration(seconds)} left (estimated from their times)"


def figure_words(measured: Measurement, plan: RunPlan | None) -> str:
    """Describe a measurement: figure, estimator, verdict, smoke mark."""
    rate, figure = measured.rate, measured.throughput
    text = "no figure"
    if rate is not None and figure is not None:
        text = f"{formats.rate(rate)} {figure.unit} ({measured.estimator})"
    smoke = f", smoke: {SMOKE_MARK}" if plan and plan.preset == "smoke" else ""
    trained = f", trained to {words}" if (words := group_words.trained(measured)) else ""
    return f"measured {text}{trained}, {measured.verdict}{smoke}"


def step_words(steps: Output, plan: RunPlan, now: float) -> Iterator[str]:
    """Yield the latest step's number, rate, loss and remaining time."""
    step = steps.last
    if step is None:
        return
    yield f"step {step_count(steps)}"
    yield f"{rate(steps.rate)} {plan.rate_unit}"
    if step.loss is not None:
        yield f"loss {step.loss:.4g}"
    if steps.evaluation is not None:
        percent = " %" if steps.evaluation.unit == "%" else ""
        yield f"{steps.evaluation.metric} {steps.evaluation.value:.4g}{percent}"
    yield f"ETA {times.duration(steps.remaining(now))}"


def step_count(steps: Output) -> str | None:
    """Write the latest step's number: ``30/100``, ``epoch 2 30/100``; None before the first."""
    step = steps.last
    if step is None:
        return None
    count = f"{step.iteration}" if step.total is None else f"{step.iteration}/{step.total}"
    return f"epoch {step.epoch or 0} {count}" if step.shape.numbering == "epoch" else count


def rate(value: float | None) -> str:
    """Write samples per second with four digits, and all digits before the point."""
    if value is None:
        return ABSENT
    return f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"


def _with_cause(phase: Phase, cause: str) -> str:
    return f"{phase}: {cause}" if cause else str(phase)


def _gap(gap: LogGap) -> str:
    after = output.stamp(gap.after) or "its beginning"
    before = output.stamp(gap.before) or "its end"
    return f"the log of {gap.replica} lacks lines between {after} and {before}: {gap.why}"


# -- log of an unattended process: a line per report, with time, level and run ---------------------


LOG_FORMATS = ("text", "json")
LOG = logging.getLogger("k8sbench")
_LEVELS = {"warning": logging.WARNING, "error": logging.ERROR}
"""First word of a note → level; others are INFO."""


class LogLines(Progress):
    """Reports on runs, and on the HTTP server, as log lines on stderr."""

    def __init__(self, clock: Clock, form: str) -> None:
        super().__init__(clock)
        handler = logging.StreamHandler()
        handler.setFormatter(_Line(form))
        level = logging.WARNING if output.quiet else logging.INFO
        logging.basicConfig(level=level, handlers=[handler], force=True)

    def planned(self, run: Run) -> None:
        """Log which run is followed from now on."""
        where = f"set {run.set_name}, repeat {run.repeat}"
        self._print(self._followed(run), f"{run.phase}: {describe_plan(run.plan)} ({where})")

    def on_event(self, run: Run, event: JobEvent) -> None:
        """Log a change; output of programs is archived and not logged."""
        if event.line is None:
            super().on_event(run, event)

    def note(self, text: str) -> None:
        """Log one line."""
        _log(text)

    def _print(self, live: LiveRun, text: str) -> None:
        _log(text, live.run_id)


def _log(text: str, run_id: str = "") -> None:
    word, colon, rest = text.strip().partition(": ")
    level = _LEVELS.get(word) if colon else None
    LOG.log(level or logging.INFO, "%s", rest if level else text.strip(), extra={"run": run_id})


class _Line(logging.Formatter):
    """Writes a record as one line."""

    def __init__(self, form: str) -> None:
        super().__init__()
        self._is_json = form == "json"

    def format(self, record: logging.LogRecord) -> str:
        """Write time, level, run and message."""
        at = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
        text = record.getMessage()
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        fields = {
            "time": at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "level": record.levelname.lower(),
            "run": getattr(record, "run", ""),
            "message": masked(clean_lines(text)),
        }
        if self._is_json:
            return msgspec.json.encode(fields).decode()
        fields["run"] = fields["run"] and f"run={fields['run']}"
        return clean(" ".join(filter(None, fields.values())))
