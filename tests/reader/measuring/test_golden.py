"""Measurements of logs, changed logs and options, a line each."""

import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from k8sbench.catalog.published import Accuracy
from k8sbench.model.errors import BenchError
from k8sbench.model.fingerprint import Fingerprint
from k8sbench.model.log_format import FAMILY_NAMES
from k8sbench.reader.measuring import measuring
from k8sbench.reader.measuring.expectation import Expectation
from tests.reader.measuring.support import Lines, lines_of
from tests.unit import goldens

OPTIONS: dict[str, dict[str, Any]] = {
    "airank_mmseg.log": {"gpus": 8, "warmup": 10},
    "dle_resnet50_2020.log": {"gpus": 8, "warmup": 5},
    "dle_resnet50_2021_mpirun.log": {"gpus": 2, "warmup": 5},
    "dle_resnet50_2022.log": {"gpus": 8, "warmup": 5},
    "k8sbench_master.log": {"warmup": 2},
    "k8sbench_worker.log": {"warmup": 2},
    "mmengine_iterations.log": {"warmup": 50},
    "mmseg_evaluation.log": {"gpus": 2, "warmup": 20},
    "mmseg_mpirun_dirty.log": {"gpus": 2, "batch_size": 4, "warmup": 2},
    "paddleclas_2020.log": {"gpus": 8, "warmup": 5},
    "paddleclas_dygraph.log": {"gpus": 2, "warmup": 5},
    "paddleclas_running.log": {"gpus": 2, "warmup": 20},
    "paddleseg.log": {"gpus": 4, "batch_size": 2, "warmup": 10},
    "paddlevideo.log": {"gpus": 8, "warmup": 10},
    "plsc_v1_four_workers.log": {"gpus": 4, "batch_size": 64, "warmup": 0},
    "plsc_v2.log": {"gpus": 8, "warmup": 10},
    "tsm.log": {"gpus": 1, "batch_size": 8, "warmup": 20},
    "tsm_stamped.log": {"gpus": 1, "batch_size": 8, "warmup": 20},
}
OTHER_OPTIONS: dict[str, dict[str, Any]] = {
    "no warm-up": {"warmup": 0},
    "a long warm-up": {"warmup": 45},
    "other GPUs": {"gpus": 3, "by_user": True},
    "no GPUs": {"gpus": None},
    "another batch": {"batch_size": 7, "by_user": True},
    "planned as another benchmark": {
        "benchmark": "other",
        "model": "BERT",
        "logged_models": ("bert",),
        "framework": "pytorch",
        "trainers": 2,
        "at_least": 1000,
        "device": "cuda",
    },
    "planned in FP32": {
        "benchmark": "resnet50",
        "precision": "fp32",
        "batch_sizes": {"fp32": 4, "amp": 8},
        "parameters": 100,
        "device": "cpu",
    },
    "of a short window": {"iterations": 40, "at_least": 40, "to_its_end": True, "unit": "images"},
    "with AMP and a target": {
        "precision": "amp",
        "amp_dtype": "bf16",
        "target": Accuracy(metric="mIoU", value=30.0),
        "by_user": True,
        "batch_sizes": {"amp": 2},
        "gpu_model": "Tesla V100-SXM2-16GB",
        "fingerprint": Fingerprint(model="any", parameters=10**6, gmac=5e4, input="3x8x8"),
    },
    "accepted": {"accept": ("too-few-records", "clock-mismatch", "gpu-count"), "gpus": 3},
}
STAMP = re.compile(r"\b(\d\d):(\d\d):(\d\d)\b")
DECIMAL = re.compile(r"(?<![\d.:])\d+\.\d+(?![\d.])")
LOSS = re.compile(r"(?i)(loss\w*\"?\s*[:=(]*\s*)[\d.]+")


def middle(lines: list[str], change: Callable[[str], str]) -> list[str]:
    third = len(lines) // 3
    return [*lines[:third], *map(change, lines[third:-third]), *lines[-third:]]


def second_half(lines: list[str], change: Callable[[str], str]) -> list[str]:
    half = len(lines) // 2
    return [*lines[:half], *map(change, lines[half:])]


EDITS: dict[str, Callable[[list[str]], list[str]]] = {
    "ends early": lambda lines: lines[: len(lines) * 2 // 3],
    "begins late": lambda lines: lines[len(lines) // 3 :],
    "lacks its middle": lambda lines: lines[: len(lines) // 3] + lines[len(lines) * 2 // 3 :],
    "lacks every fifth line": lambda lines: [x for i, x in enumerate(lines) if i % 5 != 4],
    "prints lines twice": lambda lines: [x for i, x in enumerate(lines) for _ in range(1 + i % 2)],
    "stands twice": lambda lines: lines * 2,
    "goes back": lambda lines: lines + lines[len(lines) // 2 :],
    "goes back in the middle": lambda lines: (
        lines[: len(lines) * 2 // 3] + lines[len(lines) // 3 :]
    ),
    "loses its loss": lambda lines: middle(lines, lambda x: LOSS.sub(r"\1nan", x)),
    "has larger numbers": lambda lines: middle(
        lines, lambda x: DECIMAL.sub(lambda m: f"{float(m[0]) * 3:.4f}", x)
    ),
    "has slightly larger numbers": lambda lines: second_half(
        lines, lambda x: DECIMAL.sub(lambda m: f"{float(m[0]) * 1.04:.4f}", x)
    ),
    "has no numbers": lambda lines: middle(lines, lambda x: DECIMAL.sub("n/a", x)),
    "has a clock that was set": lambda lines: second_half(
        lines, lambda x: STAMP.sub(lambda m: f"{(int(m[1]) + 1) % 24:02d}:{m[2]}:{m[3]}", x)
    ),
    "has a slow clock": lambda lines: [
        STAMP.sub(lambda m: f"{m[1]}:{m[2]}:{int(m[3]) // 2:02d}", x) for x in lines
    ],
    "has no stamps": lambda lines: [STAMP.sub("", x) for x in lines],
    "ends in carriage returns": lambda lines: [f"{x}\r" for x in lines],
}


def measured(lines: list[str], options: dict[str, Any]) -> str:
    """Return verdict, estimator, rate, iterations and finding ids; or the error."""
    known: dict[str, Any] = {"batch_size": None} | options
    try:
        found = measuring.measure(
            [Lines(lines)], [Expectation(format=name, **known) for name in FAMILY_NAMES]
        )
    except BenchError as error:
        return f"error {type(error).__name__}"
    figures = found.throughput or found.unverified
    rate = getattr(figures, found.estimator) if figures and found.estimator else math.nan
    ids = " ".join(finding.id for finding in found.reasons)
    return f"{found.verdict} {found.estimator} {rate:.2f} {found.iterations} {ids}".rstrip()


def written(name: str) -> Iterator[str]:
    """Yield a log's golden lines: as it is, changed, and with other options."""
    lines, options = lines_of(name), OPTIONS[name]
    yield f"{name}: {measured(lines, options)}"
    for edit, change in EDITS.items():
        yield f"  {edit}: {measured(change(lines), options)}"
    for what, other in OTHER_OPTIONS.items():
        yield f"  {what}: {measured(lines, options | other)}"


def test_what_is_measured_of_logs_and_of_changed_ones() -> None:
    text = "\n".join(line for name in OPTIONS for line in written(name))
    goldens.check(Path(__file__).parent / "golden" / "logs.txt", f"{text}\n")
