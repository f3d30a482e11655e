"""Logs of Paddle's programs: PaddleSeg, PaddleClas, PLSC, PaddleVideo.

First what several of them print: launcher, runtime, configuration, training lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from k8sbench.model.sample import Fact, Item, Shape
from k8sbench.reader.family import (
    LOSS_NUMBER,
    UNDATED_SPAN,
    EvaluationRule,
    FactRule,
    Family,
    LineReader,
    LineRule,
    MarkRule,
    RecordRule,
    assumed_fp32,
    padded,
    rule,
)
from k8sbench.reader.lines import CleanLine

_TRAINERS = "PADDLE_TRAINERS_NUM"
_BELIEF = ("_gpus_program", "_gpus_nccl", "_gpus_launcher")
"""Statements of the job's processes, the most reliable first."""

LAUNCH = (
    rule(
        "Runtime API Version",
        r"Driver API Version: (?P<driver_api>[\d.]+), Runtime API Version: (?P<cuda>[\d.]+)",
    ),
    rule("cuDNN Version", r"cuDNN Version: (?P<cudnn>[\d.]+\d)"),
    # The communicator of all ranks; those of parts of the job have other rings.
    rule("init nccl context", r"nranks: (?P<_gpus_nccl>\d{1,12})\b(?!.*\bring id: [1-9])"),
    rule("trainers_endpoints: ", r"num_nodes: .*\bnranks: (?P<_gpus_launcher>\d{1,12})\s*$"),
    # In the launcher's box this variable counts processes; where a shell prints its environment,
    # it may count nodes.
    rule(_TRAINERS, rf"\|\s+{_TRAINERS}\s+(?P<_gpus_launcher>\d{{1,12}})\s+\|"),
    rule(_TRAINERS, rf"^[^|]*\b{_TRAINERS}\W+(?P<_gpus_environment>\d{{1,12}})\b"),
    # The older launcher's "gpus:" and "ips:" are arguments that the environment may overrule: a
    # job of four nodes prints one address.
    rule("devices: ", r"LAUNCH INFO \S+ \S+ devices: (?P<_node_gpus>\d+(?:,\d+)*)\s*$"),
    rule("nnodes: ", r"LAUNCH INFO \S+ \S+ nnodes: (?P<_nodes>\d{1,12})\s*$"),
)

DYGRAPH_LINE = (
    r"\[Train\]\[Epoch (?P<epoch>\d{1,6})/(?P<epochs>\d{1,6})\]"
    r"\[Iter: ?(?P<iteration>\d{1,12})/(?P<total>\d{1,12})\](?P<middle>(?:(?!\[Train\]).)*?)"
    r"batch_cost: (?P<step_seconds>\d+\.\d+) ?s, "
    r"reader_cost: (?P<data_seconds>\d+\.\d+)(?: ?s)?, ips: (?P<rate>\d+\.\d{5,}) ?"
)
"""Training line of PaddleClas' newer engine and plsc 2.4, without unit."""

# -- configuration --------------------------------------------------------------------------------
#
# PaddleClas and plsc 2.4 print it as sections: ``[2023/07/28 06:42:45] ppcls INFO:     Train : ``.
# Paddle's own logger, which prints plsc's lines again on stderr, names the file in place of the
# program: ``[2026-11-25 09:22:11,141] [    INFO] logger.py:80 -     Train : ``.

_SETTING = r"(?:INFO:|\blogger\.py:\d+ -)"
_MODEL = padded(_SETTING + r" (?:ARCHITECTURE|Arch|Model) : ")
_NAME = padded(_SETTING + r"\s+name : (?P<model>\S+)")
_LOADER = padded(_SETTING + r"\s+(?P<section>Train|Eval|Infer|TRAIN|VALID) : *$")
_BATCH = padded(_SETTING + r"\s+batch_size : (?P<batch>\d{1,12})\s*$")
_BATCH_OF = {"Train": "batch_size", "TRAIN": "global_batch"}
"""Section → what its batch is of: of 2020's, all cards together."""
_CONFIGURED = "ARCHITECTURE Arch Model Train Eval Infer TRAIN VALID batch_size name"


