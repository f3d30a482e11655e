"""Contents of a log, as parsed.

Parsing turns lines into *records* (one printed training line each), *evaluations*, *facts*
(statements of the log about its run: batch, GPUs, versions) and *marks* (AI-Rank events,
checkpoints, restarts, the log's own summary). Numbers are as printed, with their reference (job or
GPU); scaling them to the whole job is measuring, not parsing.
"""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from k8sbench import messages
from k8sbench.messages import Note
from k8sbench.model.masking import mask_fields


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Evidence: a line of a file."""

    file: str
    """Path of the log.

    Relative to the user's argument; of a run's log, relative to the run's logs; or
    ``gpu/SOURCE.jsonl`` in the run's folder.
    """
    line: int
    """1-based."""
    text: str = ""
    """The line, cut to 240 characters; addresses, user paths and credentials are removed."""

    def __post_init__(self) -> None:
        mask_fields(self, "text")


class LogGap(msgspec.Struct, frozen=True, kw_only=True):
    """Lines of a replica's log that the cluster no longer had."""

    replica: str
    after: float | None
    """Unix seconds of the last line before; None: the log's beginning is missing."""
    before: float | None
    """Unix seconds of the first line after; None: the log's end is missing."""
    why: str
    """One sentence."""


TOLERANCE = 0.05
"""Share of a time by which printed times and stamps may differ, if no logs of the format tell."""
DISPROVED = 0.25
"""Share of a time that lines may claim too much, if their steps or their batch stand for others."""
STAMP_LAG = 0.05
"""Variation of the delay from taking a time to writing it, s."""
COARSEST = 0.02
"""Largest resolution of the stamps whose rate is given, as a share of the time between them."""


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """Meaning of a record's number: quantity, reference, averaging, precision."""

    name: str
    """Log family, with its generation if there are several."""
    number: Literal["rate", "seconds"]
    """The number of a record that counts: samples/s, or seconds per iteration."""
    per: Literal["job", "card"] = "job"
    """Reference of a printed rate: the whole job or one GPU."""
    averaged: Literal["interval", "step", "running", "last"] = "interval"
    """Iterations that a printed mean covers.

    Those since the previous record, one, all since the epoch's beginning, or the ``last`` few.
    """
    last: int = 0
    """Iterations of an averaging window that the log does not state."""
    empties: bool = False
    """True if the averaging window of the ``last`` begins anew in each epoch."""
    skips: int = 0
    """Iterations of an epoch after which running means restart."""
    carries: bool = False
    """True if running means restart only after ``skips`` iterations.

    Means at an epoch's beginning then continue the previous epoch.
    """
    numbering: Literal["run", "epoch"] | None = "run"
    """``run``: iterations are counted through the run; ``epoch``: they restart in each.

    None: the first record of a later epoch decides; it counts on if its iteration is higher."""
    first_epoch: int | None = 0
    """Number of the first epoch; None: the first record's, at most 1."""
    begins_late: bool = False
    """True if the program prints no line for its first interval."""
    holds_events: bool = False
    """True if evaluations and checkpoints before a record are in its time."""
    complete: bool = True
    """True if printed times cover all time, so that stamps must agree."""
    resolution: float = 0.0
    """Seconds between two distinguishable stamps; 0 without stamps."""
    tolerance: float = TOLERANCE
    """Share of the total time by which printed times may differ from the stamps.

    Public logs of the program show it; the errors of the stamps and of the digits come on top.
    """
    digit: float = 0.0
    """Last digit of printed seconds, s, half of which may be lost in each iteration; 0: none."""
    has_two_clocks: bool = False
    """True if printed times are of a monotonic clock, and stamps of the wall clock."""
    summary_tolerance: float = 0.005
    """Relative difference of the lines' figures and the program's own summary of the window."""
    wraps: float | None = None
    """Seconds after which stamps without year or date repeat."""
    counts_samples: bool = False
    """True if iterations are numbered by the samples of the job, as MLPerf's."""
    limits_batch: bool = False
    """True if the batch is a limit in tokens, below which steps stay.

    A line's rate and that limit give more time than its steps took."""
    counts_micro_batches: bool = False
    """True if iterations are numbered by micro batches: fact ``accumulation`` says how many."""
    events_known: bool = True
    """True if the lines of evaluations and checkpoints are read.

    False: only records without extra lines between them are compared by their stamps."""

    @property
    def dated(self) -> bool:
        """True if stamps have the year."""
        return self.wraps is None

    @property
    def is_rate(self) -> bool:
        """True if the number that counts is a rate, in samples/s."""
        return self.number == "rate"

    @property
    def is_per_card(self) -> bool:
        """True if the number that counts is of one GPU."""
        return self.per == "card"

    @property
    def stamp_error(self) -> float:
        """Largest error of the time between two stamps, s."""
        return 2 * self.resolution + STAMP_LAG

    @property
    def spoils_steps(self) -> bool:
        """True if a line times one step, and an evaluation or a checkpoint before the step as well.

        A line with such an event must not stand for the steps that are not printed.
        """
        return self.averaged == "step" and self.holds_events

    def first_epoch_of(self, first: Record) -> int:
        """Return the number of the first epoch, given the first record."""
        return min(first.epoch or 0, 1) if self.first_epoch is None else self.first_epoch

    def time_of_one(self, record: Record) -> float:
        """Return a record's printed time of an iteration, s; of a sample, if it prints rates."""
        if self.is_rate:
            return 1 / record.rate if record.rate else 0.0
        seconds = record.mean_seconds if self.averaged == "running" else record.seconds
        return seconds or 0.0

    def own_rate(self, record: Record) -> float | None:
        """Return the printed rate of a line whose time of its own is not printed, but worked out.

        In samples or iterations per second; None: the line's iterations and time are printed.
        """
        if self.averaged == "last" and self.is_rate:
            return record.rate or 0.0
        if record.seconds and self.averaged in {"last", "running"}:
            # Of the last few iterations, or of the one step beside a running mean.
            return 1 / record.seconds
        return None

    def iterations_per_mean(self, stated: int | None) -> int:
        """Return the iterations of each printed mean; 0 if a mean covers the interval of its line.

        ``stated`` is what the log itself says.
        """
        return (stated or self.last) if self.averaged == "last" else 0

    def iterations_per_line(self, stated: int | None) -> int | None:
        """Return the iterations between two lines; None if the log's configuration does not tell.

        ``stated`` is the log interval in it. Lines of running means and of single steps show their
        distances by themselves.
        """
        return stated if self.averaged in {"interval", "last"} else None

    def lacks_time(self, *, is_sampled: bool) -> bool:
        """Return True if more time may pass than lines print.

        Lines of single steps lack time only where some steps have none: ``is_sampled``.
        """
        return not self.complete and (is_sampled or self.averaged != "step")

    def iterations_in_mean(self, iteration: int, size: int) -> int:
        """Return the iterations of the mean at an iteration, where means have ``size``."""
        return min(size, iteration) if self.empties else size

    def allowed_share(self, printed: float, passed: float) -> float:
        """Return the share of the larger sum by which printed times may differ from a clock's."""
        is_limit = self.limits_batch and printed > passed
        return max(self.tolerance, DISPROVED) if is_limit else self.tolerance

    def allowed_seconds(
        self, printed: float, passed: float, *, iterations: int, stretches: int
    ) -> float:
        """Return by how many seconds printed times may differ from the stamps, in sum.

        ``stretches`` counts the runs of consecutive lines in the sums, each of which adds the
        errors of two stamps.
        """
        ends = self.stamp_error * math.sqrt(stretches)
        share = self.allowed_share(printed, passed) * max(printed, passed)
        return ends + self.digit / 2 * iterations + share

    def has_coarse_stamps(self, seconds: float) -> bool:
        """Return True if the stamps' resolution decides the rate over ``seconds``."""
        return self.resolution > COARSEST * seconds


