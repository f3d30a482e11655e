"""Logs of mmsegmentation 0.x (mmcv's text logger), and other programs of its kind.

``time`` is seconds per iteration of rank 0, which is the job's, as a mean over the log interval.
At the iteration of an evaluation mmcv prints the evaluation instead of the training line, so the
gap to the next record is two intervals while its mean still covers one, evaluation included.

mmcv 1.3.x prints both in one training line, under the number of validation batches in place of
the iteration (mmsegmentation issue 694): the line is that of the next log interval.

``….log.json`` has the same numbers as JSON without stamps, and on its first line the environment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from k8sbench.model.sample import Fact, Item, Record, Shape
from k8sbench.reader.families.openmmlab import SAVED, environment, json_record
from k8sbench.reader.family import (
    EvaluationRule,
    Family,
    LineReader,
    LineRule,
    MarkRule,
    RecordRule,
    assumed_fp32,
    evaluations_in_json,
    padded,
    rule,
)
from k8sbench.reader.lines import CleanLine

_BY_ITERATION = Shape(
    name="mmseg",
    number="seconds",
    holds_events=True,
    resolution=0.001,
    # 37 public logs: printed time ÷ time by the stamps is 0.9996–1.0004.
    tolerance=0.005,
    digit=0.001,
)
_BY_EPOCH = msgspec.structs.replace(
    _BY_ITERATION, name="mmseg by epoch", numbering="epoch", first_epoch=1
)
_JSON = msgspec.structs.replace(_BY_EPOCH, resolution=0.0)

# Up to 2020 without the name of the program.
_STAMP = r"(?:(?P<stamp>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) - (?:[\w.]+ - )?INFO - )?"
# Four digits, always: what follows may be another line, glued on.
_LOSS = r"(?:-?\d+\.\d{4}|[-+]?(?:nan|inf|NaN|Inf|NAN|INF))"
# No bracket may stand between the count and the time: a torn record glued to a whole one must not
# lend it its count.
_NUMBERS = (
    r" ?\[(?P<iteration>\d{1,12})/(?P<total>\d{1,12})\]\s"
    r"[^\[\]]*? time: (?P<step_seconds>\d+\.\d+), data_time: (?P<data_seconds>\d+\.\d+)(?=,)"
    r"(?:[^\[\]]*? memory: (?P<memory>\d+)(?=,))?"
    # Up to the first loss, comma by comma, which is faster than character by character. The group
    # is not possessive: Python before 3.11.5 then finds no loss.
    rf"(?:(?:[^\[\],]++|,(?! loss: {_LOSS}))*, loss: (?P<loss>{_LOSS}))?"
)
_PLANNED = r"(?:\bmax: (?=\d+ {0}\b)|\bmax_{0}=|^total_{0} = )"
_HEADLINES = "mIoU|mDice|mFscore|bbox_mAP"
_EVALUATED = r"(?:Iter|Epoch)\(val\) (?:\[\d+\])?\[\d+\]"
_TRAINED = r"Iter \[\d+/\d+\](?=[^\[\]]* loss: )"
_LOGGING = "log_config = dict("
_INTERVAL = re.compile(r" {4}interval=([1-9]\d{0,11}),$")
_JSON_TEXT = re.compile(r'\\n|"')
"""Separators of the lines of a text in JSON."""
_EVALUATED_BY = (*_HEADLINES.split("|"), "aAcc")
_EVALUATED_RECORD = padded(
    rf'(?:{_TRAINED}[^\[\]]*?, |"mode": "train"[^{{}}]*")(?:{_HEADLINES}|aAcc)"?: '
)


def _evaluation(needle: str, head: str, metrics: str) -> EvaluationRule:
    metric = rf"\s[^\[\]]*?\b(?P<metric>{metrics}): (?P<value>\d+\.\d+|nan)"
    return EvaluationRule(needle, padded(_STAMP + head + metric))


class _MmsegReader(LineReader):
    """Gives training lines that hold an evaluation the iteration that they are of."""

    def __init__(self, family: Family) -> None:
        self._latest: dict[str, tuple[int, int]] = {}
        """By source, the iterations of the latest two records."""
        self._epoch: int | None = None
        """The epoch of the JSON file that iterations are counted from the start of."""
        self._logging = False
        """True if the line before begins the logger's part of the configuration."""
        super().__init__(family)
        self.head_needles |= {_LOGGING}

    def rules(self) -> list[LineRule]:
        by_iteration, by_epoch, in_json, *others = super().rules()
        numbered = self._correcting(by_iteration)
        counted = self._correcting(in_json)
        # An evaluation is in the time of its own line: it comes before the record.
        return [*others, numbered, by_epoch, counted]

    def _correcting(self, rule: LineRule) -> LineRule:
        return rule._replace(read=lambda line: map(self._corrected, rule.read(line)))

    def facts(self, line: CleanLine) -> Iterator[Fact]:
        is_json = '"env_info": "' in line.text
        for text in _JSON_TEXT.split(line.text) if is_json else (line.text,):
            yield from super().facts(line._replace(text=text))
            if self._logging and (match := _INTERVAL.match(text)):
                yield line.fact("log_interval", match[1])
            self._logging = text == _LOGGING

    def _corrected(self, record: Item) -> Item:
        assert isinstance(record, Record)
        before, last = self._latest.get(record.source, (0, 0))
        may_hold = any(map(record.text.__contains__, _EVALUATED_BY))
        if may_hold and last > before and _EVALUATED_RECORD.search(record.text):
            record = msgspec.structs.replace(record, iteration=2 * last - before)
        if record.shape is _JSON:
            # The same keys stand for runs by epoch, and for runs by iteration, which count on.
            if record.iteration <= last or self._epoch is None:
                self._epoch = record.epoch
            record = msgspec.structs.replace(record, epoch=self._epoch)
        self._latest[record.source] = last, record.iteration
        return record


