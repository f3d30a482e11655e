"""The contents of one run's logs, read in one pass: facts, records by rank, evaluations, marks.

This module decides nothing: :mod:`k8sbench.measure.run.integrity` and
:mod:`k8sbench.measure.run.measuring` do, when the pass is over.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Protocol

import msgspec

from k8sbench.measure.run import airank, redaction
from k8sbench.measure.run.clocks import Clock
from k8sbench.measure.run.evaluations import Evaluations
from k8sbench.measure.run.expectation import Expectation
from k8sbench.measure.run.rank_series import RankSeries
from k8sbench.measure.run.tally import Window
from k8sbench.measure.run.trainer_series import TrainerSeries
from k8sbench.measure.run.training import Training
from k8sbench.model.measurement import AccuracyResult, RankTimes, SteadyPart
from k8sbench.model.sample import Evaluation, Fact, GpuSamples, Item, Mark, Place, Record
from k8sbench.model.spec import LogFormat
from k8sbench.parse import declared, stamps
from k8sbench.parse.families import FAMILIES
from k8sbench.parse.family import Family, number_in
from k8sbench.parse.reading import OURS, Log
from k8sbench.parse.together import Together

RANKS = 4096
"""Ranks whose records are kept apart; a log that names more is broken."""
VALUES = 16
"""Different values of one fact that are kept."""
STAMP = 40
"""Characters that a line's time stamp is within."""
FEW = 16
"""Records that are not worth taking together."""
PAUSE = 15
"""Blocks whose records are taken one by one, after one with few ordinary ones."""
SAME_RUN = ("model", "gpus", "batch_size", "precision")
"""Facts that no restart changes."""
_TIMES = ("mean", "median", "p95", "max")


class Source(Protocol):
    """One log file, opened: its lines can be taken once."""

    name: str
    cut_lines: int
    """Lines longer than the reader's limit so far."""

    def __iter__(self) -> Iterator[str]:
        """Whole lines with their ends, in blocks of one or many; none is longer than 64 KiB."""


class EpochEnd(msgspec.Struct, frozen=True):
    """The log's own summary of an epoch, and figures of that epoch's records."""

    mark: Mark
    file: str
    mean_rate: float
    """Mean of the epoch's printed rates; 0 where none is printed."""
    last: Record
    records: int
    fits: bool
    """Whether its number of steps, if it has one, follows from the records."""

    @property
    def place(self) -> Place:
        """The line as evidence."""
        return redaction.place(self.file, self.mark.line, self.mark.text)


