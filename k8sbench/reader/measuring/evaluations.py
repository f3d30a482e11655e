"""Trainings to an accuracy: AI-Rank's lines and our trainers' events.

Time to train follows AI-Rank's definition: its lines say when the test began. Our own events have
the evaluations of all attempts: one that is repeated after a restart counts once, at its first
time. A torn line loses its event, and never yields another number.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import msgspec

from k8sbench.catalog.published import Accuracy
from k8sbench.messages import Note, note
from k8sbench.model import rules
from k8sbench.model.errors import Finding
from k8sbench.model.measurement import AccuracyResult
from k8sbench.model.missing import Missing
from k8sbench.model.sample import Evaluation, Mark, Place
from k8sbench.model.verdict import EVIDENCE
from k8sbench.reader.measuring import evidence

# -- AI-Rank --------------------------------------------------------------------------------------
#
# Its lines are often written by hand, so the time to the target that they claim is not taken.

ROUNDED = 1e-9
"""Percent that a fraction may lose by becoming percent."""
SAME_VALUE = 0.006
"""Difference of one evaluation's two lines, in percent: programs print two decimals."""


class Evaluated(msgspec.Struct, frozen=True):
    """One ``eval_accuracy`` line, or evaluation of our own trainers."""

    at: float
    value: float
    place: Place
    is_whole: bool = True
    """True if all samples were evaluated; else no target is reached."""
    elapsed: float | None = None
    """Seconds since the training's first attempt began, by a clock that nobody sets.

    NaN if they cannot be known; None: the log does not state them.
    """


def reaching(evaluations: Iterable[Evaluated], target: Accuracy | None) -> Evaluated | None:
    """The first of evaluations, in percent, that reaches a target."""
    if target is None:
        return None
    needed = target.percent - ROUNDED
    whole = (evaluated for evaluated in evaluations if evaluated.is_whole)
    return next((evaluated for evaluated in whole if evaluated.value >= needed), None)


class AiRankEvents:
    """AI-Rank events of one run, in the order of the log."""

    def __init__(self) -> None:
        self.begun: Mark | None = None
        self.begun_at: Place | None = None
        self.ended = False
        self.own_time: float | None = None
        """Seconds to the target that the log itself states."""
        self.evaluations: list[Evaluated] = []
        self.samples: tuple[int, Place] | None = None
        """Size of the data set, and the line that states it."""
        self.md5: str | None = None
        """MD5 of the data's archive, as the first ``load_data`` line states it."""

    def add(self, mark: Mark, file: str) -> None:
        """Take an event."""
        event, value, at = mark.values["event"], mark.values["value"], mark.stamp
        place = evidence.place(file, mark.line, mark.text)
        if event == "test_begin" and self.begun is None:
            self.begun, self.begun_at = mark, place
        elif event in {"test_finish", "total_use_time", "target_quality_time"}:
            self.ended = True
            if event == "target_quality_time" and isinstance(value, float):
                self.own_time = value
        elif event == "load_data" and mark.values.get("md5"):
            self.md5 = self.md5 or str(mark.values["md5"])
        elif not isinstance(value, float):
            return
        elif event == "load_data" and self.samples is None:
            self.samples = (int(value), place)
        elif event == "eval_accuracy" and at is not None:
            self.evaluations.append(Evaluated(at, value, place))

    @property
    def accuracy(self) -> AccuracyResult | None:
        """Best and final accuracy by AI-Rank's lines; None without any."""
        values = [evaluated.value for evaluated in self.evaluations]
        if not values:
            return None
        # Some print percent, some fractions; one value above 1 settles it for all.
        return AccuracyResult(
            metric="eval_accuracy",
            best=max(values),
            final=values[-1],
            unit="%" if max(values) > 1 else "fraction",
            evaluations=len(values),
        )

    def completed(self, own: AccuracyResult | None) -> AccuracyResult | None:
        """The program's ``own`` evaluations, with those that only AI-Rank's lines have.

        A log that was stopped at the target may lack the program's line of the last one.
        """
        ours = self.accuracy
        if own is None or ours is None or own.evaluations >= ours.evaluations:
            return own or ours
        values = [evaluated.value for evaluated in self.percent()]
        scale = 100 if own.unit == "fraction" else 1
        for each in (own.best, own.final):
            if not any(math.isclose(each * scale, v, abs_tol=SAME_VALUE) for v in values):
                return own
        return msgspec.structs.replace(
            own,
            best=max(own.best, round(max(values) / scale, 9)),
            final=round(values[-1] / scale, 9),
            evaluations=len(values),
        )

    def percent(self) -> list[Evaluated]:
        """The evaluations in percent: some print it, others fractions, and one above 1 tells."""
        scale = 1 if any(evaluated.value > 1 for evaluated in self.evaluations) else 100
        return [msgspec.structs.replace(e, value=e.value * scale) for e in self.evaluations]

    def time_to_train(self, target: Accuracy | None, reached: Evaluated | None) -> float | Missing:
        """Seconds from ``test_begin`` to the evaluation that reached the target."""
        if self.begun is None or self.begun.stamp is None:
            return Missing(note("no-time-to-train-begin"))
        if target is None:
            return Missing(note("no-time-to-train-target"))
        if reached is None:
            accuracy = f"{target.value:g} {target.unit}"
            return Missing(note("no-time-to-train-not-reached", target=accuracy))
        seconds = reached.at - self.begun.stamp if reached.elapsed is None else reached.elapsed
        if math.isnan(seconds):
            return Missing(note("no-time-to-train-machines"))
        if seconds < 0:
            return Missing(note("no-time-to-train-before-test"))
        return seconds


# -- our own trainers -----------------------------------------------------------------------------