class ConfigurationReader(LineReader):
    """Reads model and batch from the sections of a printed configuration."""

    _names_model = False
    _section = ""

    def __init__(self, family: Family) -> None:
        super().__init__(family)
        self.head_needles |= {f"{name} : " for name in _CONFIGURED.split()}

    def facts(self, line: CleanLine) -> Iterator[Fact]:
        """Apply the rules, then the sections."""
        yield from super().facts(line)
        if _MODEL.search(line.text):
            self._names_model = True
        elif self._names_model and (match := _NAME.search(line.text)):
            self._names_model = False
            yield line.fact("model", match["model"])
        if match := _LOADER.search(line.text):
            self._section = match["section"]
        elif self._section in _BATCH_OF and (match := _BATCH.search(line.text)):
            yield line.fact(_BATCH_OF[self._section], match["batch"])
            self._section = ""


# -- GPUs -----------------------------------------------------------------------------------------


def gpus_of_job(stated: Mapping[str, Fact]) -> Iterator[Fact]:
    """GPUs of the job, by each statement of the log, the most reliable first.

    An environment that a shell has printed may count nodes: where the program and its launcher
    agree on another number, theirs stands.
    """
    counts = [stated[name] for name in _BELIEF if name in stated]
    if not counts and "_node_gpus" in stated and "_nodes" in stated:
        devices = stated["_node_gpus"]
        gpus = (devices.value.count(",") + 1) * int(stated["_nodes"].value)
        counts.append(devices.like("gpus", str(gpus)))
    environment = stated.get("_gpus_environment")
    agree = len(counts) > 1 and len({int(count.value) for count in counts}) == 1
    if environment is not None and not agree:
        name = "gpus_by_environment" if counts else "gpus"
        yield environment.like(name, str(int(environment.value)))
    for count in counts:
        yield count.like("gpus", str(int(count.value)))


# -- PaddleSeg -------------------------------------------------------------------------------------
#
# Logs of PaddleSeg.
#
# ``ips`` is samples/s of ONE card, a mean over the log interval, data wait included. Evaluations
# and checkpoints lie between records, in the time of none. ``ips: 127.0.0.1`` is the launcher's
# list of addresses and no rate.

_SEG_SHAPE = Shape(name="paddleseg", number="rate", per="card", resolution=1.0)

# Its newer logger writes ``[2024/10/18 17:05:06] INFO: ``.
_SEG_STAMP = r"(?:\[?(?P<stamp>\d{4}[-/]\d\d[-/]\d\d \d\d:\d\d:\d\d)\]?\s+(?:\[INFO\]|INFO:)\s*)?"
_SEG_RECORD = padded(
    _SEG_STAMP + r"\[TRAIN\] epoch[:=] ?(?P<epoch>\d{1,6}), "
    r"iter[:=] ?(?P<iteration>\d{1,12})/(?P<total>\d{1,12}), loss[:=] ?" + LOSS_NUMBER + r", "
    r"[^\[\]]*?batch_cost[:=] ?(?P<step_seconds>\d+\.\d+), "
    r"reader_cost[:=] ?(?P<data_seconds>\d+\.\d+), "
    r"(?:[^\[\]]*?, )??ips[:=] ?(?P<rate>\d+\.\d{4,}) ?(?:samples/s(?:ec)?)?(?=[\s|,]|$)"
    r"(?:, max_mem_reserved: \d+ MB, max_mem_allocated: (?P<memory>\d+) MB)?"
)
_SEG_EVALUATION = padded(_SEG_STAMP + r"\[EVAL\] [^\[\]]*?\bmIoU[:=] ?(?P<value>\d+\.\d+|nan)")
_SEG_MODEL = re.compile(r"^  type: (?P<model>\w+)\s*$")


class _PaddlesegReader(LineReader):
    """Reads the model: the first type of the configuration's section ``model``."""

    _in_model = False

    def __init__(self, family: Family) -> None:
        super().__init__(family)
        self.head_needles |= {"model:", "  type: "}

    def facts(self, line: CleanLine) -> Iterator[Fact]:
        yield from super().facts(line)
        self._in_model |= line.text.rstrip() == "model:"
        if self._in_model and (match := _SEG_MODEL.match(line.text)):
            self._in_model = False
            yield line.fact("model", match["model"])