class LogFacts:
    """All facts, records and events of a run's logs, once they are read."""

    def __init__(self, candidates: Sequence[Expectation]) -> None:
        self.candidates = candidates
        self.families = [_family(each) for each in candidates]
        self.family: Family | None = None
        self.expected: Expectation = candidates[0]
        self.files: list[str] = []
        self.empty = True
        self.cut_lines: list[tuple[str, int]] = []
        self.looks_like: tuple[str, Family, int, str] | None = None
        self.head_of: tuple[str, Family] | None = None
        self.facts: defaultdict[str, dict[str, Place]] = defaultdict(dict)
        """Name → the values that the log states, the first one first, and where each stands."""
        self.series_by_rank: dict[str, RankSeries] = {}
        self.window: Window | None = None
        self.evaluations: dict[tuple[str, str], Evaluations] = {}
        self.airank = airank.Events()
        self.training = Training()
        self.started: set[int] = set()
        self.rank_times: dict[int, RankTimes] = {}
        self.clocks: dict[int, Clock] = {}
        self.gpu_series = TrainerSeries()
        self.summary: tuple[Mark, str] | None = None
        self.whole_run: tuple[Mark, str] | None = None
        self.epoch_ends: list[EpochEnd] = []
        self.unread: dict[str, tuple[str, Place, int]] = {}
        """Group of a declared format → the first text of it that is no number, and how many."""
        self.finished = False
        self.restarts: list[Place] = []
        """The first of them."""
        self.restarted = 0
        """How often."""
        self.other_runs: list[tuple[str, list[Place]]] = []
        """What shows that the log holds another run, and the lines that do."""
        self.shares: dict[str, dict[str, tuple[int, int]]] = {}
        """File → rank → its records, and those of them that led further."""
        self._events = 0
        self._restarts = 0
        self._resumed = 0
        self._before: dict[str, tuple[int, int, int]] = {}
        """By rank, the events, restarts and resumptions before its last record."""
        self._header: Place | None = None
        self._anew: dict[str, tuple[str, Place]] | None = None
        """Facts of a further header, name and value; None: there was none since the last record."""
        self._records = 0
        self._pause = 0
        self._logger: float | None = None
        self._block = ""
        """The lines that are being read."""
        self._found_in: dict[str, list[tuple[str, str]]] = {}
        """By rank, of the last record before the window, or of its first, and of the last one of
        all: the lines that it was among, and its own."""
        self._gpu_uuids: dict[str, None] = {}

    def read(self, source: Source) -> None:
        """Read one log; the second and later ones must be of the first one's family."""
        families = {each.name: each for each in self.families}
        log = Log(
            self._blocks(source),
            [self.family] if self.family is not None else list(families.values()),
        )
        if self._records and self.family is not OURS:
            # Another rank's file or the next piece of a resumed run: the records show which.
            self._restarts += 1
            self._anew = {}
        self.files.append(source.name)
        before = {rank: (each.seen, each.all_records) for rank, each in self.series_by_rank.items()}
        for found in log.together():
            if self.family is None:
                self.family = log.family
            if isinstance(found, Together):
                self._take_together(found, source.name)
            else:
                self._take(found, source.name)
        self.empty &= log.empty
        self.shares[source.name] = {
            rank: (each.seen - seen, each.all_records - further)
            for rank, each in self.series_by_rank.items()
            for seen, further in [before.get(rank, (0, 0))]
        }
        if source.cut_lines:
            self.cut_lines.append((source.name, source.cut_lines))
        if log.family is None:
            if self.looks_like is None and log.looks_like is not None:
                self.looks_like = (source.name, *log.looks_like)
            if self.head_of is None and log.head_of is not None:
                self.head_of = (source.name, log.head_of)

    def _blocks(self, source: Source) -> Iterator[str]:
        for block in source:
            self._block = block
            yield block

    def close(self) -> None:
        """All logs are read."""
        for series in self.series_by_rank.values():
            series.close()
        self._choose_window()

    @property
    def series(self) -> RankSeries | None:
        """The rank whose records are the job's: the most counted records, then the lowest rank."""
        return min(
            self.series_by_rank.values(),
            key=lambda t: (-t.tally.records, -t.all_records, len(t.source), t.source),
            default=None,
        )

    @property
    def steady(self) -> SteadyPart | None:
        """From the end of the warm-up to the last step.

        Other programs print times in a zone that they do not name: theirs are those at which lines
        were received, where the archive has them.
        """
        if self.series is None:
            return None
        began, ended = (_received_at(*each) for each in self._found_in[self.series.source])
        if self.family is OURS:
            (began, _), ended = self.series.tally.stamps, self.series.last_stamp
        if began is None or ended is None or ended <= began:
            return None
        return SteadyPart(started_at=began, ended_at=ended, gpu_uuids=tuple(self._gpu_uuids))

    @property
    def trains(self) -> bool:
        """Whether the program trains to an accuracy: it measures all steps after the warm-up."""
        return self.fact("mode") == "train"

    def fact(self, name: str) -> str | None:
        """The first value that the log states; None if it states none."""
        return next(iter(self.facts.get(name, ())), None)

    def number(self, name: str) -> float | None:
        """The same, as a finite number."""
        value = number_in(self.fact(name))
        return value if value is not None and math.isfinite(value) else None

    def whole(self, name: str) -> int | None:
        """The same, as a whole number."""
        value = self.number(name)
        return None if value is None else int(value)

    def place(self, name: str) -> list[Place]:
        """Where the log states it."""
        return list(self.facts.get(name, {}).values())[:1]

    @property
    def repeats(self) -> list[str]:
        """Files whose records are all of iterations that earlier files have."""
        rank = self.series.source if self.series else ""
        shares = {file: each.get(rank, (0, 0)) for file, each in self.shares.items()}
        return [file for file, (seen, further) in shares.items() if seen and not further]

    @property
    def accuracy(self) -> AccuracyResult | None:
        """The program's own evaluations, of the metric that it prints first."""
        return next((each.result for each in self.evaluations.values()), None)

    def _take(self, item: Item, file: str) -> None:
        if isinstance(item, Record):
            self._record(item, file)
        elif isinstance(item, Fact):
            self._fact(item, redaction.place(file, item.line, item.text))
        elif isinstance(item, Evaluation):
            name = f"{item.metric} {item.subset}".strip()
            key = (item.metric, item.subset)
            evaluations = self.evaluations.setdefault(key, Evaluations(name, item.unit))
            evaluations.add(item.value, self._records, item.step)
            self._logger = item.stamp or self._logger
            if self.family is OURS:
                self.training.evaluation(item, file)
        elif isinstance(item, GpuSamples) or item.kind == "gpu":
            self.gpu_series.take(item, file)
        else:
            self._mark(item, file)

    def _take_together(self, some: Together, file: str) -> None:
        """Take records together where they are ordinary; leave it for a while where few are."""
        if self._pause:
            self._pause -= 1
            for item in some:
                self._take(item, file)
        elif self._taken_together(some, file) < len(some) / 2 and len(some) > FEW:
            self._pause = PAUSE

    def _taken_together(self, some: Together, file: str) -> int:
        """Take records together, those of a part of them if not all, or else one by one."""
        if self._records_together(some, file):
            return len(some)
        if len(some) > FEW:
            return sum([self._taken_together(part, file) for part in some.parts()])
        for item in some:
            self._take(item, file)
        return 0

    def _records_together(self, some: Together, file: str) -> bool:
        series = self.series_by_rank.get("")
        before = (self._events, self._restarts, self._resumed)
        if series is None or self._anew is not None or self._before.get("", (0, 0, 0)) != before:
            return False
        columns = some.columns() if len(some) else None
        if columns is None or columns.total != series.total:
            return False
        if not series.add_together(columns, some.record, file):
            return False
        self._records += len(some)
        self._found_in[""][1] = (self._block, columns.texts[-1])
        if columns.shape.dated:
            self._logger = series.last_stamp
        return True

    def _fact(self, fact: Fact, place: Place) -> None:
        value = redaction.redact(fact.value)
        if fact.name == "gpu_uuid" and len(self._gpu_uuids) < RANKS:
            self._gpu_uuids[value] = None
        if self._anew is not None and fact.name not in self._anew:
            self._anew[fact.name] = (value, place)
        if self._anew is None or fact.name not in self.facts:
            values = self.facts[fact.name]
            if len(values) < VALUES:
                values.setdefault(value, place)

    def _record(self, record: Record, file: str) -> None:
        source = record.source
        series = self.series_by_rank.get(source)
        if series is None:
            if len(self.series_by_rank) >= RANKS:
                return
            window = self._choose_window()
            series = self.series_by_rank[source] = RankSeries(record, window, source)
        elif record.shape is not series.shape and record.shape.numbering != series.shape.numbering:
            # Lines of another generation's shape: another run's, and no part of this one.
            series.odd["back"].add(file, record, series.position)
            return
        events, restarts, resumed = self._before.get(source, (0, 0, 0))
        if record.total != series.total and series.total and record.total:
            # A run that is resumed may be given more iterations; one that begins anew is another.
            goes_on = restarts != self._restarts and not series.begins_with(record)
            if resumed == self._resumed and not goes_on:
                what = f"a total of {series.total} and of {record.total} iterations"
                self._other_run(what, [redaction.place(file, record.line, record.text)])
        series.add(record, file, events=events != self._events, restart=restarts != self._restarts)
        found_in = self._found_in.setdefault(source, [(self._block, record.text)] * 2)
        found_in[1] = (self._block, record.text)
        if series.position <= series.window.warmup:
            found_in[0] = found_in[1]
        if self._anew is not None:
            self._compare(series, resumed=resumed != self._resumed)
        self._before[source] = (self._events, self._restarts, self._resumed)
        self._records += 1
        if record.stamp is not None and record.shape.dated:
            self._logger = record.stamp

    def _compare(self, series: RankSeries, *, resumed: bool) -> None:
        """Compare a further header with the first, now that it shows how the records go on."""
        anew, header = self._anew or {}, self._header
        self._anew = self._header = None
        names = SAME_RUN if resumed else (*SAME_RUN, "planned_iterations")
        for name in names:
            if name in anew and name in self.facts:
                value, place = anew[name]
                first = self.fact(name)
                if value != first:
                    self._other_run(f"{name} {first} and {value}", [*self.place(name), place])
        if header is not None and series.goes_back:
            self._other_run("a second header", [header])
        elif header is not None and not series.copies:
            # It goes on where it was: programs that print nothing of it resumed the run.
            self._restarted_at(header)

    def _other_run(self, what: str, places: list[Place]) -> None:
        if all(what != known for known, _ in self.other_runs) and len(self.other_runs) < VALUES:
            self.other_runs.append((what, places))

    def _mark(self, mark: Mark, file: str) -> None:
        kind, values = mark.kind, mark.values
        if kind != "airank":
            self._logger = mark.stamp or self._logger
        if self.family is OURS and kind in {"checkpoint", "broken"}:
            # The time of our own lines leaves them out, and says so.
            self.training.mark(mark, file)
        elif kind in {"evaluation", "checkpoint"}:
            self._events += 1
            iteration = values.get("iteration")
            if isinstance(iteration, float):
                for series in self.series_by_rank.values():
                    series.end_epoch_at(int(iteration))
        elif kind == "airank":
            self.airank.take(mark, file, self._logger)
        elif kind == "start":
            rank = int(values["rank"] or 0)
            if rank == 0 and rank in self.started:
                self._restart(mark, file)
            self.started.add(rank)
        elif kind == "resume":
            if not self._resumed:
                # Its own attempt is the first of the log, and was not the first of the run.
                self._restart(mark, file)
            step = values.get("step")
            for series in self.series_by_rank.values():
                series.resume_after(int(step) if isinstance(step, float) else 0)
        elif kind == "header":
            self._header = redaction.place(file, mark.line, mark.text)
            self._anew = {}
            self._events += 1
        elif kind == "restart":
            self._restart(mark, file)
        elif kind == "rank":
            self._rank(mark, file)
        elif kind == "epoch-end":
            self._epoch_end(mark, file)
        elif kind == "summary":
            self.finished |= values.get("status") == "finished"
            if "whole_run_rate" in values:
                self.whole_run = (mark, file)
            else:
                self.summary = (mark, file)
        elif kind == "unread":
            place = redaction.place(file, mark.line, mark.text)
            text, place, count = self.unread.get(
                str(values["name"]), (str(values["text"]), place, 0)
            )
            self.unread[str(values["name"])] = (text, place, count + 1)
        elif kind == "finished":
            self.finished = True

    def _restart(self, mark: Mark, file: str) -> None:
        self._restarts += 1
        self._resumed += 1
        self._restarted_at(redaction.place(file, mark.line, mark.text))

    def _restarted_at(self, place: Place) -> None:
        self.restarted += 1
        if len(self.restarts) < VALUES:
            self.restarts.append(place)

    def _rank(self, mark: Mark, file: str) -> None:
        numbers = {
            name: value
            for name, value in mark.values.items()
            if isinstance(value, float) and math.isfinite(value)
        }
        if "rank" not in numbers:
            return
        rank, host = int(numbers["rank"]), mark.values.get("host")
        host = redaction.redact(str(host)) if host else None
        bits = numbers.get("throttle_reasons")
        self.clocks[rank] = Clock(
            host=host,
            mhz=numbers.get("clock_sm_mhz"),
            held_by=None if bits is None else int(bits),
            place=redaction.place(file, mark.line, mark.text),
        )
        times = {name: numbers[name] for name in _TIMES if name in numbers}
        if len(times) == len(_TIMES):
            self.rank_times[rank] = RankTimes(rank=rank, host=host, **times)

    def _epoch_end(self, mark: Mark, file: str) -> None:
        series = self.series_by_rank.get(mark.source) or self.series
        if series is None or series.epoch.last is None or not series.epoch.complete:
            return
        epoch, last = series.epoch, series.epoch.last
        if epoch.number == mark.values.get("epoch"):
            mean = epoch.rates / epoch.records
            fits = (steps := series.steps_of(mark.values)) is None or series.fits(steps)
            self.epoch_ends.append(EpochEnd(mark, file, mean, last, epoch.records, fits))
            series.end_epoch(mark.values)

    def _choose_window(self) -> Window:
        """Decide what the log is measured by, now that its head is known."""
        if self.window is None:
            self.expected = expected = self._choose()
            warmup, iterations = expected.warmup, expected.iterations
            own = self.whole("warmup") if self.family is OURS else None
            if own is not None and (warmup is None or expected.window_by_catalog):
                # Our own logs name the planned window; it is more exact than the catalog's default.
                warmup, iterations = own, None if self.trains else self.whole("iterations")
            warmup = warmup or 0
            self.window = Window(warmup, math.inf if iterations is None else warmup + iterations)
        return self.window

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


def _received_at(block: str, text: str) -> float | None:
    """When a line was received, by what our own log files put in front of it."""
    begin = block.rfind("\n", 0, max(block.find(text), 0)) + 1
    return stamps.moment(block[begin : begin + STAMP].partition(" ")[0])