class _Printed(msgspec.Struct, frozen=True, kw_only=True):
    """Position of an item in its log."""

    line: int
    """1-based."""
    text: str
    source: str = ""
    """Rank that printed the line; empty if not stated."""


class Record(_Printed, frozen=True, kw_only=True, gc=False):
    """One printed training line, as printed."""

    shape: Shape
    iteration: int
    """1-based number of the last covered iteration."""
    epoch: int | None = None
    epochs: int | None = None
    """Planned epochs."""
    total: int | None = None
    """Planned iterations, of the epoch if ``numbering`` is by epoch."""
    rate: float | None = None
    """Samples per second."""
    seconds: float | None = None
    """Seconds of one iteration."""
    mean_seconds: float | None = None
    """Running mean of the seconds of an iteration."""
    mean_begin: int = 0
    """Iterations before the first one of a running mean, which a resumed program begins anew."""
    loss: float | None = None
    waiting: float | None = None
    """Share of the time spent waiting for data, 0–1."""
    stamp: float | None = None
    """Unix seconds, the text read as UTC."""
    taken: float | None = None
    """Unix seconds of the node's prefix on the line; None without one."""
    steps: int | None = None
    """Covered iterations; None if the line does not state them."""
    step_samples: float | None = None
    """Samples of one step of the whole job, as the line states them; tokens if it counts those."""
    mfu: float | None = None
    """Model FLOP utilisation as the program computes it, percent."""
    tflops: float | None = None
    """TFLOP/s per GPU as the program computes them."""
    memory_mib: float | None = None
    holds: tuple[str, ...] = ()
    """Other work in the record's time, as stated by the line."""
    paused: float = 0.0
    """Seconds since the previous record that the record's time excludes."""