class TrainingFacts:
    """Events of our trainers, except steps."""

    def __init__(self) -> None:
        self.metric: str | None = None
        """Headline metric of the first evaluation; None without any."""
        self.target: float | None = None
        """As the evaluations state it, percent."""
        self.evaluations: dict[int, Evaluated] = {}
        """Iterations before an evaluation → its headline, in percent."""
        self._partial: tuple[Evaluation, Place] | None = None
        """The last evaluation that could not read all of its samples."""
        self._broken: dict[tuple[str, str], Place] = {}
        """Part and path of each sample, and the first line that names it."""
        self._planned: dict[int, Place] = {}
        """Iterations before each planned evaluation, and the line that says so."""
        self._made: set[float | None] = set()
        self._begun: Mark | None = None
        """Begin of the first attempt from scratch."""
        self._before = 0.0
        """Seconds from it to the begin of the last attempt from scratch."""
        self._checkpoints = 0
        self._failed: list[tuple[str, Place]] = []

    @property
    def broken(self) -> int:
        """Different samples that could not be read, on any rank."""
        return len(self._broken)

    def evaluation(self, item: Evaluation, file: str) -> None:
        """Take a figure of an evaluation."""
        self.metric = self.metric or item.metric
        if item.metric != self.metric or item.step is None or item.stamp is None:
            return
        scale = 100 if item.unit == "fraction" else 1
        place = evidence.place(file, item.line, item.text)
        if item.target is not None:
            self.target = item.target * scale
        is_whole = item.of is None or item.samples is None or item.samples >= item.of
        if not is_whole:
            self._partial = (item, place)
        elapsed = None if item.elapsed is None else self._before + item.elapsed
        evaluated = Evaluated(item.stamp, item.value * scale, place, is_whole, elapsed)
        self.evaluations.setdefault(item.step, evaluated)

    def mark(self, mark: Mark, file: str) -> None:
        """Take an event between the steps."""
        values = mark.values
        place = evidence.place(file, mark.line, mark.text)
        if mark.kind == "broken":
            self._broken.setdefault((str(values.get("part")), str(values.get("path"))), place)
        elif mark.kind == "checkpoint":
            self._checkpoints += 1
            if values.get("failed"):
                self._failed.append((str(values["failed"]), place))
        elif mark.kind == "evaluates":
            self.plans(mark, file)
        elif mark.kind == "evaluation":
            self._made.add(mark.number("step"))
        elif mark.kind == "begin":
            self._begin(mark)

    def plans(self, mark: Mark, file: str) -> None:
        """Take a line after whose last iteration an evaluation is planned."""
        steps = mark.number("step") or mark.number("steps")
        if steps is not None:
            self._planned[int(steps)] = evidence.place(file, mark.line, mark.text)

    def _begin(self, mark: Mark) -> None:
        """Take the begin of an attempt from scratch, which counts from its own begin."""
        first = self._begun = self._begun or mark
        boot = mark.values.get("boot")
        same = boot is not None and boot == first.values.get("boot")  # machine, and its clock
        began, again = (each.number("clock") if same else each.stamp for each in (first, mark))
        self._before = math.nan
        if began is not None and again is not None and again >= began:
            self._before = again - began

    def reasons(self) -> Iterator[Finding]:
        """Yield findings on evaluations, broken samples and failed checkpoints."""
        missing = {step: place for step, place in self._planned.items() if step not in self._made}
        if missing:
            counts = {"missing": len(missing), "planned": len(self._planned)}
            said = note("evaluation-missing", step=min(missing), **counts)
            yield rules.EVALUATION_MISSING.finding(said, list(missing.values()))
        if self._broken or self._partial is not None:
            yield rules.BROKEN_SAMPLES.finding(self._broken_samples(), self._broken_places())
        if self._failed:
            why, _ = self._failed[-1]
            said = note(
                "checkpoint-failed",
                failed=len(self._failed),
                checkpoints=self._checkpoints,
                why=evidence.redact(why).rstrip("."),
            )
            yield rules.CHECKPOINT_FAILED.finding(said, [place for _, place in self._failed])

    def _broken_samples(self) -> Note:
        parts = [part for part, _ in self._broken]
        by_part = tuple(
            note("broken-samples-part", broken=parts.count(part), part=part)
            for part in sorted(set(parts))
        )
        broken = note("broken-samples", parts=by_part)
        if self._partial is None:
            return broken
        last = self._partial[0]
        partial = note(
            "broken-samples-evaluation",
            step=str(last.step),
            samples=str(last.samples),
            of=str(last.of),
        )
        return note("two-sentences", one=broken, other=partial) if parts else partial

    def _broken_places(self) -> list[Place]:
        partial = [] if self._partial is None else [self._partial[1]]
        return [*list(self._broken.values())[: EVIDENCE - len(partial)], *partial]


class Evaluations(msgspec.Struct):
    """Evaluations of one metric on one data set."""

    metric: str
    unit: str
    best: float = -math.inf
    final: float = 0.0
    count: int = 0
    records_before: int = -1
    """Records before the last evaluation."""
    steps: set[int] = set()
    """Iterations before each of them, where lines state them."""

    def add(self, value: float, records_before: int, step: int | None) -> None:
        """Add an evaluation; ignore repetitions and other ranks' lines."""
        if step in self.steps or (step is None and records_before == self.records_before):
            return
        if step is not None:
            self.steps.add(step)
        self.records_before = records_before
        self.count += 1
        self.final = value
        self.best = value if self.count == 1 else max(self.best, value)

    @property
    def result(self) -> AccuracyResult:
        """Best and final value."""
        return AccuracyResult(
            metric=self.metric,
            best=self.best,
            final=self.final,
            unit=self.unit,
            evaluations=self.count,
        )
