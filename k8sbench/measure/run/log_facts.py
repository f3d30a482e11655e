"""What one run's logs say, read in one pass: facts, records by rank, evaluations, marks.

Decides nothing; :mod:`k8sbench.measure.run.integrity` and :mod:`k8sbench.measure.run.measuring`
do, when the pass is over.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import msgspec

from k8sbench.measure.run import airank, redaction
from k8sbench.measure.run.clocks import Clock
from k8sbench.measure.run.expectation import Expectation
from k8sbench.measure.run.rank_series import RankSeries, Window
from k8sbench.model.measurement import AccuracyResult, RankTimes
from k8sbench.model.sample import Evaluation, Fact, Item, Mark, Place, Record
from k8sbench.model.spec import LogFormat
from k8sbench.parse import declared
from k8sbench.parse.families import FAMILIES
from k8sbench.parse.family import Family
from k8sbench.parse.reading import OURS, Log

RANKS = 4096
"""Ranks that are kept apart; more is no job but a broken log."""
VALUES = 16
"""Different values of one fact that are kept."""


class Source(Protocol):
    """One log file, opened: its lines can be taken once."""

    name: str
    cut_lines: int
    """Lines longer than the reader's limit so far."""

    def __iter__(self) -> Iterator[tuple[int, str]]:
        """Line numbers from 1, and lines without their ends."""


class Known(msgspec.Struct, frozen=True):
    """A fact, and where the log says it."""

    value: str
    place: Place


class Series:
    """Evaluations of one metric on one data set."""

    __slots__ = ("best", "count", "final", "metric", "seen_at", "unit")

    def __init__(self, first: Evaluation) -> None:
        self.metric = f"{first.metric} {first.subset}".strip()
        self.unit = first.unit
        self.best = first.value
        self.final = first.value
        self.count = 0
        self.seen_at = -1

    def add(self, value: float, seen_at: int) -> None:
        """Add an evaluation; ``seen_at`` counts the records before it."""
        if seen_at == self.seen_at and self.count:
            # Every rank prints the evaluation that all of them did together.
            return
        self.seen_at = seen_at
        self.count += 1
        self.final = value
        self.best = max(self.best, value)

    @property
    def result(self) -> AccuracyResult:
        """What these evaluations reached."""
        return AccuracyResult(
            metric=self.metric,
            best=self.best,
            final=self.final,
            unit=self.unit,
            evaluations=self.count,
        )


class EpochEnd(msgspec.Struct, frozen=True):
    """What the log says of an epoch as a whole, beside what its records said."""

    mark: Mark
    file: str
    mean_rate: float | None
    """Mean of the epoch's printed rates."""
    last: Record | None
    records: int


