"""Logs of programs that train language models: torchtitan, OLMo, torchtune, MaxText and others.

Each is a table of expressions. A throughput is in tokens where the program counts them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from k8sbench.model.sample import Fact, Item, Shape
from k8sbench.reader.family import (
    DATED,
    Family,
    LineReader,
    LineRule,
    MarkRule,
    RecordRule,
    number_in,
    padded,
    plain_number,
    rule,
)
from k8sbench.reader.json_fields import JsonFields
from k8sbench.reader.lines import CleanLine
from k8sbench.reader.totals import Total, TotalsReader

LOSS = r"(?P<loss>[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|nan|inf))"
NUMBER = r"\d[\d,]*(?:\.\d+)?"
_MIB = {"MiB": 1.0, "GiB": 1024.0}


def amp(half: str) -> dict[str, str]:
    """Return the facts of mixed precision in ``bf16`` or ``fp16``."""
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
    rf"(?<!validate\s)\bstep: *(?P<iteration>\d{{1,12}}) +loss: *{LOSS}\b.*?"
    r"(?: memory: *(?P<memory>[\d.]+)(?P<memory_unit>[GM]iB)\([\d.]+%\).*?)?"
    rf" (?:tps|wps): *(?P<rate>{NUMBER})(?= )"
    rf"(?: +tflops: *(?P<tflops>{NUMBER})(?= ))?(?: +mfu: *(?P<mfu>[\d.]+)%)?"
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

# OLMo and OLMo-core.
#
# A record has several lines: its head has the step, a later one the tokens per second of one
# device, a mean of the last few steps. The first step has none.

_OLMO_SHAPE = Shape(name="olmo", number="rate", per="card", begins_late=True)
_OLMO_STEP = padded(r"\[step=(?P<iteration>\d{1,12})(?:/(?P<total>\d{1,12}))?[,\]]")
_OLMO_RATE = padded(rf"\bthroughput/device/(?:tokens_per_second|TPS)=(?P<rate>{NUMBER})")


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
    rf"completed step: (?P<iteration>\d{{1,12}}), seconds: (?P<step_seconds>{NUMBER}), "
    rf"TFLOP/s(?:/device)?: (?P<tflops>{NUMBER}), Tokens/s(?:/device)?: (?P<rate>{NUMBER}),"
    rf"(?:.*?\bloss: {LOSS})?"
)
_MAXTEXT_TIMED = padded(
    rf"completed step: (?P<iteration>\d{{1,12}}), seconds: (?P<step_seconds>{NUMBER}), "
    rf"TFLOP/s(?:/device)?: (?P<tflops>{NUMBER}), (?:loss: {LOSS})"
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
        rule("Config param dtype: ", r"Config param dtype: bfloat16", **amp("bf16")),
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
        rule("bfloat16_enabled ..", r"bfloat16_enabled \.+ True", **amp("bf16")),
        rule("fp16_enabled ..", r"fp16_enabled \.+ True", **amp("fp16")),
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
