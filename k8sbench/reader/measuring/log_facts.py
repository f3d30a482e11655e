"""Contents of one run's logs, read in one pass.

Facts, records by rank, evaluations and marks. :mod:`k8sbench.reader.measuring.integrity` and
:mod:`k8sbench.reader.measuring.measuring` judge them when the pass is over.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import msgspec

from k8sbench.messages import Note, and_list, note
from k8sbench.model.errors import InputError
from k8sbench.model.measurement import AccuracyResult, RankTimes, SteadyPart
from k8sbench.model.sample import Evaluation, Fact, GpuSamples, Mark, Place, Record, Shape
from k8sbench.reader.family import Family
from k8sbench.reader.measuring import evidence
from k8sbench.reader.measuring.evaluations import AiRankEvents, Evaluations, TrainingFacts
from k8sbench.reader.measuring.evidence import Occurrence
from k8sbench.reader.measuring.expectation import Expectation
from k8sbench.reader.measuring.gpu_series import TrainerSeries
from k8sbench.reader.measuring.matching import choose_expectation, is_stated
from k8sbench.reader.measuring.rank_records import RankRecords
from k8sbench.reader.measuring.rank_sums import FEWEST_RECORDS, CountedSteps
from k8sbench.reader.measuring.record_kinds import RecordKind
from k8sbench.reader.measuring.stated_facts import StatedFacts
from k8sbench.reader.measuring.summaries import Summaries
from k8sbench.reader.measuring.warmup import LONGEST_WARMUP, usual_warmup
from k8sbench.reader.reading import EVENTS, FamilyLog, UntrainedLog, family_of
from k8sbench.reader.unread_programs import UnreadProgram

OF_EACH_HEADER = (
    *("gpus", "batch_size", "global_batch", "tokens_per_step", "sequence_length"),
    *("precision", "amp_dtype", "model", "parameters", "gpu_model"),
)
"""Facts that no restart changes."""
_TIMES = ("mean", "median", "p95", "max")


_OF_TRAINING = frozenset({"begin", "broken", "checkpoint", "evaluates", "evaluation"})
_Other = Evaluation | Fact | GpuSamples | Mark


class OpenedLog(Protocol):
    """One log file, opened: its lines can be taken once."""

    name: str

    def __iter__(self) -> Iterator[str]:
        """Yield blocks of whole lines with their ends.

        No line is longer than 64 KiB.
        """


class _Marks(NamedTuple):
    """Counts of events between records."""

    events: int = 0
    """Evaluations, checkpoints and further headers."""
    restarts: int = 0
    """Restarts of the program, and new files."""
    resumptions: int = 0
    """Restarts that the log itself states."""


_NO_MARKS = _Marks()


class UnreadText(NamedTuple):
    """A text where a declared format has a number."""

    text: str
    """The first of them, in quotation marks."""
    why: Note
    """Clause on why it is not read."""
    place: Place
    times: int


class _FurtherHeader(NamedTuple):
    """A further header, or the begin of a further file, up to its first record."""

    header: Place | None
    """None: of a file that has none so far."""
    facts: StatedFacts


class LogFacts:
    """All facts, records and events of a run's logs, once they are read."""

    def __init__(self, candidates: Sequence[Expectation]) -> None:
        self.candidates = candidates
        self.families = [family_of(each.format, each.framework) for each in candidates]
        self._family: Family | None = None
        self.expected: Expectation = candidates[0]
        self.stated: Expectation | None = None
        """The benchmark that the log states, among the candidates that apply only then."""
        self.untrained: list[UntrainedLog] = []
        """Logs without a record, of known programs."""
        self.unread_program: UnreadProgram | None = None
        """Program that a log shows, and that no family reads; None without any."""
        self.files: list[str] = []
        self.empty = True
        self.facts = StatedFacts()
        self.ranks: dict[str, RankRecords] = {}
        self.window: CountedSteps | None = None
        self.evaluations: dict[tuple[str, str], Evaluations] = {}
        self.evaluated = False
        """True if it was evaluated, with a value or without."""
        self.airank = AiRankEvents()
        self.training = TrainingFacts()
        self.started: set[int] = set()
        self.rank_times: dict[int, RankTimes] = {}
        self.nodes: dict[int, str] = {}
        """By rank, of its last attempt, where our own logs name it."""
        self.gpu_series = TrainerSeries()
        self.summaries = Summaries()
        self.epoch_ends: list[tuple[Mark, Place, int, float]] = []
        """An epoch's summary in the log, with line, records and mean rate."""
        self.unread: dict[str, UnreadText] = {}
        """Group of a declared format → its texts that are no number."""
        self.finished = False
        self.restarts: list[Place] = []
        self.clock_sets: list[tuple[float, Place, dict[str, int]]] = []
        """Notes that the wall clock was set: seconds, line, and each rank's iteration there."""
        self.other_runs: dict[Note, list[Place]] = {}
        """Signs of another run in the log, each with its lines."""
        self._marks = _Marks()
        self._marks_before: dict[str, _Marks] = {}
        """By rank, those before its last record."""
        self._headers = 0
        """Further headers so far."""
        self._further: _FurtherHeader | None = None
        """The latest further header or file; None: neither since the last record."""
        self._count = 0
        """Records so far."""
        self._received: dict[str, list[float | None]] = {}
        """Rank → when its window began and its last line was received.

        The first is its last line before the window, or its first line. None if unknown.
        """
        self._gpu_uuids: dict[str, None] = {}

    @property
    def is_recognised(self) -> bool:
        """True if the logs are of a family."""
        return self._family is not None

    @property
    def family(self) -> Family:
        """Family of the logs, once they are recognised."""
        assert self._family is not None
        return self._family

    def read(self, source: OpenedLog) -> None:
        """Read one log; later logs must be of the same family."""
        families = {family.name: family for family in self.families}
        log = FamilyLog(
            source,
            [self._family] if self._family is not None else list(families.values()),
        )
        if self._count and not self.family.states_starts:
            # Another rank's file or the next piece of a resumed run: the records show which.
            self._marks = self._marks._replace(restarts=self._marks.restarts + 1)
            self._further = _FurtherHeader(None, StatedFacts())
        self.files.append(source.name)
        for item in log:
            self._family = self._family or log.family
            if isinstance(item, Record):
                self._record(item, source.name)
            else:
                self._add(item, source.name)
        if log.untrained is not None:
            self.untrained.append(log.untrained)
        self.unread_program = self.unread_program or log.unread_program
        self.empty &= log.empty

    def close(self) -> None:
        """All logs are read."""
        for rank in self.ranks.values():
            rank.close()
        self._choose_window(None)
        self._shorten()
        if self.rank is not None:
            self.window = self.rank.window

    def _shorten(self) -> None:
        """Shorten the default warm-up to a quarter of a log that has too few records after it."""
        rank = self.rank
        if rank is None or self.expected.warmup is not None or self.family.states_plan:
            return
        warmup = int((rank.position - rank.begin) * LONGEST_WARMUP)
        if rank.tally.records < FEWEST_RECORDS:
            rank.shorten(warmup)

    @property
    def rank(self) -> RankRecords | None:
        """Rank whose records count: most counted records, then lowest rank."""
        return min(
            self.ranks.values(),
            key=lambda t: (-t.tally.records, -t.all_records, len(t.source), t.source),
            default=None,
        )

    @property
    def steady(self) -> SteadyPart | None:
        """From the end of the warm-up to the last step.

        Stamps in an unknown zone do not tell it: the times at which lines were received do, where
        the archive has them.
        """
        if self.rank is None:
            return None
        began, ended = self._received.get(self.rank.source, (None, None))
        if self.family.stamps_utc:
            (began, _), ended = self.rank.tally.stamps, self.rank.sums.last_stamp
        if began is None or ended is None or ended <= began:
            return None
        return SteadyPart(started_at=began, ended_at=ended, gpu_uuids=tuple(self._gpu_uuids))

    @property
    def trains(self) -> bool:
        """True if the program trains to an accuracy.

        All steps after the warm-up are then measured.
        """
        return self.facts.first("mode") == "train"

    @property
    def accuracy(self) -> AccuracyResult | None:
        """The program's own evaluations: of the benchmark's metric, else of the log's first."""
        evaluations = list(self.evaluations.values())
        target, metric = self.expected.target, self.expected.metric
        wanted = metric if target is None else target.metric
        evaluations.sort(key=lambda each: each.metric != wanted)
        return evaluations[0].result if evaluations else None

    def _add(self, item: _Other, file: str) -> None:
        if isinstance(item, Fact):
            self._fact(item, evidence.place(file, item.line, item.text))
        elif isinstance(item, Evaluation):
            name = f"{item.metric} {item.subset}".strip()
            key = (item.metric, item.subset)
            evaluations = self.evaluations.setdefault(key, Evaluations(name, item.unit))
            evaluations.add(item.value, self._count, item.step)
            if self.family.states_training:
                self.training.evaluation(item, file)
        elif isinstance(item, GpuSamples) or item.kind == "gpu":
            self.gpu_series.add(item)
            if isinstance(item, Mark) and (node := item.values.get("node")):
                rank = int(item.number("rank") or 0)
                self.nodes[rank] = evidence.redact(str(node))
        else:
            self._mark(item, file)

    def _fact(self, fact: Fact, place: Place) -> None:
        value = evidence.redact(fact.value)
        # A redacted sentence is quoted.
        if fact.note is not None and value == fact.value:
            self.facts.notes[value] = fact.note
        if fact.name == "gpu_uuid":
            self._gpu_uuids[value] = None
        if self._further is not None:
            self._further.facts.add(fact.name, value, place)
        if self._count and fact.name in self.facts:
            self.facts.state_again(place)
        if self._further is None or fact.name not in self.facts:
            self.facts.add(fact.name, value, place)

    def _record(self, record: Record, file: str) -> None:
        if record.shape.counts_samples:
            record = self._in_steps(record, file)
        source = record.source
        rank = self.ranks.get(source)
        if rank is None:
            has_head = bool(self.facts) or self._marks.restarts > 0
            if record.epochs is not None:
                place = evidence.place(file, record.line, record.text)
                self.facts.add("planned_epochs", str(record.epochs), place)
            window = self._choose_window(record)
            others = () if self._marks.restarts else self.ranks.values()
            last = self.facts.whole("window_size")
            every = self.facts.whole("log_interval")
            rank = self.ranks[source] = RankRecords(record, window, source, last, every)
            rank.warms_up = self._warms_up(record.shape, has_head=has_head)
            rank.total = next((other.total for other in others), None)
        elif record.shape is not rank.shape and record.shape.numbering != rank.shape.numbering:
            # Lines of another generation's shape: another run's, and no part of this one.
            rank.odd[RecordKind.BACK].add(Occurrence(file, record, rank.position))
            return
        before = self._marks_before.get(source, _NO_MARKS)
        now = self._marks
        other_total = record.total != rank.total and rank.total and record.total
        if other_total and rank.epochs.restart and record.epoch is not None:
            # A loader deals a remainder: epochs of one run may differ by one iteration.
            other_total = abs((record.total or 0) - (rank.total or 0)) > 1
        if other_total and not self.family.facts_of_run:
            # A run that is resumed may be given more iterations; one that begins anew is another.
            goes_on = before.restarts != now.restarts and not rank.begins_with(record)
            if before.resumptions == now.resumptions and not goes_on:
                totals = note("two-totals", first=rank.total or 0, second=record.total or 0)
                place = evidence.place(file, record.line, record.text)
                self.other_runs.setdefault(totals, [place])
        back = rank.odd[RecordKind.BACK].count
        rank.add(record, file, before.events != now.events, before.restarts != now.restarts)
        self.facts.end_head(of_other_run=rank.odd[RecordKind.BACK].count > back)
        received = self._received.setdefault(source, [record.taken, record.taken])
        received[1] = record.taken
        if rank.position <= rank.window.warmup:
            received[0] = record.taken
        if self._further is not None:
            self._compare(rank, self._further, resumed=before.resumptions != now.resumptions)
        self._marks_before[source] = now
        self._count += 1

    def _warms_up(self, shape: Shape, *, has_head: bool) -> bool:
        """True if a log that begins late resumes a run, and warms up anew.

        A plan's run begins at its first step. ``has_head``: the log stated a fact of its run, or
        that it resumes one, before its first record; of another one the lines before may be lost.
        """
        usual = self.expected.warmup is None
        if self.family.states_plan or not (usual or self.expected.by_user):
            return False
        return has_head or (usual and shape.averaged == "interval")

    def _in_steps(self, record: Record, file: str) -> Record:
        """Number a record by its step, where the log counts samples of the job.

        Raises :class:`InputError` if nothing tells the samples of a step, and the record does not
        state how many it covers.
        """
        expected = choose_expectation(self.candidates, self.families, self.family, self.facts)
        batch = self.facts.whole("batch_size") or expected.batch_at(expected.precision) or 0
        gpus = expected.gpus or self.facts.whole("gpus") or 0
        samples = self.facts.whole("global_batch") or batch * gpus
        if not samples and record.steps is not None:
            return record
        if not samples:
            raise InputError(
                note("not-measured-samples-per-step"),
                "Give --gpus and --batch-size.",
                file=file,
                line=record.line,
            )
        total = record.total and round(record.total / samples)
        iteration = round(record.iteration / samples)
        steps = record.steps and max(round(record.steps / samples), 1)
        return msgspec.structs.replace(record, iteration=iteration, total=total, steps=steps)

    def _compare(self, rank: RankRecords, further: _FurtherHeader, *, resumed: bool) -> None:
        """Compare a further header with the first, knowing its first record."""
        header = further.header
        self._further = None
        differing = further.facts.others_than(self.facts)
        is_second_run = header is not None and rank.replay is RecordKind.BACK
        # A run that is resumed may be given more iterations.
        is_extended = "planned_iterations" in differing and not resumed
        if is_second_run and header is not None:
            self.other_runs.setdefault(note("second-header"), [header])
        elif header is not None and rank.replay is not RecordKind.REPEATED:
            # It goes on where it was: programs that print nothing of it resumed the run.
            self.restarts.append(header)
        if header is not None and not is_second_run and not is_extended:
            self._add_changes(differing)
            return
        names = OF_EACH_HEADER if resumed else (*OF_EACH_HEADER, "planned_iterations")
        for name in filter(differing.__contains__, names):
            value, place = next(iter(differing[name].items()))
            places = [*self.facts.places(name), place]
            values = and_list([str(self.facts.first(name)), value])
            self.other_runs.setdefault(note("two-values", name=name, values=values), places)

    def _add_changes(self, differing: StatedFacts) -> None:
        """Keep what a restarted program of the same run states otherwise."""
        for name in filter(differing.__contains__, OF_EACH_HEADER):
            for value, place in differing[name].items():
                self.facts.add(name, value, place)

    def _mark(self, mark: Mark, file: str) -> None:
        kind, values = mark.kind, mark.values
        self.evaluated |= kind == "evaluation"
        if self.family.states_training and kind in _OF_TRAINING:
            # The times of training lines leave these events out.
            self.training.mark(mark, file)
        elif kind in EVENTS:
            self._marks = self._marks._replace(events=self._marks.events + 1)
            for rank in self.ranks.values():
                rank.end_epoch_at(int(mark.number("iteration") or 0))
        elif kind == "airank":
            self.airank.add(mark, file)
        elif kind == "start":
            number = int(mark.number("rank") or 0)
            if number == 0 and number in self.started:
                self._restart(mark, file)
                if not self.trains:
                    self._forget_attempt()
            self.started.add(number)
        elif kind == "resume":
            if not self._marks.resumptions:
                # Its own attempt is the first of the log, and was not the first of the run.
                self._restart(mark, file)
            for rank in self.ranks.values():
                rank.resume_after(int(mark.number("step") or 0))
        elif kind == "header":
            self._headers += 1
            place = evidence.place(file, mark.line, mark.text)
            self._further = _FurtherHeader(place, StatedFacts())
            self._marks = self._marks._replace(events=self._marks.events + 1)
        elif kind == "restart":
            self._restart(mark, file)
        elif kind == "rank":
            self._rank(mark)
        elif kind == "epoch-end":
            self._epoch_end(mark, file)
        elif kind == "summary":
            self._summarise(mark, file)
        elif kind == "unread":
            name = str(values["name"])
            place = evidence.place(file, mark.line, mark.text)
            why = values["why"]
            assert isinstance(why, Note)
            first = UnreadText(repr(values["text"]), why, place, 0)
            known = self.unread.get(name, first)
            self.unread[name] = known._replace(times=known.times + 1)
        elif kind == "finished":
            self.finished = True
        elif kind == "clock":
            place = evidence.place(file, mark.line, mark.text)
            positions = {source: rank.position for source, rank in self.ranks.items()}
            self.clock_sets.append((mark.number("seconds") or 0.0, place, positions))

    def _summarise(self, mark: Mark, file: str) -> None:
        values = mark.values
        if self._further is not None and self._further.header and "whole_run_rate" in values:
            # The figure may be of an attempt without a record.
            self._add_changes(self._further.facts.others_than(self.facts))
        self.finished |= values.get("status") == "finished"
        if self.trains and values.get("ended_by") == "length":
            self.training.plans(mark, file)
        self.summaries.add(mark, file, number=len(self.files), header=self._headers)

    def _restart(self, mark: Mark, file: str) -> None:
        marks = self._marks
        self._marks = _Marks(marks.events, marks.restarts + 1, marks.resumptions + 1)
        self.restarts.append(evidence.place(file, mark.line, mark.text))

    def _forget_attempt(self) -> None:
        """Forget what the attempt before measured: without checkpoints the next one does it all."""
        self._marks = _Marks()
        self._count = 0
        self.summaries.last = None
        self.finished = False
        for of_attempt in (self.ranks, self.rank_times, self._marks_before, self._received):
            of_attempt.clear()
        self.clock_sets.clear()

    def _rank(self, mark: Mark) -> None:
        host = mark.values.get("host")
        number = mark.number("rank")
        times = {n: x for n in _TIMES if (x := mark.number(n)) is not None and math.isfinite(x)}
        if number is not None and len(times) == len(_TIMES):
            rank = int(number)
            host = evidence.redact(str(host)) if host else None
            self.rank_times[rank] = RankTimes(rank=rank, host=host, **times)

    def _epoch_end(self, mark: Mark, file: str) -> None:
        rank = self.ranks.get(mark.source) or self.rank
        epoch = None if rank is None else rank.sums.epoch
        if rank is None or epoch is None or not (epoch.records and epoch.complete):
            return
        if epoch.number == mark.number("epoch"):
            place = evidence.place(file, mark.line, mark.text)
            mean = epoch.rates / epoch.records
            self.epoch_ends.append((mark, place, epoch.records, mean))
            rank.end_epoch(mark)

    def _choose_window(self, first: Record | None) -> CountedSteps:
        """Decide the window, knowing the log's head and first record."""
        if self.window is None:
            self.expected = expected = choose_expectation(
                self.candidates, self.families, self._family, self.facts
            )
            stated = (
                candidate
                for candidate in self.candidates
                if is_stated(candidate, self._family, self.facts)
            )
            self.stated = next(stated, None)
            warmup, iterations = expected.warmup, expected.iterations
            states_plan = self._family is not None and self._family.states_plan
            own = self.facts.whole("warmup") if states_plan else None
            if own is not None and (warmup is None or expected.window_by_catalog):
                # The planned window of the run is more exact than the catalog's default.
                warmup = own
                iterations = None if self.trains else self.facts.whole("iterations")
            if warmup is None and first is not None:
                warmup = usual_warmup(self.family, self.facts, first)
            warmup = warmup or 0
            self.window = CountedSteps(
                warmup, math.inf if iterations is None else warmup + iterations
            )
        return self.window