class Evaluation(_Printed, frozen=True, kw_only=True):
    """One evaluation's result, as printed."""

    metric: str
    value: float
    unit: Literal["%", "fraction", "unknown"]
    subset: str = ""
    """Evaluated data set; empty if the program evaluates one."""
    stamp: float | None = None
    step: int | None = None
    """Iterations before the evaluation; None if not stated."""
    samples: int | None = None
    of: int | None = None
    """Samples in the data set; ``samples`` of them were readable."""
    target: float | None = None
    """Target of the run, in the unit of ``value``."""
    elapsed: float | None = None
    """Seconds since the training began; NaN if its program does not know them."""


class Fact(_Printed, frozen=True, kw_only=True):
    """A statement of the log about its own run, as text."""

    name: str
    value: str
    note: Note | None = None
    """The value as a message, if it is a sentence of ours; ``value`` is its English text."""

    def like(self, name: str, value: str) -> Fact:
        """Derive another fact of the same line."""
        return msgspec.structs.replace(self, name=name, value=value)

    def doubt(self, name: str, why: Note) -> Fact:
        """Derive another fact of the same line, which is a sentence of ours."""
        value = messages.text("en", why)
        return msgspec.structs.replace(self, name=name, value=value, note=why)


_Event = Literal["start", "evaluation", "checkpoint", "restart", "epoch-end", "finished", "header"]
_Ours = Literal["rank", "gpu", "summary", "resume", "broken", "begin", "evaluates"]
MarkKind = _Event | _Ours | Literal["airank", "clock", "unread"]


class Mark(_Printed, frozen=True, kw_only=True):
    """An event of the run, reported at this line."""

    kind: MarkKind
    values: dict[str, float | str | Note | None] = {}
    stamp: float | None = None

    def number(self, name: str) -> float | None:
        """Return a numeric value; None for others."""
        value = self.values.get(name)
        return value if isinstance(value, float) else None


class GpuSamples(_Printed, frozen=True, kw_only=True):
    """GPU samples of some seconds, taken by the rank itself."""

    rank: int
    every: float | None
    """Intended seconds between samples; None if unknown."""
    at: tuple[float, ...]
    """Unix seconds by the rank's clock."""
    values: dict[str, tuple[float | None, ...]]
    """Metric → value per time, in its unit; None: unknown."""


Item = Record | Evaluation | Fact | Mark | GpuSamples