def _derive_seg(stated: Mapping[str, Fact]) -> Iterator[Fact]:
    yield from gpus_of_job(stated)
    # AMP is an option that no configuration holds: FP32 is no more than its default.
    yield from assumed_fp32(stated, "precision_default")


PADDLESEG = Family(
    name="paddleseg",
    title="PaddleSeg",
    framework="paddle",
    unit="samples/s",
    opening="Environment Information",
    facts=(
        rule("platform: ", r"^platform: (?P<platform>.+)"),
        rule("Python: ", r"^Python: (?P<python>\d[\d.]*)"),
        rule("cudnn: ", r"^cudnn: (?P<cudnn>[\d.]+)"),
        rule("GPUs used: ", r"^GPUs used: (?P<_gpus_program>\d{1,12})"),
        rule("GPU: ['GPU ", r"^GPU: \['GPU \d+: (?P<gpu_model>[^']+)'"),
        rule("PaddlePaddle: ", r"^PaddlePaddle: (?P<framework_version>\S+)", program="PaddleSeg"),
        rule("PaddleSeg: ", r"^PaddleSeg: (?P<program_version>\S+)"),
        rule("batch_size: ", r"^batch_size: (?P<batch_size>\d{1,12})"),
        rule("dataset_root: ", r"^ +dataset_root: (?:\S*/)?(?P<dataset>[^\s/]+)/?$"),
        rule("iters: ", r"^iters: (?P<planned_iterations>\d{1,12})"),
        rule("to train", r"(?i)use amp to train", precision="amp", amp_dtype="fp16"),
        rule("fp16", r"--precision[= ']+fp16|'--fp16'|--fp16\b", precision="amp", amp_dtype="fp16"),
        rule("--precision", r"--precision[= ',]+(?P<precision>fp32)\b"),
        rule("Config Information", _config="True"),
        *LAUNCH,
    ),
    late_facts=(rule("Total Params: ", r"Total Params: (?P<parameters>\d+)"),),
    derive=_derive_seg,
    records=(RecordRule("[TRAIN] epoch", _SEG_RECORD, _SEG_SHAPE),),
    evaluations=(EvaluationRule("[EVAL]", _SEG_EVALUATION, "mIoU"),),
    marks=(
        MarkRule("Start evaluating", "evaluation"),
        MarkRule("Resume model from", "restart"),
    ),
    make_reader=_PaddlesegReader,
)

# -- PaddleClas ------------------------------------------------------------------------------------
#
# PaddleClas in its three shapes. All figures are ONE card's.
#
# 2020 prints ``elapse … ips`` and its documentation calls them those of that step. From 2021 on
# ``batch_cost … ips`` are running means since step 5 of the epoch, and begin anew in each epoch.
# The dygraph engine prints the same numbers in lines of another form; its means begin anew at
# step 5 alone, so an epoch's first line goes on from the last one of the epoch before. The time
# of the switch to the next epoch is in no record.

_CLAS_SHAPE = Shape(
    name="paddleclas",
    number="seconds",
    per="card",
    averaged="running",
    skips=5,
    numbering="epoch",
    resolution=1.0,
)
_CLAS_STEP = msgspec.structs.replace(
    _CLAS_SHAPE, name="paddleclas 2020", number="rate", averaged="step", complete=False
)
_CLAS_DYGRAPH_SHAPE = msgspec.structs.replace(
    _CLAS_SHAPE, name="paddleclas dygraph", first_epoch=1, carries=True
)

