"""Logs of programs that train language models: torchtitan, nanoGPT and its kin, and others.

Each is a table of expressions. A throughput is in tokens where the program counts them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from k8sbench.model.sample import Fact, Item, Shape
from k8sbench.parse.family import (
    BATCH_DOUBT,
    DATED,
    EvaluationRule,
    Family,
    LineReader,
    LineRule,
    MarkRule,
    RecordRule,
    in_units,
    number_in,
    padded,
    plain_number,
    rule,
)
from k8sbench.parse.json_fields import JsonFields
from k8sbench.parse.lines import CleanLine
from k8sbench.parse.totals import Total, TotalsReader

_LOSS = r"(?P<loss>[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|nan|inf))"
_NUMBER = r"\d[\d,]*(?:\.\d+)?"
_A_STEP = re.compile(r"step +\d")
_MIB = {"MiB": 1.0, "GiB": 1024.0}


def _amp(half: str) -> dict[str, str]:
    return {"precision": "amp", "amp_dtype": half}


# torchtitan.
#
# ``tps`` (``wps`` until 2025) is the tokens per second of one GPU since the line before, the wait
# for data included: the tokens of one data-parallel rank by the GPUs that share them. Checkpoints
# lie in the time of the next line. Every rank may print.

_TITAN_SHAPE = Shape(
    name="torchtitan", number="rate", per="card", holds_events=True, resolution=0.001
)
_TITAN_RECORD = padded(
    r"(?:(?P<stamp>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) - .*?)?"
    rf"(?<!validate\s)\bstep: *(?P<iteration>\d{{1,12}}) +loss: *{_LOSS}\b.*?"
    r"(?: memory: *(?P<memory>[\d.]+)(?P<memory_unit>[GM]iB)\([\d.]+%\).*?)?"
    rf" (?:tps|wps): *(?P<rate>{_NUMBER})(?= )"
    rf"(?: +tflops: *(?P<tflops>{_NUMBER})(?= ))?(?: +mfu: *(?P<mfu>[\d.]+)%)?"
)


def _titan(texts: dict[str, Any]) -> None:
    for name in ("rate", "tflops"):
        texts[name] = plain_number(texts[name])
    memory = number_in(texts["memory"])
    texts["memory"] = memory and memory * _MIB[texts["memory_unit"]]


def _mesh(stated: Mapping[str, Fact]) -> Iterator[Fact]:
    """Derive the GPUs from the sizes of a mesh: ``2, 4`` or ``pp=2, dp_shard=4``."""
    mesh = stated.get("_mesh")
    gpus = 1
    if mesh is not None and "gpus" not in stated:
        for size in re.findall(r"\d+", mesh.value):
            gpus *= int(size)
        yield mesh.like("gpus", str(gpus))


TORCHTITAN = Family(
    name="torchtitan",
    title="torchtitan",
    framework="pytorch",
    unit="tokens/s",
    facts=(
        rule("device mesh with [", r"device mesh with \[.*?\], \[(?P<_mesh>[\d, ]+)\]"),
        rule(
            "device mesh with parallelism: ",
            # Expert parallelism has no GPUs of its own.
            r"parallelism: (?P<_mesh>pp=\d+, dp_replicate=\d+, dp_shard=\d+, cp=\d+, tp=\d+)",
        ),
        rule(" tokens per train step", r" (?P<tokens_per_step>[\d,]+) tokens per train step"),
        rule("Starting job: ", program="torchtitan"),
        rule("global batch size ", r"global batch size (?P<global_batch>\d+),"),
        rule("sequence length ", r"sequence length (?P<sequence_length>\d+)"),
        rule("context length ", r"maximum context length (?P<sequence_length>\d+)"),
        rule("total steps ", r"total steps (?P<planned_iterations>\d+)"),
        rule("CUDA capacity: ", r"CUDA capacity: (?P<gpu_model>.+?) with"),
        rule("GPU capacity: ", r"GPU capacity: (?P<gpu_model>.+?) \("),
    ),
    derive=_mesh,
    records=(
        RecordRule(
            "step:",
            _TITAN_RECORD,
            _TITAN_SHAPE,
            convert=_titan,
            begins=re.compile(r"\b(?:validate )?step: *\d"),
        ),
    ),
    marks=(
        MarkRule("Saving a full checkpoint", "checkpoint"),
        MarkRule("Saving the checkpoint", "checkpoint"),
        MarkRule("Finished saving the checkpoint", "checkpoint"),
        MarkRule("validate step:", "evaluation"),
        MarkRule("Loading the checkpoint", "restart"),
        MarkRule("Training completed", "finished"),
    ),
    shares_samples=True,
)

# nanoGPT.
#
# The time is of that one iteration of the job, an evaluation before it included. Iterations count
# from 0. The model's words on its FLOPs are of an A100, whatever the GPU is.

_NANOGPT_SHAPE = Shape(
    name="nanogpt", number="seconds", averaged="step", holds_events=True, complete=False
)
_NANOGPT_RECORD = padded(
    rf"\biter (?P<iteration>\d{{1,12}}): loss {_LOSS}(?: [A-Za-z]\w{{0,15}})?, "
    rf"time (?P<step_seconds>{_NUMBER})ms"
    r"(?:, mfu (?P<mfu>-?[\d.]+)%)?"
)
_NANOGPT_LOSS = padded(r"step \d+: train loss [\d.]+, val loss (?P<value>[\d.]+)")

NANOGPT = Family(
    name="nanogpt",
    title="nanoGPT",
    framework="pytorch",
    unit="tokens/s",
    facts=(
        rule("tokens per iteration will be: ", r"will be: (?P<tokens_per_step>[\d,]+)"),
        rule("block_size = ", r"\bblock_size = (?P<sequence_length>\d+)"),
        rule("dtype = ", r"\bdtype = '?bfloat16", **_amp("bf16")),
    ),
    records=(
        RecordRule(
            "iter ",
            _NANOGPT_RECORD,
            _NANOGPT_SHAPE,
            first_iteration=0,
            convert=in_units(1e-3, "step_seconds"),
        ),
    ),
    marks=(
        MarkRule(", val loss ", "evaluation", re.compile(r"\bstep \d+: train loss ")),
        MarkRule("saving checkpoint to ", "checkpoint"),
        MarkRule("Resuming training from", "restart"),
    ),
)

# build-nanogpt and nanochat.
#
# Every step, with its time and the tokens by it. Some versions leave out the accumulation there;
# in build-nanogpt an evaluation lies in the time of the step behind it.

_NANOCHAT_SHAPE = Shape(
    name="nanochat", number="seconds", averaged="step", holds_events=True, complete=False
)
_NANOCHAT_RECORD = padded(
    r"\bstep +(?P<iteration>\d{1,12})(?:/(?P<total>\d{1,12}))?(?: \([\d.]+%\))? ?[|,] ?"
    rf"(?:train )?loss: {_LOSS}\b.*?\bdt: (?P<step_seconds>{_NUMBER})ms ?[|,] "
    rf"tok/sec: (?P<rate>{_NUMBER})(?: \| (?:bf16_)?mfu: (?P<mfu>[\d.]+))?"
)


def _nanochat(texts: dict[str, Any]) -> None:
    in_units(1e-3, "step_seconds", "rate")(texts)
    rate = texts.pop("rate")
    seconds = texts["step_seconds"]
    texts["step_samples"] = rate and seconds and 1e3 * rate * seconds


NANOCHAT = Family(
    name="nanochat",
    title="nanochat, build-nanogpt",
    framework="pytorch",
    unit="tokens/s",
    facts=(
        rule(
            "total desired batch size: ", r"total desired batch size: (?P<tokens_per_step>[\d,]+)"
        ),
        rule("Total batch size ", r"Total batch size (?P<tokens_per_step>[\d,]+)"),
        rule(
            "Tokens / micro-batch / rank: ",
            r"micro-batch / rank: (?P<micro_batch>\d+) x (?P<sequence_length>\d+) = [\d,]+",
        ),
        rule("world size", r"\b[Ww]orld size[:=] ?(?P<gpus>\d+)"),
        rule("world size", rf"^{DATED}\b.*\bworld size\b"),
    ),
    records=(
        RecordRule(
            "tok/sec: ",
            _NANOCHAT_RECORD,
            _NANOCHAT_SHAPE,
            first_iteration=0,
            convert=_nanochat,
            begins=_A_STEP,
        ),
    ),
    marks=(
        MarkRule("validation loss: ", "evaluation"),
        MarkRule("Validation bpb: ", "evaluation"),
    ),
)

# llm.c.
#
# The milliseconds are of that step of the job, exactly; ``tok/s`` is smoothed over steps, and so is
# the share of the peak. Evaluations and checkpoints lie between the steps.

_LLMC_SHAPE = Shape(name="llm.c", number="seconds", averaged="step", complete=False)
_LLMC_RECORD = padded(
    rf"\bstep +(?P<iteration>\d{{1,12}})/(?P<total>\d{{1,12}}) \| (?:train )?loss +{_LOSS}\b[^|]*"
    rf"\|.*?\| ?\(?(?P<step_seconds>{_NUMBER}) ms \|(?: (?P<mfu>-?[\d.]+)% \w+ MFU \|)?"
    r" (?P<smoothed>\d+) tok/s"
)

LLM_C = Family(
    name="llm.c",
    title="llm.c",
    framework="cuda",
    unit="tokens/s",
    facts=(
        rule("total_batch_size ", r"\| total_batch_size +\| (?P<tokens_per_step>\d+)"),
        rule("total batch size ", r"\btotal batch size +\| (?P<tokens_per_step>\d+)"),
        rule("sequence length T ", r"\| sequence length T +\| (?P<sequence_length>\d+)"),
        rule("num_processes ", r"\| num_processes +\| (?P<gpus>\d+)"),
        rule("| device ", r"\| device +\| (?P<gpu_model>\S.*?) +\|"),
        rule("| precision ", r"\| precision +\| BF16", **_amp("bf16")),
        rule("| precision ", r"\| precision +\| FP16", **_amp("fp16")),
        rule("| precision ", r"\| precision +\| FP32", precision="fp32"),
    ),
    records=(
        RecordRule(
            " tok/s",
            _LLMC_RECORD,
            _LLMC_SHAPE,
            convert=in_units(1e-3, "step_seconds"),
            begins=_A_STEP,
        ),
    ),
    evaluations=(
        EvaluationRule(
            "HellaSwag: ",
            re.compile(r"HellaSwag: \d+/\d+ = (?P<value>[\d.]+)"),
            "HellaSwag",
            "fraction",
        ),
    ),
    marks=(
        MarkRule("val loss ", "evaluation"),
        MarkRule("Writing model to ", "checkpoint"),
    ),
)

# modded-nanogpt.
#
# ``train_time`` is the time of all steps since the timer began, which excludes evaluations;
# ``step_avg`` is that time by the steps. The timer begins anew after a few steps of warm-up.

_MODDED_SHAPE = Shape(name="modded-nanogpt", number="seconds", begins_late=True)
_MODDED_RECORD = padded(
    r"(?<!warmup_)\bstep:(?P<iteration>\d{1,12})/(?P<total>\d{1,12}) (?:\[\w+\] )?"
    r"(?:(?:train_)?loss:(?P<loss>[\d.]+|nan) )?(?:lr:\S+ )?"
    r"(?:train_time|t):(?P<elapsed>[\d.]+)(?P<time_unit>m?s)\b"
)


def _modded(texts: dict[str, Any]) -> None:
    in_units(1e-3 if texts["time_unit"] == "ms" else 1.0, "elapsed")(texts)


_VARIES = "The program changes its batch while it trains, and its lines do not state it."
_PRODUCT = r"\d+(?: ?\* ?\d+)*"


def _products(stated: Mapping[str, Fact]) -> Iterator[Fact]:
    """Work out sizes that the source states as products: ``8*64``."""
    facts = {
        "_batch": "global_batch",
        "_length": "sequence_length",
        "_tokens": "tokens_per_step",
    }
    for name, fact in facts.items():
        if name in stated and BATCH_DOUBT not in stated:
            factors = map(int, re.findall(r"\d+", stated[name].value))
            yield stated[name].like(fact, str(math.prod(factors)))


MODDED_NANOGPT = Family(
    name="modded-nanogpt",
    title="modded-nanogpt",
    framework="pytorch",
    unit="tokens/s",
    facts=(
        rule("train_batch_tokens:", r"\btrain_batch_tokens:(?P<tokens_per_step>\d+)"),
        rule("train_seq_len:", r"\btrain_seq_len:(?P<sequence_length>\d+)"),
        rule("world_size:", r"^world_size:(?P<gpus>\d+)"),
        # The log begins with the program's source.
        rule(
            "batch size, in sequences, across all devices",
            rf"\bbatch_size : int = (?P<_batch>{_PRODUCT}) *# batch size, in sequences, across all",
        ),
        rule(
            "sequence length, in tokens",
            rf"\bsequence_length : int = (?P<_length>{_PRODUCT}) *# sequence length, in tokens",
        ),
        rule("seq_len = ", rf"^ *(?:train_)?seq_len = (?P<_length>{_PRODUCT}) *# FlexAttention"),
        # A sequence for each GPU, and no accumulation.
        rule("world_size * args.", r"world_size \* args\.(?:train_)?seq_len\b", batch_size="1"),
        rule("batch_size = ", rf"\bbatch_size = (?P<_tokens>{_PRODUCT}) *# batch size in tokens"),
        rule("train_batch_size: int", rf"train_batch_size: int = (?P<_tokens>{_PRODUCT})"),
        rule("train_bs_schedule", **{BATCH_DOUBT: _VARIES}),
        rule("class TrainingStage", **{BATCH_DOUBT: _VARIES}),
    ),
    derive=_products,
    records=(RecordRule("step:", _MODDED_RECORD, _MODDED_SHAPE, convert=_modded),),
    marks=(MarkRule("val_loss:", "evaluation"),),
    make_reader=TotalsReader,
)

# OLMo and OLMo-core.
#
# A record has several lines: its head has the step, a later one the tokens per second of one
# device, a mean of the last few steps. The first step has none.

_OLMO_SHAPE = Shape(name="olmo", number="rate", per="card", begins_late=True)
_OLMO_STEP = padded(r"\[step=(?P<iteration>\d{1,12})(?:/(?P<total>\d{1,12}))?[,\]]")
_OLMO_RATE = padded(rf"\bthroughput/device/(?:tokens_per_second|TPS)=(?P<rate>{_NUMBER})")


class _OlmoReader(LineReader):
    def __init__(self, family: Family) -> None:
        self._steps: dict[str, dict[str, Any]] = {}
        """Groups of the latest head, by rank."""
        super().__init__(family)

    def rules(self) -> list[LineRule]:
        _, *others = super().rules()
        heads = LineRule("[step=", self._head)
        return [heads, LineRule("throughput/device/", self._rate), *others]

    def _head(self, line: CleanLine) -> Sequence[Item]:
        if found := _OLMO_STEP.search(line.text):
            self._steps[line.source] = found.groupdict()
        return ()

    def _rate(self, line: CleanLine) -> Iterator[Item]:
        found = _OLMO_RATE.search(line.text)
        rule, *_ = self._family.records
        step = self._steps.get(line.source)
        if found and step:
            record = rule.built(line, found[0], step | {"rate": plain_number(found["rate"])})
            if record is not None:
                yield record


OLMO = Family(
    name="olmo",
    title="OLMo, OLMo-core",
    framework="pytorch",
    unit="tokens/s",
    facts=(rule("[step=", rf"^{DATED}\b.*\[step="),),
    records=(RecordRule("throughput/device/", _OLMO_RATE, _OLMO_SHAPE),),
    marks=(
        MarkRule("Saving checkpoint", "checkpoint"),
        MarkRule("Running evaluation", "evaluation"),
    ),
    make_reader=_OlmoReader,
)

# torchtune.
#
# The tokens of the step just done by its time and by the GPUs. A space ends each line, which copies
# lack: a number of few digits at the end may be torn.

_TUNE_SHAPE = Shape(name="torchtune", number="rate", per="card", averaged="step", complete=False)
_TUNE_RECORD = padded(
    r"\bStep (?P<iteration>\d{1,12}) \| "
    r"(?=.*?\btokens_per_second_per_gpu:(?P<rate>[\d.eE+]+(?= )|\d+\.\d{4,}$))"
    r"(?:(?=.*?\bloss:(?P<loss>[-+.\deE]+|nan))|).*"
)

TORCHTUNE = Family(
    name="torchtune",
    title="torchtune",
    framework="pytorch",
    unit="tokens/s",
    facts=(rule("log_every_n_steps: ", r"^ *log_every_n_steps: (?P<log_interval>\d{1,9}) *$"),),
    records=(
        RecordRule(
            "tokens_per_second_per_gpu:",
            _TUNE_RECORD,
            _TUNE_SHAPE,
            begins=re.compile(r"Step \d"),
        ),
    ),
)

# MaxText.
#
# Each step's seconds, and the tokens of one device by them.

_MAXTEXT_SHAPE = Shape(name="maxtext", number="rate", per="card", averaged="step", complete=False)
_MAXTEXT_RECORD = padded(
    rf"completed step: (?P<iteration>\d{{1,12}}), seconds: (?P<step_seconds>{_NUMBER}), "
    rf"TFLOP/s(?:/device)?: (?P<tflops>{_NUMBER}), Tokens/s(?:/device)?: (?P<rate>{_NUMBER}),"
    rf"(?:.*?\bloss: {_LOSS})?"
)
_MAXTEXT_TIMED = padded(
    rf"completed step: (?P<iteration>\d{{1,12}}), seconds: (?P<step_seconds>{_NUMBER}), "
    rf"TFLOP/s(?:/device)?: (?P<tflops>{_NUMBER}), (?:loss: {_LOSS})"
)

MAXTEXT = Family(
    name="maxtext",
    title="MaxText",
    framework="jax",
    unit="tokens/s",
    facts=(
        rule("Num_devices: ", r"Num_devices: (?P<gpus>\d+)"),
        rule("max_target_length: ", r"Config param max_target_length: (?P<sequence_length>\d+)"),
        rule("global_batch_size_to_train_on: ", r"to_train_on: (?P<global_batch>\d+)"),
        rule("Config param steps: ", r"Config param steps: (?P<planned_iterations>\d+)"),
        rule("Config param dtype: ", r"Config param dtype: bfloat16", **_amp("bf16")),
        rule("Config param dtype: ", r"Config param dtype: float32", precision="fp32"),
    ),
    records=(
        RecordRule("completed step: ", _MAXTEXT_RECORD, _MAXTEXT_SHAPE, first_iteration=0),
        RecordRule(
            "completed step: ",
            _MAXTEXT_TIMED,
            Shape(name="maxtext 2023", number="seconds", averaged="step", complete=False),
            first_iteration=0,
        ),
    ),
    marks=(
        MarkRule("eval metrics after step", "evaluation"),
        MarkRule("saved a checkpoint at step", "checkpoint"),
    ),
    shares_samples=True,
)

# DeepSpeed's engine.
#
# The running average is the job's samples by the time in forward, backward and step since the
# second step: loading, evaluations and checkpoints lie outside. Until 2022 the steps are those of
# micro batches. The pipeline engine prints means since its line before.

_DEEPSPEED_SHAPE = Shape(
    name="deepspeed", number="rate", averaged="running", skips=2, complete=False, resolution=0.001
)
_DEEPSPEED_RECORD = padded(
    r"(?:\[(?P<stamp>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\] \[INFO\] \[[\w.]+:\d+:\w+\] "
    r"(?:\[Rank \d+\] )?)?"
    r"(?:epoch=\d+/micro_step=\d+/global_step=|\b\d+/)(?P<iteration>\d{1,12}), "
    r"(?:RunningAvgSamplesPerSec=(?=[-+.\de]+,)|SamplesPerSec=)(?P<rate>\d+\.\d+(?:e[-+]\d+)?)"
)
_PIPELINE_SHAPE = Shape(name="deepspeed pipeline", number="rate")
_PIPELINE_RECORD = padded(
    r"\bsteps: (?P<iteration>\d{1,12}) loss: (?P<loss>[-+.\deE]+|nan) "
    r"iter time \(s\): (?P<step_seconds>\d+\.\d+) samples/sec: (?P<rate>\d+\.\d+)"
)

DEEPSPEED = Family(
    name="deepspeed",
    title="DeepSpeed's engine",
    framework="pytorch",
    unit="samples/s",
    facts=(
        rule("dist_world_size=", r"\bdist_world_size=(?P<gpus>\d+)"),
        rule("train_batch_size ..", r"\] +train_batch_size \.+ (?P<global_batch>\d+)$"),
        rule("train_batch_size ..", rf"^\[{DATED}\] .*\btrain_batch_size \.\."),
        rule("bfloat16_enabled ..", r"bfloat16_enabled \.+ True", **_amp("bf16")),
        rule("fp16_enabled ..", r"fp16_enabled \.+ True", **_amp("fp16")),
    ),
    records=(
        RecordRule("SamplesPerSec=", _DEEPSPEED_RECORD, _DEEPSPEED_SHAPE),
        RecordRule("iter time (s): ", _PIPELINE_RECORD, _PIPELINE_SHAPE),
    ),
    marks=(MarkRule("Evaluating ", "evaluation"),),
    shares_samples=True,
    yields_to=(
        "{'loss': ",
        *("using world size: ", "elapsed time per iteration", "|E2E latency="),
    ),
)

# LLaMA-Factory's trainer_log.jsonl.
#
# ``throughput`` is all tokens so far by all seconds so far, of the job, evaluations included. Lines
# of evaluations, of the end and of a prediction have no loss.

_FACTORY_SHAPE = Shape(name="llama-factory", number="seconds", holds_events=True, begins_late=True)
_FACTORY_RECORD = JsonFields(
    {
        "iteration": "current_steps",
        "total": "total_steps",
        "loss": "loss",
        "elapsed": "elapsed_time",
        "mean_rate": "throughput",
        "all_samples": "total_tokens",
    },
    r'"loss": (?!null).*"elapsed_time": ',
)


def clock_seconds(text: str | None) -> float | None:
    """Read ``0:01:23``, ``1:23`` or ``1 day, 0:01:23`` as seconds; None for no such time."""
    found = re.fullmatch(r"(?:(\d+) days?, )?(?:(\d+):)?(\d+):(\d\d(?:\.\d+)?)", text or "")
    if found is None:
        return None
    days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return 86400 * days + 3600 * hours + 60 * minutes + seconds


def _factory(texts: dict[str, Any]) -> None:
    rate = number_in(texts["mean_rate"])
    tokens = number_in(texts["all_samples"])
    # To a hundredth of a token per second, where the clock has whole seconds.
    texts["elapsed"] = tokens / rate if rate and tokens else clock_seconds(texts["elapsed"])


class _FactoryReader(TotalsReader):
    """The timer begins with the process: where it began anew, the run may have been resumed."""

    def __init__(self, family: Family) -> None:
        self._distance: dict[str, float] = {}
        """Steps from the line before to the latest one, by rank."""
        super().__init__(family)

    def seconds_between(self, before: float, now: float) -> float:
        return now - before if now >= before else now

    def totals(self, rule: RecordRule, line: CleanLine) -> Iterator[Item]:
        before = self.before.get(line.source)
        items = list(super().totals(rule, line))
        if before is not None and items and self._is_resumed(line.source, before):
            yield line.mark("restart")
        yield from items

    def _is_resumed(self, source: str, before: Total) -> bool:
        """True if the timer began anew since the line before, and the count of steps did not."""
        now = self.before[source]
        if now.elapsed is None or before.elapsed is None:
            return False
        if now.elapsed < before.elapsed:
            return now.iteration > 2 * self._distance.get(source, math.inf)
        if now.elapsed > before.elapsed and now.iteration > before.iteration:
            self._distance[source] = now.iteration - before.iteration
        return False


LLAMA_FACTORY = Family(
    name="llama-factory",
    title="LLaMA-Factory's trainer_log.jsonl",
    framework="pytorch",
    unit="tokens/s",
    records=(RecordRule('"current_steps": ', _FACTORY_RECORD, _FACTORY_SHAPE, convert=_factory),),
    marks=(
        MarkRule('"eval_loss": ', "evaluation", re.compile(r'"eval_loss": (?!null)')),
        MarkRule('"percentage": 100', "finished"),
    ),
    make_reader=_FactoryReader,
)
