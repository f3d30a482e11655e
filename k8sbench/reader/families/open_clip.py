"""Logs of open_clip.

``[ 6464/199064`` counts the samples of the job in the epoch, of all accumulated batches. The first
line of an epoch stands behind its first step, so its count is the samples of a step.

``Batch (t)`` is the mean time of a step, accumulation included, since the line before. Between
epochs neither evaluations nor checkpoints are in it. ``/s`` and ``/s/gpu`` are of the one step
before the line, and are not used; one divided by the other is the number of GPUs. (From
``src/training/train.py`` of commits d8084a6, of March 2022, to 983d158, and
``src/open_clip_train/legacy_train.py`` of 89fb801f.)

Since June 2026 (``src/open_clip_train/train.py`` of commits bfb1975 and 89fb801f) the mean begins
anew every ``log_metric_every_n_steps``, which may be more often than a line is printed. The
options that the program prints before its first line have that number.

Before March 2022 a line had the time of one step, and counted samples from 0; those lines, with
tabulators and without colons, are not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from k8sbench.model.sample import Fact, Item, Record, Shape
from k8sbench.reader.family import (
    LOSS_NUMBER,
    EvaluationRule,
    FactRule,
    Family,
    MarkRule,
    RecordRule,
    amp,
    padded,
    rule,
    stamp_seconds,
)
from k8sbench.reader.lines import CleanLine
from k8sbench.reader.shares import SharesReader

_SHAPE = Shape(
    name="open-clip",
    number="seconds",
    numbering="epoch",
    first_epoch=0,
    counts_samples=True,
    resolution=1.0,
    digit=0.001,
)
_LAST = msgspec.structs.replace(_SHAPE, name="open-clip 2026", averaged="last", empties=True)
_RATE = r"\d+\.\d*(?:e\+\d+)?"
_RECORD = padded(
    r"(?:(?P<stamp>\d{4}-\d\d-\d\d,\d\d:\d\d:\d\d) \|.*?)?"
    r"\bTrain Epoch: (?P<epoch>\d{1,6}) \[ *(?P<iteration>\d+)/(?P<total>\d+) \(\d+%\)\]"
    r"(?=.*? Data \(t\): (?P<data_seconds>\d+\.\d{3}) Batch \(t\): (?P<step_seconds>\d+\.\d{3})"
    rf"(?:, (?P<job_rate>{_RATE})/s(?:, (?P<share_rate>{_RATE})/s/gpu)?)? LR: )"
    rf"(?:(?=.*?\bLoss: {LOSS_NUMBER} \()|).*"
)
_HALVES = {
    "amp": "fp16",
    "amp_bf16": "bf16",
    "amp_bfloat16": "bf16",
    "bf16": "bf16",
    "pure_bf16": "bf16",
    "fp16": "fp16",
    "pure_fp16": "fp16",
}
"""Value of ``precision`` → type of the half-precision operations."""


def _stamp(text: str) -> float | None:
    return stamp_seconds(text.replace(",", " "))


def _option(name: str, group: str, value: str = r"[1-9]\d{0,11}") -> FactRule:
    """Match a line of the printed options: ``… | INFO |   batch_size: 64``."""
    return rule(f"|   {name}: ", rf"\| +{name}: (?P<{group}>{value}) *$")


class _OpenClipReader(SharesReader):
    """Tells the samples of a step by the first two lines."""

    def __init__(self, family: Family) -> None:
        self._first: dict[str, tuple[CleanLine, Record]] = {}
        """First line, until the second shows whether its count is of one step; by rank."""
        self._samples: dict[str, int] = {}
        """Samples of a step by rank, from its second line on; 0 if the lines do not tell."""
        super().__init__(family, fact="gpus")

    def items(self, line: CleanLine, record: Record) -> Iterator[Item]:
        """Yield a record with whole steps in its epoch; the first line's with the second."""
        record = msgspec.structs.replace(record, shape=self._shape())
        if line.source in self._samples:
            yield self._whole_steps(record)
        elif line.source not in self._first:
            self._first[line.source] = (line, record)
        else:
            begin, first = self._first.pop(line.source)
            is_of_step = 0 < first.iteration <= record.iteration - first.iteration
            self._samples[line.source] = 0
            if first.epoch == record.epoch and is_of_step:
                self._samples[line.source] = first.iteration
                yield begin.fact("global_batch", str(first.iteration))
            yield self._whole_steps(first)
            yield self._whole_steps(record)

    def _whole_steps(self, record: Record) -> Record:
        """Leave the samples of an epoch out that fill no step: the program leaves them out, too."""
        samples = self._samples[record.source]
        if not samples or record.total is None or record.total < samples:
            return record
        return msgspec.structs.replace(record, total=record.total - record.total % samples)

    def _shape(self) -> Shape:
        """Return what a line's mean is of, by the options in the head."""
        window, lines = (self._stated.get(name) for name in ("window_size", "_log_interval"))
        if window is None or lines is None or int(window.value) >= int(lines.value):
            return _SHAPE
        return _LAST


def _derive(stated: Mapping[str, Fact]) -> Iterator[Fact]:
    """Derive the samples of a step, and the precision."""
    factors = [stated.get(name) for name in ("_batch", "_accumulated", "gpus")]
    known = [fact for fact in factors if fact is not None]
    if len(known) == len(factors):
        samples = 1
        for fact in known:
            samples *= int(fact.value)
        yield known[0].like("global_batch", str(samples))
    precision = stated.get("_precision")
    if precision is not None and precision.value in _HALVES:
        for name, value in amp(_HALVES[precision.value]).items():
            yield precision.like(name, value)
    elif precision is not None and precision.value == "fp32":
        yield precision.like("precision", "fp32")


FAMILY = Family(
    name="open-clip",
    title="open_clip",
    framework="pytorch",
    unit="samples/s",
    facts=(
        rule(
            "with multiple processes",
            r"\(global: \d+, local \d+\), total (?P<gpus>[1-9]\d{0,11})\.",
        ),
        rule("Running with a single process", gpus="1"),
        _option("world_size", "gpus"),
        _option("batch_size", "_batch"),
        _option("accum_freq", "_accumulated"),
        _option("precision", "_precision", r"\w+"),
        _option("log_every_n_steps", "_log_interval"),
        _option("log_metric_every_n_steps", "window_size"),
    ),
    derive=_derive,
    records=(
        RecordRule(
            "Train Epoch: ",
            _RECORD,
            _SHAPE,
            stamp=_stamp,
            begins=re.compile(r"Train Epoch: \d"),
        ),
    ),
    evaluations=(
        EvaluationRule(
            "zeroshot-val-top1: ",
            padded(r"\b(?P<metric>[\w-]+-zeroshot-val-top1): (?P<value>\d\.\d+)"),
            unit="fraction",
        ),
    ),
    marks=(
        MarkRule("Eval Epoch: ", "evaluation"),
        MarkRule("Starting zero-shot ", "evaluation"),
        MarkRule("=> resuming checkpoint ", "restart"),
    ),
    make_reader=_OpenClipReader,
)