_CLAS_STAMP = r"(?:\[?(?P<stamp>\d{4}[-/]\d\d[-/]\d\d \d\d:\d\d:\d\d)\]? (?:\w+ )?INFO: )?"
_CLAS_BEGIN = (
    _CLAS_STAMP + r"epoch:(?P<epoch>\d{1,6})\s+(?:, )?train step:(?P<iteration>\d{1,12})\s"
    # What stands between differs by generation; another record's beginning must not.
    r"(?P<middle>(?:(?!epoch:).)*?)"
)
_CLAS_RATE = r"ips: (?P<rate>\d+\.\d{5,}) ?(?:\w+/s(?:ec)?\b)?"
_CLAS_RECORD = padded(
    _CLAS_BEGIN + r"batch_cost: (?P<step_seconds>\d+\.\d+) ?s, "
    r"reader_cost: (?P<data_seconds>\d+\.\d+) ?s, " + _CLAS_RATE
)
_CLAS_STEP_RECORD = padded(_CLAS_BEGIN + r"elapse: (?P<step_seconds>\d+\.\d+)s?,? " + _CLAS_RATE)
# plsc 2.4 prints lines of this form with other figures: the whole job's.
_CLAS_DYGRAPH_RECORD = padded(_CLAS_STAMP + r"(?<!plsc INFO: )(?<!\d - )" + DYGRAPH_LINE)
# The newer line's own ips is that of another batch: only its times are used.
_CLAS_END_TIMES = padded(
    r"END epoch:(?P<epoch>\d{1,6})\s+train\s.*?batch_cost: (?P<mean_seconds>\d+\.\d+) ?s"
    r".*?batch_cost_sum: (?P<sum_seconds>\d+\.\d+) ?s"
)
_CLAS_END_RATES = padded(
    r"END epoch:(?P<epoch>\d{1,6})\s+train\s"
    r".*?elapse_sum: (?P<sum_seconds>\d+\.\d+)s?\s*ips: (?P<mean_rate>\d+\.\d+)"
)
_CLAS_END_EVALUATION = padded(
    _CLAS_STAMP + r"END epoch:\d{1,6}\s+(?:valid|eval)\s.*?\btop1:\s+(?P<value>\d+\.\d+)"
)
_CLAS_EVALUATION = padded(
    _CLAS_STAMP + r"\[Eval\]\[Epoch \d+\]\[Avg\].*?\btop1: (?P<value>\d+\.\d+)"
)


def _derive_clas(stated: Mapping[str, Fact]) -> Iterator[Fact]:
    yield from gpus_of_job(stated)
    # The AMP section is printed where it is set, and may still switch AMP off; pure fp16 is
    # switched by a setting of its own.
    if "_amp_off" in stated and "_half" not in stated:
        yield stated["_amp_off"].like("precision", "fp32")
    elif setting := stated.get("_half") or stated.get("_amp_section"):
        yield setting.like("precision", "amp")
        yield setting.like("amp_dtype", "fp16")
    else:
        yield from assumed_fp32(stated)


PADDLECLAS = Family(
    name="paddleclas",
    title="PaddleClas",
    framework="paddle",
    unit="images/s",
    opening="is powered by PaddlePaddle",
    facts=(
        rule("PaddleClas is powered by", program="PaddleClas", _config="True"),
        rule("AMP : ", r"INFO:\s+AMP : ", _amp_section="True"),
        rule("use_amp : False", _amp_off="True"),
        rule("fp16 : True", r"use_(?:pure_)?fp16 : True", _half="True"),
        rule("num_shards", r"num_shards: (?P<_gpus_program>\d{1,12})\b"),
        # Unless they are as many as the strategy is for.
        rule("number of gpu", r"the number of gpus? is (?P<_gpus_program>\d{1,12}) in current"),
        rule("train with paddle", r"and device (?:CPUPlace|Place\(cpu\))", device="cpu"),
        rule(
            "PaddlePaddle", r"\bPaddlePaddle(?: version)?[: ]+(?P<framework_version>\d+\.\d+\.\d+)"
        ),
        *LAUNCH,
    ),
    derive=_derive_clas,
    records=(
        RecordRule("batch_cost: ", _CLAS_RECORD, _CLAS_SHAPE, first_iteration=0),
        RecordRule("elapse: ", _CLAS_STEP_RECORD, _CLAS_STEP, first_iteration=0),
        RecordRule("[Train][Epoch ", _CLAS_DYGRAPH_RECORD, _CLAS_DYGRAPH_SHAPE, first_iteration=0),
    ),
    evaluations=(
        EvaluationRule("END epoch:", _CLAS_END_EVALUATION, "top1"),
        EvaluationRule("[Eval][Epoch ", _CLAS_EVALUATION, "top1"),
    ),
    marks=(
        MarkRule("END epoch:", "epoch-end", _CLAS_END_TIMES),
        MarkRule("END epoch:", "epoch-end", _CLAS_END_RATES),
        MarkRule("END epoch:", "evaluation", padded(r"END epoch:\d{1,6}\s+(?:valid|eval)\s")),
        MarkRule("valid step:", "evaluation"),
        MarkRule("[Eval][Epoch ", "evaluation"),
        MarkRule("save model in", "checkpoint"),
        MarkRule("Finish load checkpoints from", "restart"),
    ),
    make_reader=ConfigurationReader,
)

