"""Logs of Megatron-LM, Megatron-Bridge, Megatron-DeepSpeed and GPT-NeoX.

A line has the mean time of the iterations since the line before, of the whole job, and the samples
of a step of the whole job. What the program calls a batch elsewhere is of one model replica, which
several GPUs share.

Evaluations and checkpoints lie in the time of the next line in some versions; newer ones stop the
timer. The first generation states no batch in its lines; GPT-NeoX and Megatron-DeepSpeed print
the job's samples per second, which gives it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from k8sbench.model.sample import Fact, Shape
from k8sbench.reader.family import DATED, Family, MarkRule, RecordRule, number_in, padded, rule
from k8sbench.reader.totals import TotalsReader

_SHAPE = Shape(
    name="megatron",
    number="seconds",
    holds_events=True,
    begins_late=True,
    resolution=1.0,
    # 18 public logs: printed time ÷ time by the stamps is 0.9991–1.0047.
    tolerance=0.02,
)


def field(label: str, group: str, number: str = r"[-+.\deE]+", unit: str = "") -> str:
    """Match a field anywhere behind, if there is one."""
    return rf"(?:(?=.*?{label}:? +(?P<{group}>{number}){unit})|)"


_RECORD = padded(
    r"(?:samples/sec: (?P<samples_rate>\d+\.\d+) \| +)?"
    r"(?:\[(?P<stamp>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?)\] +)?"
    r"\biteration +(?P<iteration>\d{1,12})/ *(?P<total>\d{1,12}) \|"
    r"(?=.*?elapsed time per iteration \((?P<time_unit>m?s)\): (?P<step_seconds>\d+\.\d+))"
    + field(r"\| consumed samples", "all_samples", r"\d+")
    + field("global batch size", "global_batch", r"\d+")
    + field("samples per second", "samples_per_second", r"\d+\.\d+")
    + field(r"lm.loss(?: value)?", "loss", r"(?:[-+.\deE]+|nan|inf)")
    + field(r"throughput per GPU \(TFLOP/s/GPU\)", "tflops", r"\d+\.\d+")
    + field(r"\| TFLOPs", "tflops_of_deepspeed", r"\d+\.\d+")
    + field("approx flops per GPU", "tflops_of_neox", r"\d+\.\d+", "TFLOPS")
    + r".*"
)


def _convert(texts: dict[str, Any]) -> None:
    seconds = number_in(texts["step_seconds"]) or 0.0
    if texts["time_unit"] == "ms":
        seconds /= 1000
    texts["step_seconds"] = seconds
    rate = number_in(texts["samples_per_second"] or texts["samples_rate"])
    texts["step_samples"] = texts["global_batch"] or (rate and rate * seconds)
    texts["tflops"] = texts["tflops"] or texts["tflops_of_deepspeed"] or texts["tflops_of_neox"]


def _argument(name: str, group: str, value: str = r"\d+", **says: str) -> Any:
    """Match a line of the table of arguments: ``seq_length ........ 4096``."""
    # GPT-NeoX adds whether it is the default.
    end = r"\s*(?:\.+(?:updated|default)\s*)?$"
    return rule(f"{name} ..", rf"^.{{0,40}}?\b{name} \.+ ?(?P<{group}>{value}){end}", **says)


def _flag(name: str, **says: str) -> Any:
    return rule(f"{name} ..", rf"^.{{0,40}}?\b{name} \.+ ?True\s*$", **says)


def _setting(name: str, value: str, **says: str) -> Any:
    """Match a line of Megatron-Bridge's configuration, in YAML: ``  seq_length: 4096``."""
    return rule(f"{name}: ", rf"^ +{name}: {value}\s*$", **says)


def _derive_batch(stated: Mapping[str, Fact]) -> Iterator[Fact]:
    """Derive the job's batch of the first generation, which states that of one model replica."""
    each = stated.get("_replica_batch")
    gpus = stated.get("gpus")
    if each is not None and gpus is not None and "global_batch" not in stated:
        parallel = int(stated["_model_parallel"].value) if "_model_parallel" in stated else 1
        replicas = int(gpus.value) // max(parallel, 1)
        yield each.like("global_batch", str(int(each.value) * replicas))
    if "_float32" in stated and "precision" not in stated:
        yield stated["_float32"].like("precision", "fp32")


FAMILY = Family(
    name="megatron",
    title="Megatron-LM, Megatron-Bridge, Megatron-DeepSpeed, GPT-NeoX",
    framework="pytorch",
    unit="samples/s",
    facts=(
        rule(
            "world size: ",
            r"^(?!.*NeoXArgs).*using world size: (?P<gpus>\d+)",
            program="Megatron-LM",
        ),
        rule("before the start of training step", rf"datetime: {DATED}"),
        _argument("global_num_gpus", "gpus"),
        _argument("world_size", "gpus"),
        _argument("global_batch_size", "global_batch"),
        _argument("train_batch_size", "global_batch"),
        _argument("micro_batch_size", "micro_batch"),
        _argument("rampup_batch_size", "rampup", r"\[.*\]"),
        _argument("batch_size", "_replica_batch"),
        _argument("model_parallel_size", "_model_parallel"),
        _argument("seq_length", "sequence_length"),
        _argument("train_iters", "planned_iterations"),
        _argument("log_interval", "log_interval"),
        _argument("params_dtype", "_float32", r"torch\.float32"),
        _flag("bf16", precision="amp", amp_dtype="bf16"),
        _flag("fp16", precision="amp", amp_dtype="fp16"),
        _setting("seq_length", r"(?P<sequence_length>\d+)"),
        _setting("micro_batch_size", r"(?P<micro_batch>\d+)"),
        _setting("bf16", "true", precision="amp", amp_dtype="bf16"),
        _setting("fp16", "true", precision="amp", amp_dtype="fp16"),
    ),
    derive=_derive_batch,
    records=(
        RecordRule(
            "elapsed time per iteration",
            _RECORD,
            _SHAPE,
            convert=_convert,
            begins=re.compile(r"iteration +\d"),
        ),
    ),
    marks=(
        MarkRule("validation loss at", "evaluation"),
        MarkRule("valid loss at", "evaluation"),
        MarkRule("saving checkpoint at iteration", "checkpoint"),
        MarkRule("successfully saved checkpoint", "checkpoint"),
        MarkRule(
            "checkpoint from",
            "restart",
            re.compile(r"successfully loaded checkpoint from .* at iteration [1-9]\d*"),
        ),
        MarkRule("[after training is done]", "finished"),
        MarkRule("[exiting program", "finished"),
    ),
    shares_samples=True,
    make_reader=TotalsReader,
)