class LogFacts:
    """Everything that is known of a run once its logs are read."""

    def __init__(self, candidates: Sequence[Expectation]) -> None:
        self.candidates = candidates
        self.families = [_family(each) for each in candidates]
        self.family: Family | None = None
        self.expected: Expectation = candidates[0]
        self.files: list[str] = []
        self.lines = 0
        self.cut_lines: list[tuple[str, int]] = []
        self.looks_like: tuple[str, Family, int, str] | None = None
        self.head_of: tuple[str, Family] | None = None
        self.facts: dict[str, Known] = {}
        self.values: dict[str, dict[str, Place]] = {}
        self.series_by_rank: dict[str, RankSeries] = {}
        self.window: Window | None = None
        self.evaluations: dict[tuple[str, str], Series] = {}
        self.airank = airank.Events()
        self.started: set[int] = set()
        self.rank_times: dict[int, RankTimes] = {}
        self.clocks: dict[int, Clock] = {}
        self.summary: tuple[Mark, str] | None = None
        self.whole_run: tuple[Mark, str] | None = None
        self.epoch_ends: list[EpochEnd] = []
        self.finished = False
        self.restarts: list[Place] = []
        self._events = 0
        self._events_seen: dict[str, int] = {}
        self._restarts = 0
        self._restarts_seen: dict[str, int] = {}
        self._records = 0
        self._logger: float | None = None
        self._open = False

    def read(self, source: Source) -> None:
        """Read one log; the second and later ones must be of the first one's family."""
        families = [self.family] if self.family is not None else _unique(self.families)
        log = Log(source, families)
        later = self._records > 0
        if later and self.family is not OURS:
            # Another rank's file or the next piece of a resumed run: the records tell which.
            self._restarts += 1
        self.files.append(source.name)
        for item in log:
            if self.family is None and log.family is not None:
                self.family = log.family
            self._take(item, source.name)
        self.lines += log.lines
        if source.cut_lines:
            self.cut_lines.append((source.name, source.cut_lines))
        if log.family is None:
            if self.looks_like is None and log.looks_like is not None:
                self.looks_like = (source.name, *log.looks_like)
            if self.head_of is None and log.head_of is not None:
                self.head_of = (source.name, log.head_of)

    def close(self) -> None:
        """All logs are read."""
        for series in self.series_by_rank.values():
            series.close()
        self._settle()

    @property
    def series(self) -> RankSeries | None:
        """The rank whose records are the job's: the most counted records, then the lowest rank."""
        if not self.series_by_rank:
            return None
        return min(
            self.series_by_rank.values(),
            key=lambda t: (-t.tally.records, -t.all_records, len(t.source), t.source),
        )

    def fact(self, name: str) -> str | None:
        """What the log says; None where it says nothing."""
        known = self.facts.get(name)
        return known.value if known else None

    def whole(self, name: str) -> int | None:
        """The same, as a whole number."""
        value = self.fact(name)
        try:
            return None if value is None else int(float(value))
        except (ValueError, OverflowError):
            return None

    def place(self, name: str) -> list[Place]:
        """Where the log says it."""
        known = self.facts.get(name)
        return [known.place] if known else []

    @property
    def accuracy(self) -> AccuracyResult | None:
        """The program's own evaluations, of the metric that it prints first."""
        return next((series.result for series in self.evaluations.values()), None)

    def _take(self, item: Item, file: str) -> None:
        if isinstance(item, Record):
            self._record(item, file)
        elif isinstance(item, Fact):
            self._fact(item, file)
        elif isinstance(item, Evaluation):
            series = self.evaluations.setdefault((item.metric, item.subset), Series(item))
            series.add(item.value, self._records)
            self._logger = item.stamp or self._logger
        else:
            self._mark(item, file)

    def _record(self, record: Record, file: str) -> None:
        source = record.source
        series = self.series_by_rank.get(source)
        if series is None:
            if len(self.series_by_rank) >= RANKS:
                return
            if self.window is None:
                self._settle()
            assert self.window is not None
            series = self.series_by_rank[source] = RankSeries(record, self.window, source)
        elif record.shape is not series.shape and record.shape.numbering != series.shape.numbering:
            # Lines of another generation's shape: another run's, and no part of this one.
            series.odd.back.add(file, record, series.position)
            return
        events, restarts = self._events, self._restarts
        series.add(
            record,
            file,
            events=self._events_seen.get(source, 0) != events,
            restart=self._restarts_seen.get(source, 0) != restarts,
        )
        self._events_seen[source] = events
        self._restarts_seen[source] = restarts
        self._records += 1
        if record.stamp is not None and record.shape.dated:
            self._logger = record.stamp

    def _fact(self, fact: Fact, file: str) -> None:
        place = redaction.place(file, fact.line, fact.text)
        if fact.name not in self.facts:
            self.facts[fact.name] = Known(redaction.redact(fact.value), place)
        values = self.values.setdefault(fact.name, {})
        if len(values) < VALUES:
            values.setdefault(fact.value, place)

    def _mark(self, mark: Mark, file: str) -> None:
        kind = mark.kind
        if kind in {"evaluation", "checkpoint"}:
            self._events += 1
            iteration = mark.values.get("iteration")
            if isinstance(iteration, float):
                for series in self.series_by_rank.values():
                    series.end_epoch_at(int(iteration))
        elif kind == "airank":
            self.airank.take(mark, file, self._logger)
        elif kind == "start":
            self._start(mark, file)
        elif kind == "restart":
            self._restarts += 1
            self._note_restart(mark, file)
        elif kind == "rank":
            self._rank(mark, file)
        elif kind == "epoch-end":
            self._epoch_end(mark, file)
        elif kind == "summary":
            self.finished |= mark.values.get("status") == "finished"
            if "whole_run_rate" in mark.values:
                self.whole_run = (mark, file)
            else:
                self.summary = (mark, file)
        elif kind == "finished":
            self.finished = True

    def _start(self, mark: Mark, file: str) -> None:
        rank = int(mark.values["rank"] or 0)
        if rank in self.started and rank == 0:
            # The replica's container was started again; the trainers begin from the first step.
            self._restarts += 1
            self._note_restart(mark, file)
        if len(self.started) < RANKS:
            self.started.add(rank)

    def _note_restart(self, mark: Mark, file: str) -> None:
        if len(self.restarts) < VALUES:
            self.restarts.append(redaction.place(file, mark.line, mark.text))

    def _rank(self, mark: Mark, file: str) -> None:
        self._clock(mark, file)
        values = mark.values
        numbers = [values.get(name) for name in ("rank", "mean", "median", "p95", "max")]
        if not all(isinstance(number, float) for number in numbers):
            return
        rank, mean, median, p95, largest = (float(number or 0) for number in numbers)
        host = values.get("host")
        if len(self.rank_times) < RANKS:
            self.rank_times[int(rank)] = RankTimes(
                rank=int(rank),
                host=redaction.redact(str(host)) if host else None,
                mean=mean,
                median=median,
                p95=p95,
                max=largest,
            )

    def _clock(self, mark: Mark, file: str) -> None:
        rank, host = mark.values.get("rank"), mark.values.get("host")
        mhz, bits = (mark.values.get(name) for name in ("clock_sm_mhz", "throttle_reasons"))
        if not isinstance(rank, float) or len(self.clocks) >= RANKS:
            return
        self.clocks[int(rank)] = Clock(
            host=redaction.redact(str(host)) if host else None,
            mhz=mhz if isinstance(mhz, float) else None,
            held_by=int(bits) if isinstance(bits, float) and math.isfinite(bits) else None,
            place=redaction.place(file, mark.line, mark.text),
        )

    def _epoch_end(self, mark: Mark, file: str) -> None:
        series = self.series_by_rank.get(mark.source) or self.series
        if series is None or len(self.epoch_ends) >= RANKS:
            return
        epoch = series.epoch
        if epoch.number != mark.values.get("epoch") or not epoch.complete:
            return
        self.epoch_ends.append(
            EpochEnd(
                mark,
                file,
                epoch.rates / epoch.records if epoch.records else None,
                epoch.last,
                epoch.records,
            )
        )

    def _settle(self) -> None:
        """Decide what the log is measured by, now that its head is known."""
        if self.window is not None:
            return
        self.expected = expected = self._choose()
        warmup, iterations = expected.warmup, expected.iterations
        if self.family is OURS and (warmup is None or expected.window_by_catalog):
            # Our own logs say what window was planned; a catalog's default knows less.
            warmup = self.whole("warmup")
            iterations = self.whole("iterations") if warmup is not None else None
        self.window = Window(warmup or 0, iterations)

    def _choose(self) -> Expectation:
        if self.family is OURS:
            mine = [
                each for each in self.candidates if each.framework in {None, self.fact("framework")}
            ]
            exact = [each for each in mine if each.variant in {None, self.fact("variant")}]
            return (exact or mine or list(self.candidates))[0]
        for each, family in zip(self.candidates, self.families, strict=True):
            if self.family is not None and family.name == self.family.name:
                return each
        return self.candidates[0]


def _family(expected: Expectation) -> Family:
    if isinstance(expected.format, LogFormat):
        return declared.family(expected.format, expected.framework)
    return FAMILIES[expected.format]


def _unique(families: Iterable[Family]) -> list[Family]:
    return list({family.name: family for family in families}.values())