# -- PLSC ------------------------------------------------------------------------------------------
#
# PLSC, three generations; every figure is the WHOLE JOB's images/s.
#
# v1 (2020) prints ``qps`` since the print before, of the time inside the executor alone: the wait
# for data is left out, so its times do not add up to the clock. Every worker prints. v2.2 (2021)
# prints ``throughput`` over the log interval, validation and checkpoints included. v2.4 (2023)
# prints PaddleClas' lines with ``ips`` over the log interval, evaluations left out; where it
# trains a classification, they are running means as PaddleClas' are.

_PLSC_V1 = Shape(name="plsc v1", number="rate", numbering="epoch", complete=False, resolution=0.001)
_PLSC_V2 = Shape(name="plsc v2", number="rate", holds_events=True, resolution=0.001)
_PLSC_V24 = Shape(name="plsc v2.4", number="rate", numbering="epoch", first_epoch=1, resolution=1.0)
_PLSC_V24_RUNNING = msgspec.structs.replace(_PLSC_V24, averaged="running", skips=5, carries=True)

_PLSC_STAMP = r"(?P<stamp>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})"
_PLSC_V1_RECORD = padded(
    r"(?:" + _PLSC_STAMP + r" [^:\]]*:?\d*\] ?)?"
    r"Pass:(?P<epoch>\d{1,6}) batch:(?P<iteration>\d{1,12}) lr:\S+ loss:" + LOSS_NUMBER + r" "
    r"qps:(?P<rate>\d+\.\d\d)(?!\d)"
)
_PLSC_V2_RECORD = padded(
    r"(?:" + _PLSC_STAMP + r" - )?loss " + LOSS_NUMBER + r", lr: \S+, epoch: \d+, "
    r"step: (?P<iteration>\d{1,12}), [^,]*?"
    r"(?:eta: [^,]*, )?throughput: (?P<rate>\d+\.\d+) imgs/s(?:ec)?"
)
# Under a newer Paddle each line comes again in the form of Paddle's own logger, without the name.
_PLSC_V24_RECORD = padded(
    r"(?:\[(?P<stamp>\d{4}[-/]\d\d[-/]\d\d \d\d:\d\d:\d\d(?:,\d{3})?)\] )?(?:\[ *INFO\] )?"
    r"(?:plsc INFO: |logger\.py:\d+ - )" + DYGRAPH_LINE + "images/sec"
)
_PLSC_ACCURACY = padded(
    r"(?:" + _PLSC_STAMP + r" - )?\[(?P<subset>\w+)\]\[\d+\]Accuracy-Flip: (?P<value>\d+\.\d+)"
)
_PLSC_ACCURACY_24 = padded(
    r"\[Eval\]\[Epoch \d+\]\[Avg\].*?\b(?P<metric>accuracy-flip|accuracy|top1): (?P<value>\d\.\d+)"
)


def _argument(key: str, value: str, **says: str) -> FactRule:
    """Version 2 prints its arguments and what follows from them, one a line."""
    return rule(f" - {key}: ", rf"^Training: \S+ \S+ - {key}: {value}\s*$", **says)