def _derive(stated: Mapping[str, Fact]) -> Iterator[Fact]:
    # The whole configuration is printed, so what it lacks was not set.
    yield from assumed_fp32(stated)
    ids = stated.get("gpu_ids")
    if listed := stated.get("_gpu_ids"):
        ids = listed.like("gpu_ids", str(listed.value.count(",") + 1))
    alone = "distributed" in stated and stated["distributed"].value == "False"
    # In a distributed job the list is that of the process; only several of them show the job's.
    if ids and (alone or int(ids.value) > 1):
        yield ids.like("gpus", ids.value)


FAMILY = Family(
    name="mmseg",
    title="mmsegmentation",
    framework="pytorch",
    unit="samples/s",
    make_reader=_MmsegReader,
    facts=(
        *environment("^"),
        rule("sys.platform", r"^sys\.platform: (?P<platform>.+)"),
        rule("MMCV: ", r"^MMCV: (?P<mmcv>\S+)"),
        rule("MMSeg", r"^MMSegmentation: (?P<program_version>\S+)", program="mmsegmentation"),
        rule("dataset_type = ", r"^dataset_type = '(?P<dataset>\w+)'"),
        rule("Distributed training: ", r"Distributed training: (?P<distributed>True|False)"),
        rule("samples_per_gpu=", r"\bsamples_per_gpu=(?P<batch_size>\d{1,12})"),
        rule("interval=", r"\binterval=(?P<log_interval>[1-9]\d{0,11}), hooks=\[(?!.*interval=)"),
        rule("evaluation = ", r"^evaluation = dict\(interval=(?P<evaluated_every>\d{1,12})"),
        rule("Fp16OptimizerHook", precision="amp", amp_dtype="fp16"),
        rule("fp16 = ", r"^fp16 = dict\(", precision="amp", amp_dtype="fp16"),
        rule("Head'", r"type='(?P<model>\w+Head)'"),
        rule("iters", _PLANNED.format("iters") + r"(?P<planned_iterations>\d{1,12})"),
        rule("epochs", _PLANNED.format("epochs") + r"(?P<planned_epochs>\d{1,6})"),
        rule("config", r"^config$", _config="True"),
        rule("gpu_ids = range(", r"^gpu_ids = range\(0, (?P<gpu_ids>\d{1,12})\)"),
        rule("gpu_ids = [", r"^gpu_ids = \[(?P<_gpu_ids>\d+(?:, ?\d+)*)\]"),
    ),
    derive=_derive,
    records=(
        RecordRule("Iter [", padded(_STAMP + "Iter" + _NUMBERS), _BY_ITERATION),
        RecordRule(
            "Epoch [",
            padded(_STAMP + r"Epoch \[(?P<epoch>\d{1,6})\]" + _NUMBERS),
            _BY_EPOCH,
        ),
        json_record('"mode": "train"', _JSON),
    ),
    evaluations=(
        _evaluation("(val) [", _EVALUATED, _HEADLINES),
        _evaluation(" mIoU: ", _TRAINED, "mIoU"),
        _evaluation(" bbox_mAP: ", _TRAINED, "bbox_mAP"),
        # Later versions print it first; it is the last here, so another is the headline.
        _evaluation("(val) [", _EVALUATED, "aAcc"),
        _evaluation(" aAcc: ", _TRAINED, "aAcc"),
        *evaluations_in_json(*_EVALUATED_BY),
    ),
    marks=(
        MarkRule('"mode": "val"', "evaluation"),
        SAVED,
        MarkRule("resumed ", "restart", padded(r"resumed (?:from )?epoch:? ?\d+, iter \d+")),
    ),
)
