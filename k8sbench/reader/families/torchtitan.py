"""Logs of torchtitan.

``tps`` (``wps`` until 2025) is the tokens per second of one GPU since the line before, the wait
for data included: the tokens of one data-parallel rank by the GPUs that share them. Checkpoints
lie in the time of the next line. Every rank may print.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from k8sbench.model.sample import Fact, Shape
from k8sbench.reader.family import (
    LOSS_NUMBER,
    NUMBER,
    Family,
    MarkRule,
    RecordRule,
    number_in,
    padded,
    plain_number,
    rule,
)

_MIB = {"MiB": 1.0, "GiB": 1024.0}
_SHAPE = Shape(
    name="torchtitan",
    number="rate",
    per="card",
    holds_events=True,
    resolution=0.001,
    # 22 public logs: printed time ÷ time by the stamps is 0.9995–1.0078, for whole tokens/s.
    tolerance=0.02,
)
_RECORD = padded(
    r"(?:(?P<stamp>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) - .*?)?"
    rf"(?<!validate\s)\bstep: *(?P<iteration>\d{{1,12}}) +loss: *{LOSS_NUMBER}\b.*?"
    r"(?: memory: *(?P<memory>[\d.]+)(?P<memory_unit>[GM]iB)\([\d.]+%\).*?)?"
    rf" (?:tps|wps): *(?P<rate>{NUMBER})(?= )"
    rf"(?: +tflops: *(?P<tflops>{NUMBER})(?= ))?(?: +mfu: *(?P<mfu>[\d.]+)%)?"
)


def _convert(texts: dict[str, Any]) -> None:
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


FAMILY = Family(
    name="torchtitan",
    title="torchtitan",
    framework="pytorch",
    unit="tokens/s",
    facts=(
        rule("device mesh with [", r"device mesh with \[[^\]]{0,200}\], \[(?P<_mesh>[\d, ]+)\]"),
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
        rule("CUDA capacity: ", r"CUDA capacity: (?P<gpu_model>.{1,100}?) with"),
        rule("GPU capacity: ", r"GPU capacity: (?P<gpu_model>.{1,100}?) \("),
    ),
    derive=_mesh,
    records=(
        RecordRule(
            "step:",
            _RECORD,
            _SHAPE,
            convert=_convert,
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