def _setting(name: str, default: str, said: str, value: str) -> tuple[FactRule, FactRule]:
    """Version 1 prints the default, and what sets another value."""
    return (
        rule("entry.py:", rf"\]\s+{default}: (?P<_default_{name}>{value})\s*$"),
        rule("entry.py:", rf"\] Set {said} to (?P<_set_{name}>{value})\.$"),
    )


def _derive_plsc(stated: Mapping[str, Fact]) -> Iterator[Fact]:
    yield from gpus_of_job(stated)
    for name in ("batch_size", "head", "classes"):
        if fact := stated.get(f"_set_{name}") or stated.get(f"_default_{name}"):
            yield fact.like(name, fact.value)


class _PlscReader(ConfigurationReader):
    """Reads the lines of version 2.4 by the task that the configuration states."""

    def rules(self) -> list[LineRule]:
        v1, v2, means, running, *others = super().rules()

        def read(line: CleanLine) -> Iterable[Item]:
            return (running if "_classifies" in self._stated else means).read(line)

        return [v1, v2, means._replace(read=read), *others]


PLSC = Family(
    name="plsc",
    warmup=50,
    title="PLSC",
    framework="paddle",
    unit="images/s",
    opening="--------args----------",
    facts=(
        rule("entry.py:", r"\bentry\.py:\d+\]", program="PLSC"),
        rule("=> ", r"total_batch_size: (?P<global_batch>\d{1,12})"),
        _argument("dataset", r"(?P<dataset>\S.*?)"),
        _argument("batch_size", r"(?P<batch_size>\S.*?)"),
        _argument("world_size", r"(?P<_gpus_program>\d{1,12})"),
        _argument("total_steps", r"(?P<planned_iterations>\S.*?)"),
        _argument("log_interval_step", r"(?P<log_interval>\S.*?)"),
        _argument("backbone", r"(?P<model>\S.*?)"),
        _argument("loss", r"(?P<head>\S.*?)"),
        _argument("num_classes", r"(?P<classes>\S.*?)"),
        _argument("sample_ratio", r"(?P<sample_ratio>\S.*?)"),
        _argument("classifier", r"\S.*?", program="PLSC", program_version="2"),
        _argument("fp16", "True", precision="amp", amp_dtype="fp16"),
        _argument("fp16", "False", precision="fp32"),
        _argument("use_synthetic_dataset", "True", data="synthetic"),
        _argument("use_synthetic_dataset", "False", data="real"),
        rule("entry.py:", r"\]\s+model_name: (?P<model>\S+)"),
        *_setting("batch_size", "train_batch_size", "train batch size", r"\d{1,12}"),
        *_setting("head", "loss_type", "loss_type", r"\w+"),
        *_setting("classes", "num_classes", "num_classes", r"\d{1,12}"),
        rule("num_trainers: ", r"trainer_id: \d+, num_trainers: (?P<_gpus_program>\d{1,12})"),
        rule("plsc INFO: ", program="PLSC", program_version="2"),
        rule("world_size : ", _SETTING + r"\s+world_size : (?P<_gpus_program>\d{1,12})\s*$"),
        rule("class_num : ", _SETTING + r"\s+class_num : (?P<classes>\d{1,12})\s*$"),
        rule("task_type : classification", _classifies="True"),
        rule("level : O0", precision="fp32"),
        rule("level : O", _SETTING + r"\s+level : O[12]", precision="amp", amp_dtype="fp16"),
        rule(
            "train with paddle",
            r"train with paddle (?P<framework_version>\d[\d.]*\d)",
            program="PLSC",
        ),
        rule("device Place(cpu)", device="cpu"),
        *LAUNCH,
    ),
    derive=_derive_plsc,
    records=(
        RecordRule(" batch:", _PLSC_V1_RECORD, _PLSC_V1, first_iteration=0),
        RecordRule("throughput:", _PLSC_V2_RECORD, _PLSC_V2),
        RecordRule("[Train][Epoch ", _PLSC_V24_RECORD, _PLSC_V24, first_iteration=0),
        RecordRule("[Train][Epoch ", _PLSC_V24_RECORD, _PLSC_V24_RUNNING, first_iteration=0),
    ),
    evaluations=(
        EvaluationRule("Accuracy-Flip: ", _PLSC_ACCURACY, "Accuracy-Flip"),
        EvaluationRule("[Eval][Epoch ", _PLSC_ACCURACY_24, unit="fraction"),
    ),
    marks=(
        MarkRule("Save model to", "checkpoint"),
        MarkRule("[Eval][Epoch ", "evaluation"),
        MarkRule("Already save ", "checkpoint"),
        MarkRule("Finish load checkpoint from", "restart"),
    ),
    make_reader=_PlscReader,
)


