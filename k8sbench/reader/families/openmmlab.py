"""Logs of OpenMMLab's programs: mmcv's text logger (mmsegmentation 0.x) and mmengine's."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec

from k8sbench.model.sample import Fact, Item, Record, Shape
from k8sbench.reader.family import (
    UNDATED_SPAN,
    EvaluationRule,
    FactRule,
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
from k8sbench.reader.json_fields import JsonFields
from k8sbench.reader.lines import CleanLine

# -- mmcv ------------------------------------------------------------------------------------------
#
# mmsegmentation 0.x (mmcv's text logger), and other programs of its kind.
#
# ``time`` is seconds per iteration of rank 0, which is the job's, as a mean over the log interval.
# At the iteration of an evaluation mmcv prints the evaluation instead of the training line, so the
# gap to the next record is two intervals while its mean still covers one, evaluation included.
#
# mmcv 1.3.x prints both in one training line, under the number of validation batches in place of
# the iteration (mmsegmentation issue 694): the line is that of the next log interval.
#
# ``….log.json`` has the same numbers as JSON without stamps, and on its first line the environment.

BY_ITERATION = Shape(name="mmseg", number="seconds", holds_events=True, resolution=0.001)
BY_EPOCH = Shape(
    name="mmseg by epoch",
    number="seconds",
    numbering="epoch",
    first_epoch=1,
    holds_events=True,
    resolution=0.001,
)
JSON = msgspec.structs.replace(BY_EPOCH, resolution=None)

# Up to 2020 without the name of the program.
_STAMP = r"(?:(?P<stamp>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) - (?:[\w.]+ - )?INFO - )?"
# Four digits, always: what follows may be another line, glued on.
_LOSS = r"(?:-?\d+\.\d{4}|[-+]?(?:nan|inf|NaN|Inf|NAN|INF))"
# No bracket may stand between the count and the time: a torn record glued to a whole one must not
# lend it its count.
_MMCV_NUMBERS = (
    r" ?\[(?P<iteration>\d{1,12})/(?P<total>\d{1,12})\]\s"
    r"[^\[\]]*? time: (?P<step_seconds>\d+\.\d+), data_time: (?P<data_seconds>\d+\.\d+)(?=,)"
    r"(?:[^\[\]]*? memory: (?P<memory>\d+)(?=,))?"
    # Up to the first loss, comma by comma, which is faster than character by character. The group
    # is not possessive: Python before 3.11.5 then finds no loss.
    rf"(?:(?:[^\[\],]++|,(?! loss: {_LOSS}))*, loss: (?P<loss>{_LOSS}))?"
)
_PLANNED = r"(?:\bmax: (?=\d+ {0}\b)|\bmax_{0}=|^total_{0} = )"
_HEADLINES = "mIoU|mDice|mFscore|bbox_mAP"
_MMCV_EVALUATED = r"(?:Iter|Epoch)\(val\) (?:\[\d+\])?\[\d+\]"
_MMCV_TRAINED = r"Iter \[\d+/\d+\](?=[^\[\]]* loss: )"
_LOGGING = "log_config = dict("
_INTERVAL = re.compile(r" {4}interval=([1-9]\d{0,11}),$")
_JSON_TEXT = re.compile(r'\\n|"')
"""Separators of the lines of a text in JSON."""
_EVALUATED_BY = (*_HEADLINES.split("|"), "aAcc")
_EVALUATED_RECORD = padded(
    rf'(?:{_MMCV_TRAINED}[^\[\]]*?, |"mode": "train"[^{{}}]*")(?:{_HEADLINES}|aAcc)"?: '
)


def json_record(
    needle: str, shape: Shape, iteration: str = "iter", where: str = "", prefix: str = ""
) -> RecordRule:
    """Build the rule for training lines of the JSON of mmcv or of mmengine."""
    own = {"step_seconds": "time", "data_seconds": "data_time", "loss": "loss"}
    paths = {name: prefix + path for name, path in own.items()}
    paths |= {"iteration": iteration, "epoch": "epoch", "memory": "memory"}
    return RecordRule(needle, JsonFields(paths, f"^(?=.*{needle}).*{where}"), shape)


def environment(begin: str) -> tuple[FactRule, ...]:
    """Build the rules for the environment that mmcv and mmengine print."""
    return (
        rule("Python: ", begin + r"Python: (?P<python>\d[\d.]*)"),
        rule("CUDA available: ", begin + "CUDA available: False", device="cpu"),
        rule("GPU 0", begin + r"GPU (?P<visible_gpus>\d+(?:,\d+)*): (?P<gpu_model>\S.*)"),
        rule("PyTorch: ", begin + r"PyTorch: (?P<framework_version>\S+)"),
        rule("CUDA Runtime", r"- CUDA Runtime (?P<cuda>[\d.]+)"),
        rule("CuDNN", r"- CuDNN (?P<cudnn>[\d.]+)"),
        rule(" - Config:", r" - INFO - Config:", _config="True"),
    )


SAVED = MarkRule(
    "Saving checkpoint at",
    "checkpoint",
    padded(r"Saving checkpoint at \d+ (?:iterations|epochs)"),
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
        if record.shape is JSON:
            # The same keys stand for runs by epoch, and for runs by iteration, which count on.
            if record.iteration <= last or self._epoch is None:
                self._epoch = record.epoch
            record = msgspec.structs.replace(record, epoch=self._epoch)
        self._latest[record.source] = last, record.iteration
        return record


def _derive_mmseg(stated: Mapping[str, Fact]) -> Iterator[Fact]:
    # The whole configuration is printed, so what it lacks was not set.
    yield from assumed_fp32(stated)
    ids = stated.get("gpu_ids")
    if listed := stated.get("_gpu_ids"):
        ids = listed.like("gpu_ids", str(listed.value.count(",") + 1))
    alone = "distributed" in stated and stated["distributed"].value == "False"
    # In a distributed job the list is that of the process; only several of them show the job's.
    if ids and (alone or int(ids.value) > 1):
        yield ids.like("gpus", ids.value)


MMSEG = Family(
    name="mmseg",
    title="mmsegmentation",
    framework="pytorch",
    unit="samples/s",
    make_reader=_MmsegReader,
    opening="Environment info:",
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
    derive=_derive_mmseg,
    records=(
        RecordRule("Iter [", padded(_STAMP + "Iter" + _MMCV_NUMBERS), BY_ITERATION),
        RecordRule(
            "Epoch [",
            padded(_STAMP + r"Epoch \[(?P<epoch>\d{1,6})\]" + _MMCV_NUMBERS),
            BY_EPOCH,
        ),
        json_record('"mode": "train"', JSON),
    ),
    evaluations=(
        _evaluation("(val) [", _MMCV_EVALUATED, _HEADLINES),
        _evaluation(" mIoU: ", _MMCV_TRAINED, "mIoU"),
        _evaluation(" bbox_mAP: ", _MMCV_TRAINED, "bbox_mAP"),
        # Later versions print it first; it is the last here, so another is the headline.
        _evaluation("(val) [", _MMCV_EVALUATED, "aAcc"),
        _evaluation(" aAcc: ", _MMCV_TRAINED, "aAcc"),
        *evaluations_in_json(*_EVALUATED_BY),
    ),
    marks=(
        MarkRule('"mode": "val"', "evaluation"),
        SAVED,
        MarkRule("resumed ", "restart", padded(r"resumed (?:from )?epoch:? ?\d+, iter \d+")),
    ),
)


# -- mmengine --------------------------------------------------------------------------------------
#
# mmengine's text logger: mmsegmentation 1.x, MMPretrain, MMDetection 3.x, MMAction2 1.x.
#
# ``time`` is seconds per iteration of the job, as a mean of the last ``window_size`` iterations,
# however many lie between two lines: with 10 of 50 four fifths are in no figure, with 10 of 5
# each is in two. They reach back over epochs, evaluations and restarts. Its timer begins anew
# with an epoch and with an evaluation, so that only what follows these, and a checkpoint, is in
# the time of the next iteration.
#
# ``vis_data/scalars.json`` has the same numbers as JSON, in full digits and without stamps. There
# iterations are counted on through the epochs, by ``step``, which counts epochs in an evaluation.

_LOGGER = " - mmengine - INFO - "
_YEAR = r"(?P<stamp>\d{4}/\d\d/\d\d \d\d:\d\d:\d\d)" + _LOGGER
# Or no logger in front of it at all.
_NO_YEAR = rf"(?:(?<!\d/)(?P<stamp>\d\d/\d\d \d\d:\d\d:\d\d){_LOGGER}|(?<!{_LOGGER}))"
_ITERATION = r"Iter\(train\) +"
_EPOCH = r"Epoch\(train\) +\[(?P<epoch>\d{1,6})\]"
# No bracket may stand between the count and the time: a torn record glued to a whole one must not
# lend it its count.
_ENGINE_NUMBERS = (
    r"\[ *(?P<iteration>\d{1,12})/(?P<total>\d{1,12})\]  "
    r"[^\[\]]*?\btime: (?P<step_seconds>\d+\.\d+)  data_time: (?P<data_seconds>\d+\.\d+)(?=  )"
    r"(?:  memory: (?P<memory>\d+)(?=  ))?"
    # As many digits as ``num_digits`` says; no loss if another line, with its date, is glued on.
    r"(?:[^\[\]]*?  loss: (?P<loss>-?\d+\.\d+(?![\d/-])|nan|-?inf))?"
)
_ENGINE_EVALUATED = (
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
_ENGINE_TRAINED = r'(?:"iter|lr)": '
"""A key of JSON lines that evaluations lack."""


def _engine_record(*, by_epoch: bool, dated: bool) -> RecordRule:
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
    return RecordRule(
        needle, padded((_YEAR if dated else _NO_YEAR) + count + _ENGINE_NUMBERS), shape
    )


def _engine_evaluations(metrics: str, unit: Literal["%", "fraction"]) -> tuple[EvaluationRule, ...]:
    value = rf"{metrics}): (?P<value>\d+\.\d+|nan)"
    return (
        EvaluationRule("(val)", padded(_ENGINE_EVALUATED + value), unit=unit),
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


def _derive_mmengine(stated: Mapping[str, Fact]) -> Iterator[Fact]:
    yield from assumed_fp32(stated)
    if amp := stated.get("precision"):
        yield amp.like("amp_dtype", "bf16" if "_bf16" in stated else "fp16")


MMENGINE = Family(
    name="mmengine",
    title="mmengine's programs",
    framework="pytorch",
    unit="samples/s",
    make_reader=_MmengineReader,
    opening="System environment:",
    facts=(
        *environment("^ +"),
        rule("MMEngine: ", r"^ +MMEngine: (?P<mmengine>\S+)", program="mmengine"),
        # The world size, whatever the device.
        rule("GPU number: ", r"^ +GPU number: (?P<gpus>[1-9]\d{0,11})\s*$"),
        rule("default_scope = ", r"^default_scope = '(?P<scope>\w+)'"),
        rule("AmpOptimWrapper'", precision="amp"),
        rule("bfloat16'", r"\bdtype='bfloat16'", _bf16="True"),
    ),
    derive=_derive_mmengine,
    records=(
        *(
            _engine_record(by_epoch=by_epoch, dated=dated)
            for by_epoch in (False, True)
            for dated in (True, False)
        ),
        *(
            json_record(
                needle,
                _engine_record(by_epoch=False, dated=True).shape,
                "step",
                _ENGINE_TRAINED,
                train,
            )
            for needle, train in (('"time": ', ""), ('"train/time": ', "train/"))
        ),
    ),
    evaluations=(
        *_engine_evaluations("mIoU|mDice|mFscore|accuracy/top1", "%"),
        *_engine_evaluations(r"coco/bbox_mAP|coco/segm_mAP|pascal_voc/mAP|acc/top1", "fraction"),
        # Printed first; it is the last here, so another is the headline.
        *_engine_evaluations("aAcc", "%"),
    ),
    marks=(
        MarkRule('"step": ', "evaluation", re.compile(rf'^\{{(?!.*{_ENGINE_TRAINED}).*"step": ')),
        MarkRule("(val)", "evaluation", padded(r"(?:Iter|Epoch)\(val\) +\[")),
        MarkRule("(test)", "evaluation", padded(r"(?:Iter|Epoch)\(test\) +\[")),
        SAVED,
        MarkRule("The best checkpoint with", "checkpoint"),
        MarkRule("resumed epoch: ", "restart", padded(r"resumed epoch: \d+, iter: \d+")),
    ),
)
