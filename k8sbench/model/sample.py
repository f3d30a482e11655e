"""The contents of a log, before anything is computed.

Parsing turns lines into *records* (one printed training line each), *evaluations*, *facts* (what
the log states of its own run: batch, GPUs, versions) and *marks* (AI-Rank events, checkpoints,
restarts, the log's own summary). Numbers stand here as printed, with what they are per; scaling
them to the whole job is measuring, not parsing.
"""

from __future__ import annotations

from typing import Literal

import msgspec


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where something was read: evidence."""

    file: str
    """The log's name, relative to what the user gave; of a run's log, to the run's logs; or
    ``gpu/SOURCE.jsonl`` in the run's folder."""
    line: int
    """1-based."""
    text: str = ""
    """The line, cut to 240 characters, internal addresses and user paths redacted."""


class LogGap(msgspec.Struct, frozen=True, kw_only=True):
    """Lines of a replica's log that the cluster no longer had when they were asked for."""

    replica: str
    after: float | None
    """Stamp of the last line before the gap; None: its beginning is missing. Unix seconds."""
    before: float | None
    """Stamp of the first line after it; None: its end is missing. Unix seconds."""
    why: str
    """One sentence."""


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """What the number of one kind of record is: of what, per whom, averaged over what."""

    name: str
    """The family, and its generation where there are several."""
    number: Literal["rate", "seconds"]
    """Which of a record's numbers decides: samples/s, or seconds per iteration."""
    per: Literal["job", "card"] = "job"
    """Whether a printed rate is the whole job's or one GPU's."""
    averaged: Literal["interval", "step", "running", "last"] = "interval"
    """The mean covers the iterations since the record before, that one iteration, all of them since
    the epoch began, or the last few, however many lie between two records."""
    averages_rates: bool = False
    """True if a printed rate is a mean of the rates of steps or ranks, not samples by time."""
    last: int = 0
    """How many the last few are, where the log does not state it."""
    skips: int = 0
    """Iterations of an epoch after which the program's means begin anew."""
    carries: bool = False
    """Whether they begin anew there alone, so that the mean of an epoch's first iterations goes on
    from the epoch before."""
    numbering: Literal["run", "epoch"] | None = "run"
    """``run``: iterations are counted through the run; ``epoch``: they restart in each.

    None: the first record of a later epoch decides; it counts on if its iteration is higher."""
    first_epoch: int | None = 0
    """Number of the first epoch; None: the first record's, at most 1."""
    begins_late: bool = False
    """True if the program prints no line for its first interval."""
    holds_events: bool = False
    """Whether an evaluation or a checkpoint between two records lies in the second one's time."""
    complete: bool = True
    """Whether the printed times add up to the time that passes, so that the log's stamps must
    agree with them."""
    resolution: float | None = None
    """Seconds between two stamps that can be distinguished; None where records carry no stamp."""
    wraps: float | None = None
    """Seconds after which stamps that lack the year or the date begin anew."""
    events_known: bool = True
    """True if the lines of evaluations and checkpoints are read.

    False: only records without extra lines between them are compared by their stamps."""

    @property
    def dated(self) -> bool:
        """Whether stamps carry the year."""
        return self.wraps is None

    def first_epoch_of(self, first: Record) -> int:
        """Return the number of the first epoch, given the first record."""
        return min(first.epoch or 0, 1) if self.first_epoch is None else self.first_epoch


class _Printed(msgspec.Struct, frozen=True, kw_only=True):
    """Where an item stands in its log."""

    line: int
    """1-based."""
    text: str
    source: str = ""
    """Rank that printed it, where the line states it."""


class Record(_Printed, frozen=True, kw_only=True, gc=False):
    """One printed training line, as printed."""

    shape: Shape
    iteration: int
    """1-based number of the last iteration that it covers."""
    epoch: int | None = None
    total: int | None = None
    """Planned iterations (of the epoch, where they are counted so)."""
    rate: float | None = None
    """Samples per second."""
    seconds: float | None = None
    """Seconds of one iteration."""
    mean_seconds: float | None = None
    """Running mean of the seconds of an iteration."""
    loss: float | None = None
    waiting: float | None = None
    """Share of the time that was spent waiting for data, 0–1."""
    stamp: float | None = None
    """Unix seconds, the text read as UTC."""
    taken: float | None = None
    """Unix seconds at which the node took the line, where that stands in front of it."""
    steps: int | None = None
    """How many iterations it covers, where the line states it."""
    memory_mib: float | None = None
    holds: tuple[str, ...] = ()
    """What else lies in its time, where the line states it."""
    paused: float = 0.0
    """Seconds since the record before that its time leaves out, where the line states them."""


class Evaluation(_Printed, frozen=True, kw_only=True):
    """One evaluation's result, as printed."""

    metric: str
    value: float
    unit: Literal["%", "fraction", "unknown"]
    subset: str = ""
    """Which data set, where a program evaluates several."""
    stamp: float | None = None
    step: int | None = None
    """Iterations before it, where the line states them."""
    samples: int | None = None
    of: int | None = None
    """Samples that the data set has of this part; ``samples`` of them could be read."""
    target: float | None = None
    """What the run aims at, in the unit of the value."""


class Fact(_Printed, frozen=True, kw_only=True):
    """A statement of the log about its own run, as text."""

    name: str
    value: str

    def like(self, name: str, value: str) -> Fact:
        """Another fact that follows from this one and stands on the same line."""
        return msgspec.structs.replace(self, name=name, value=value)


_Event = Literal["start", "evaluation", "checkpoint", "restart", "epoch-end", "finished", "header"]
MarkKind = _Event | Literal["rank", "gpu", "summary", "airank", "unread", "resume", "broken"]


class Mark(_Printed, frozen=True, kw_only=True):
    """An event in the run that the log reports at this line."""

    kind: MarkKind
    values: dict[str, float | str | None] = {}
    stamp: float | None = None

    def number(self, name: str) -> float | None:
        """A value that is a number; None for all others."""
        value = self.values.get(name)
        return value if isinstance(value, float) else None


class GpuSamples(_Printed, frozen=True, kw_only=True):
    """What the GPU of a rank did for some seconds, as the rank itself sampled it."""

    rank: int
    every: float | None
    """Seconds between two samples, as they are meant."""
    at: tuple[float, ...]
    """Unix seconds by the rank's clock."""
    values: dict[str, tuple[float | None, ...]]
    """By metric, in its unit: one for each time; None: not known then."""


Item = Record | Evaluation | Fact | Mark | GpuSamples