# -- PaddleVideo -----------------------------------------------------------------------------------
#
# ``ips`` is clips/s of ONE card, of that single step; one step in twenty is printed. The mean over
# all steps stands in the line that ends an epoch.

_VIDEO_SHAPE = Shape(
    name="paddlevideo",
    number="rate",
    per="card",
    averaged="step",
    numbering="epoch",
    first_epoch=1,
    complete=False,
    resolution=1.0,
    wraps=UNDATED_SPAN,
)

_VIDEO_RECORD = padded(
    r"(?:\[(?P<stamp>\d\d/\d\d \d\d:\d\d:\d\d)\]\s+)?"
    r"epoch:\[\s*(?P<epoch>\d{1,6})/\d+\s*\]\s*train step:(?P<iteration>\d{1,12})\s+"
    # In January 2021 the loss stood behind the times; before and after, in front of them.
    r"(?=(?P<middle>(?:(?!epoch:).)*?ips: ))(?:(?!epoch:).)*?"
    r"(?:elapse|batch_cost): (?P<step_seconds>\d+\.\d+)(?: ?s(?:ec)?,?)?\s+"
    r"(?:reader|reader_cost): (?P<data_seconds>\d+\.\d+)(?: ?s(?:ec)?,?)?\s*"
    r"(?:(?!epoch:|ips: ).)*?ips: (?P<rate>\d+\.\d{5,}) ?(?:instance/s(?:ec)?)?"
)
_VIDEO_END = padded(
    r"END epoch:(?P<epoch>\d{1,6})\s+train\s.*?"
    r"(?:elapse_avg|batch_cost_avg|avg_batch_cost|batch_cost): \d+\.\d+"
    r"(?:.*?(?:elapse_sum|batch_cost_sum): (?P<sum_seconds>\d+\.\d+))?"
    r".*?ips: (?P<all_steps_rate>\d+\.\d+)"
)
_VIDEO_EVALUATION = padded(r"END epoch:\d{1,6}\s+val\s.*?\btop1_avg: (?P<value>\d+\.\d+)")

PADDLEVIDEO = Family(
    name="paddlevideo",
    title="PaddleVideo",
    framework="paddle",
    unit="clips/s",
    facts=(
        rule("/PaddleVideo/", program="PaddleVideo"),
        rule("<paddlevideo.", program="PaddleVideo"),
        rule("batch_size : ", r"\bbatch_size : (?P<batch_size>\d{1,12})\s*$"),
        rule("--amp", r"(?:^|\s|')--amp\b", precision="amp", amp_dtype="fp16"),
        rule("Training in amp mode, ", precision="amp", amp_dtype="fp16"),
        rule("Training in fp32 mode.", precision="fp32"),
        rule("GradScaler", precision="amp", amp_dtype="fp16"),
        rule("loss_scaler.py", precision="amp", amp_dtype="fp16"),
        *LAUNCH,
    ),
    derive=gpus_of_job,
    records=(RecordRule("train step:", _VIDEO_RECORD, _VIDEO_SHAPE, first_iteration=0),),
    evaluations=(EvaluationRule("END epoch:", _VIDEO_EVALUATION, "top1"),),
    marks=(
        MarkRule("END epoch:", "epoch-end", _VIDEO_END),
        MarkRule("END epoch:", "evaluation", padded(r"END epoch:\d{1,6}\s+val\s")),
        MarkRule("val step:", "evaluation"),
    ),
)
