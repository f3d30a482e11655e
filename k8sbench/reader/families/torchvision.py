"""Logs of torchvision's references, and of programs that took over their MetricLogger.

DETR, DeiT, MAE, DINO and ConvNeXt did. ``time`` is the mean of the last 20 iterations of the epoch,
of the job. ``img/s`` is of one process, without the wait for data, and is not read.

MAE (``util/misc.py`` at efb2a806) puts the time of day in front of each line, and each argument on
a line of its own. LLaMA-Adapter and LLaMA2-Accessory (``accessory/util/misc.py`` at 0e6ac402) took
this over without ``eta``; a stream of data has no length there, but the word ``unknown``. In all of
them an iteration is a batch of each GPU, however many are accumulated to a step. Those that print a
``closs`` train on text.

LLaMA-Adapter (``alpaca_finetuning_v1/engine_finetuning.py`` at 07959848) prints the same lines of a
validation, after the line of the averages of its epoch.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence

from k8sbench.messages import note
from k8sbench.model.sample import Fact, Item, Record, Shape
from k8sbench.reader.family import (
    BATCH_DOUBT,
    DAY,
    EvaluationRule,
    Family,
    LineReader,
    LineRule,
    MarkRule,
    Read,
    RecordRule,
    padded,
    rule,
)
from k8sbench.reader.lines import CleanLine

_SHAPE = Shape(
    name="torchvision",
    number="seconds",
    averaged="last",
    last=20,
    empties=True,
    numbering="epoch",
    first_epoch=None,
    resolution=1e-6,
    digit=1e-4,
    wraps=DAY,
)
_RECORD = padded(
    r"(?:\[(?P<stamp>\d\d:\d\d:\d\d(?:\.\d{6})?)\] )?"
    r"\bEpoch: \[(?P<epoch>\d{1,6})(?:/\d+)?\] +"
    r"\[ *(?P<iteration>\d{1,12})/(?:(?P<total>\d{1,12})|unknown)\] +"
    r"(?:(?=.*? c?loss: (?P<loss>[-+.\deE]+|nan))|)(?:.*? )?time: (?P<step_seconds>\d+\.\d+) +"
    r"data: (?P<data_seconds>\d+\.\d+)(?: +max mem: (?P<memory>\d+))?"
)
_EPOCH = padded(
    r"Epoch: \[(?P<epoch>\d{1,6})(?:/\d+)?\] Total time: [\d:]+ "
    r"\((?P<mean_seconds>\d+\.\d+) s / it\)"
)

_ARGUMENT = r"^(?:(?:(?!\bNamespace\().)*Namespace\(.*\b)?{}[,)]"
"""An argument, in one line with all others or on a line of its own."""


def _time_of_day(text: str) -> float:
    hours, minutes, seconds = text.split(":")
    return 3600 * int(hours) + 60 * int(minutes) + float(seconds)


def _shared(stated: Mapping[str, Fact]) -> Iterator[Fact]:
    """Doubt the batch where parts of a model lie on several GPUs."""
    sharing = stated.get("_sharing")
    if sharing is not None and int(sharing.value) > 1:
        yield sharing.doubt(BATCH_DOUBT, note("batch-mismatch-shared-sample"))


class _MetricLoggerReader(LineReader):
    """Takes what follows the averages of an epoch, under its number, for a validation."""

    def __init__(self, family: Family) -> None:
        self._epochs: dict[str, int | None] = {}
        """Epoch of the latest line of training, by source."""
        self._averaged: dict[str, int | None] = {}
        """The epoch whose averages were printed last, by source."""
        super().__init__(family)

    def rules(self) -> list[LineRule]:
        """Return the readers by line kind."""
        training, *others = super().rules()
        return [
            training._replace(read=functools.partial(self._read, training.read)),
            LineRule("Averaged stats:", self._end_epoch),
            LineRule("Namespace(", self._begin),
            *others,
        ]

    def _read(self, read: Read, line: CleanLine) -> Iterator[Item]:
        for item in read(line):
            epoch = item.epoch if isinstance(item, Record) else None
            if epoch is not None and self._averaged.get(line.source) == epoch:
                yield line.mark("evaluation", item.text)
            else:
                if line.source not in self._epochs and "closs: " in line.text:
                    yield line.fact("unit", "samples/s")
                self._epochs[line.source] = epoch
                yield item

    def _end_epoch(self, line: CleanLine) -> Sequence[Item]:
        self._averaged[line.source] = self._epochs.get(line.source)
        return ()

    def _begin(self, line: CleanLine) -> Sequence[Item]:
        """Forget the epochs of an earlier run."""
        self._averaged.pop(line.source, None)
        return ()


FAMILY = Family(
    name="torchvision",
    title="torchvision's references, DETR, DeiT, MAE, LLaMA-Adapter",
    framework="pytorch",
    unit="images/s",
    facts=(
        rule("batch_size=", _ARGUMENT.format(r"batch_size=(?P<batch_size>\d+)")),
        rule("world_size=", _ARGUMENT.format(r"world_size=(?P<gpus>\d+)")),
        rule("amp=True", _ARGUMENT.format("amp=True"), precision="amp"),
        rule("epochs=", _ARGUMENT.format(r"epochs=(?P<planned_epochs>\d{1,6})")),
        rule("model_parallel_size=", _ARGUMENT.format(r"model_parallel_size=(?P<_sharing>\d+)")),
        rule("Not using distributed mode", gpus="1"),
    ),
    derive=_shared,
    records=(
        RecordRule(
            "Epoch: [",
            _RECORD,
            _SHAPE,
            first_iteration=0,
            stamp=_time_of_day,
            begins=re.compile(r"Epoch: \["),
        ),
    ),
    evaluations=(
        EvaluationRule(
            "Acc@1 ", re.compile(r"Test:.* Acc@1 (?P<value>\d+\.\d+) Acc@5"), "Acc@1", "%"
        ),
    ),
    marks=(
        MarkRule("Test: ", "evaluation"),
        # MAE's and ConvNeXt's; torchvision's and DETR's own programs are silent.
        MarkRule("Resume checkpoint ", "restart"),
        MarkRule("s / it)", "epoch-end", _EPOCH),
        MarkRule("Training time ", "finished"),
    ),
    make_reader=_MetricLoggerReader,
)
