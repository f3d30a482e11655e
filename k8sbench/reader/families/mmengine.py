"""Logs of mmengine's text logger: mmsegmentation 1.x, MMPretrain, MMDetection 3.x, MMAction2 1.x.

``time`` is seconds per iteration of the job, as a mean of the last ``window_size`` iterations,
however many lie between two lines: with 10 of 50 four fifths are in no figure, with 10 of 5
each is in two. They reach back over epochs, evaluations and restarts. Its timer begins anew
with an epoch and with an evaluation, so that only what follows these, and a checkpoint, is in
the time of the next iteration.

``vis_data/scalars.json`` has the same numbers as JSON, in full digits and without stamps. There
iterations are counted on through the epochs, by ``step``, which counts epochs in an evaluation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Literal

from k8sbench.model.sample import Fact, Shape
from k8sbench.reader.families.openmmlab import SAVED, environment, json_record
from k8sbench.reader.family import (
    UNDATED_SPAN,
    EvaluationRule,
    Family,
    LineReader,
    MarkRule,
    RecordRule,
    assumed_fp32,
    evaluations_in_json,
    padded,
    rule,
)
from k8sbench.reader.lines import CleanLine

_LOGGER = " - mmengine - INFO - "
_YEAR = r"(?P<stamp>\d{4}/\d\d/\d\d \d\d:\d\d:\d\d)" + _LOGGER
# Or no logger in front of it at all.
_NO_YEAR = rf"(?:(?<!\d/)(?P<stamp>\d\d/\d\d \d\d:\d\d:\d\d){_LOGGER}|(?<!{_LOGGER}))"
_ITERATION = r"Iter\(train\) +"
_EPOCH = r"Epoch\(train\) +\[(?P<epoch>\d{1,6})\]"
# No bracket may stand between the count and the time: a torn record glued to a whole one must not
# lend it its count.
_NUMBERS = (
    r"\[ *(?P<iteration>\d{1,12})/(?P<total>\d{1,12})\]  "
    r"[^\[\]]*?\btime: (?P<step_seconds>\d+\.\d+)  data_time: (?P<data_seconds>\d+\.\d+)(?=  )"
    r"(?:  memory: (?P<memory>\d+)(?=  ))?"
    # As many digits as ``num_digits`` says; no loss if another line, with its date, is glued on.
    r"(?:[^\[\]]*?  loss: (?P<loss>-?\d+\.\d+(?![\d/-])|nan|-?inf))?"
)
_EVALUATED = (
    r"(?:Iter|Epoch)\(val\) +(?:\[\d+\])?\[ *\d+/\d+\]  "
    r"(?:[^\[\]]*?  )?(?:val/)?(?P<metric>"
)
_SECTION = re.compile(r"^(?P<name>\w+) = ")
_PART = re.compile(r"^    (?P<name>\w+)=dict\(")
_SETTINGS = {
    # Other means than that of the time have their own, in a list.
    "log_processor": re.compile(r"^(?! {5})[^\[]*\bwindow_size=(?P<window_size>[1-9]\d{0,8})\b"),
    "default_hooks": re.compile(
        r"\blogger=dict\([^()]*\binterval=(?P<log_interval>[1-9]\d{0,11})\b"
    ),
    "default_hooks.logger": re.compile(r"\binterval=(?P<log_interval>[1-9]\d{0,11})\b"),
    "train_cfg": re.compile(r"\bmax_epochs=(?P<planned_epochs>\d{1,6})\b"),
    "train_dataloader": re.compile(r"\bbatch_size=(?P<batch_size>\d{1,12})\b"),
}
"""Section of the configuration, and its part → pattern of a setting.

Other sections have settings of the same names.
"""
_TYPE = re.compile(r"^ {8}type='(?P<model>\w+)'")
_HEADS = ("decode_head", "cls_head", "head", "bbox_head", "roi_head")
_SETTINGS |= {f"model.{head}": _TYPE for head in _HEADS}
_HEAD = frozenset(
    (" = ", "=dict(", "interval=", "window_size=", "max_epochs=", "batch_size=", " type='")
)
"""Texts of the lines that these match."""
_TRAINED = r'(?:"iter|lr)": '
"""A key of JSON lines that evaluations lack."""


def _record(*, by_epoch: bool, dated: bool) -> RecordRule:
    numbering: Literal["epoch", "run"] = "epoch" if by_epoch else "run"
    shape = Shape(
        name="mmengine by epoch" if by_epoch else "mmengine",
        number="seconds",
        averaged="last",
        last=10,
        numbering=numbering,
        first_epoch=1,
        resolution=1.0,
        wraps=None if dated else UNDATED_SPAN,
    )
    needle, count = ("Epoch(train)", _EPOCH) if by_epoch else ("Iter(train)", _ITERATION)
    return RecordRule(needle, padded((_YEAR if dated else _NO_YEAR) + count + _NUMBERS), shape)


def _evaluations(metrics: str, unit: Literal["%", "fraction"]) -> tuple[EvaluationRule, ...]:
    value = rf"{metrics}): (?P<value>\d+\.\d+|nan)"
    return (
        EvaluationRule("(val)", padded(_EVALUATED + value), unit=unit),
        *evaluations_in_json(*metrics.split("|"), unit=unit),
        *evaluations_in_json(*metrics.split("|"), unit=unit, prefix="val/"),
    )


class _MmengineReader(LineReader):
    """Reads the configuration, in which the section decides what a setting is of."""

    def __init__(self, family: Family) -> None:
        super().__init__(family)
        self.head_needles |= _HEAD
        self._section = self._part = ""

    def facts(self, line: CleanLine) -> Iterator[Fact]:
        yield from super().facts(line)
        if match := _SECTION.match(line.text):
            self._section = match["name"]
            self._part = ""
        elif match := _PART.match(line.text):
            self._part = match["name"]
        place = f"{self._section}.{self._part}"
        pattern = _SETTINGS.get(place) or _SETTINGS.get(self._section)
        if pattern is not None and (match := pattern.search(line.text)):
            yield from (line.fact(name, value) for name, value in match.groupdict().items())


def _derive(stated: Mapping[str, Fact]) -> Iterator[Fact]:
    yield from assumed_fp32(stated)
    if amp := stated.get("precision"):
        yield amp.like("amp_dtype", "bf16" if "_bf16" in stated else "fp16")


FAMILY = Family(
    name="mmengine",
    title="mmengine's programs",
    framework="pytorch",
    unit="samples/s",
    make_reader=_MmengineReader,
    facts=(
        *environment("^ +"),
        rule("MMEngine: ", r"^ +MMEngine: (?P<mmengine>\S+)", program="mmengine"),
        # The world size, whatever the device.
        rule("GPU number: ", r"^ +GPU number: (?P<gpus>[1-9]\d{0,11})\s*$"),
        rule("default_scope = ", r"^default_scope = '(?P<scope>\w+)'"),
        rule("AmpOptimWrapper'", precision="amp"),
        rule("bfloat16'", r"\bdtype='bfloat16'", _bf16="True"),
    ),
    derive=_derive,
    records=(
        *(
            _record(by_epoch=by_epoch, dated=dated)
            for by_epoch in (False, True)
            for dated in (True, False)
        ),
        *(
            json_record(
                needle,
                _record(by_epoch=False, dated=True).shape,
                "step",
                _TRAINED,
                train,
            )
            for needle, train in (('"time": ', ""), ('"train/time": ', "train/"))
        ),
    ),
    evaluations=(
        *_evaluations("mIoU|mDice|mFscore|accuracy/top1", "%"),
        *_evaluations(r"coco/bbox_mAP|coco/segm_mAP|pascal_voc/mAP|acc/top1", "fraction"),
        # Printed first; it is the last here, so another is the headline.
        *_evaluations("aAcc", "%"),
    ),
    marks=(
        MarkRule('"step": ', "evaluation", re.compile(rf'^\{{(?!.*{_TRAINED}).*"step": ')),
        MarkRule("(val)", "evaluation", padded(r"(?:Iter|Epoch)\(val\) +\[")),
        MarkRule("(test)", "evaluation", padded(r"(?:Iter|Epoch)\(test\) +\[")),
        SAVED,
        MarkRule("The best checkpoint with", "checkpoint"),
        MarkRule("resumed epoch: ", "restart", padded(r"resumed epoch: \d+, iter: \d+")),
    ),
)
