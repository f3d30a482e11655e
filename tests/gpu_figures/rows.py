"""Table rows of the systems at full size on one GPU, per precision.

Sizes, windows and multiply-adds are the catalog's, read as plain YAML: msgspec, which the catalog
needs, may be missing here. A row is computed from the trainer's records, so that it has a figure
also where the trainer was stopped in the middle of its window.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from types import SimpleNamespace
from typing import Any

import yaml

from k8sbench.measure.group.gpu_peaks import peak_of, tflops
from k8sbench.trainers.parts.events import PREFIX
from tests.gpu_figures.bounded import ROOT, Ended

SYSTEMS = (
    # benchmark, variant
    ("resnet50", "dle"),
    ("tsm", "kinetics"),
    ("arcface", "plsc"),
    ("deeplabv3p", "mmseg"),
    ("deeplabv3p", "paddleseg"),
)
"""Slowest last: they get the time that the others left."""
PRECISIONS = ("FP32", "AMP")
MOST_WARMUP = 20
"""Warm-up limit, steps.

TSM's 100 are for its data loaders, and take 40 s on a V100.
"""
MOST_ITERATIONS = 50
"""Steps of the window: `submit` and the tests need most of the time."""
HEADER = (
    "| system | precision | batch | samples/s | ms/step | TFLOP/s | of peak | memory MiB "
    "| device | software | notes |\n"
    "|---|---|--:|--:|--:|--:|--:|--:|---|---|---|"
)
NONE = "–"
OUT_OF_MEMORY = re.compile(r"out of memory|OutOfMemoryError|ResourceExhausted", re.IGNORECASE)
LONGEST_REASON = 240


@dataclass(frozen=True)
class Case:
    """A system in one precision."""

    benchmark: str
    variant: dict[str, Any]
    """As the catalog's file has it."""
    precision: str
    """FP32 or AMP."""
    rehearsal: bool = False
    """True for small models on a CPU."""

    @property
    def name(self) -> str:
        """The system as a row names it."""
        return f"{self.benchmark} {self.variant['name']} ({self.variant['framework']})"

    @property
    def module(self) -> str:
        """The trainer's module in `k8sbench.trainers`."""
        return str(self.variant["trainer"]).replace("-", "_")

    @property
    def steps(self) -> tuple[int, int]:
        """Steps of the warm-up and of the window."""
        window = self.variant["window"]
        if self.rehearsal:
            return 1, 2
        return min(window["warmup"], MOST_WARMUP), min(window["iterations"], MOST_ITERATIONS)

    def command(self) -> list[str]:
        """The trainer with its options."""
        variant, (warmup, iterations) = self.variant, self.steps
        batch_sizes = variant["batch_size"]
        options: dict[str, object] = {
            "benchmark": self.benchmark,
            "variant": variant["name"],
            # A system without published figures in AMP is measured in it all the same.
            "batch-size": batch_sizes.get(self.precision.lower(), batch_sizes["fp32"]),
            "warmup": warmup,
            "iterations": iterations,
            "log-interval": variant["window"]["log_interval"]["one_gpu"],
            "amp-dtype": "fp16" if self.precision == "AMP" else "none",
            "device": "cuda",
            **(variant.get("args") or {}),
        }
        if self.rehearsal:
            smoke = variant["smoke"]
            small = {"device": "cpu", "threads": 1, "preset": "smoke", "width-divisor": 8}
            options |= {"batch-size": smoke["batch_size"], "log-interval": 1, **small}
            options |= smoke["args"]
        words = (word for name, value in options.items() for word in (f"--{name}", str(value)))
        return ["-m", f"k8sbench.trainers.{self.module}", *words]


def cases(only: str = "", *, rehearsal: bool = False) -> Iterator[Case]:
    """The cases of trainers whose name has `only`."""
    for benchmark, name in SYSTEMS:
        path = ROOT / "k8sbench" / "benchmarks" / f"{benchmark}.yaml"
        variants = yaml.safe_load(path.read_text(encoding="utf-8"))["variants"]
        variant = next(each for each in variants if each["name"] == name)
        for precision in PRECISIONS:
            case = Case(benchmark, variant, precision, rehearsal)
            if only in case.module:
                yield case


def row(case: Case, ended: Ended) -> tuple[str, bool]:
    """Return a row, and True if figure and trainer are sound.

    The row has a figure, or a dash and the reason.
    """
    events: list[dict[str, Any]] = [
        json.loads(line[len(PREFIX) :]) for line in ended.lines if line.startswith(PREFIX)
    ]
    first: dict[str, dict[str, Any]] = {event["event"]: event for event in reversed(events)}
    start, about = first.get("start", {}), first.get("environment", {})
    warmup, iterations = case.steps
    steps = [event for event in events if event["event"] == "step"]
    window = [step for step in steps if warmup < step["step"] <= warmup + iterations]
    # Stopped at its limit of time it has shown less of the same.
    complete = bool(window) and ended.code in (0, None)
    notes = [] if complete and not ended.stopped else [_reason(ended)]
    rate = milliseconds = speed = share = NONE
    if window:
        taken = sum(step["steps"] for step in window)
        seconds = sum(step["seconds"] for step in window)
        samples_per_second = taken * start["batch_size_per_gpu"] / seconds
        rate, milliseconds = f"{samples_per_second:.1f}", f"{1000 * seconds / taken:.1f}"
        if taken < iterations:
            notes.append(f"{taken} of {iterations} steps")
        if start["precision_effective"] != case.precision.lower():
            notes.append(f"in effect {start['precision_effective']}")
        done = tflops(_model(case), samples_per_second, 1)
        peak = peak_of(about.get("gpu_model"))
        if peak is not None:
            limit = peak.fp16 if start["precision_effective"] == "amp" else peak.fp32
            speed, share = f"{done:.1f}", f"{done / limit:.0%}"
            complete = complete and done <= limit
            if done > limit:
                notes.append("**above the peak: not credible**")
        elif not case.rehearsal:
            speed = f"{done:.1f}"
            notes.append("peak not known")
        since, until = window[0]["time"] - window[0]["seconds"], window[-1]["time"]
        notes += _of_the_gpu(events, since, until)
    memory = window[-1]["memory_mib"] if window else None  # before it, cuDNN's trials count
    cells = (
        *(case.name, case.precision, start.get("batch_size_per_gpu", NONE)),
        *(rate, milliseconds, speed, share),
        NONE if memory is None else f"{memory:.0f}",
        about.get("gpu_model") or about.get("cpu") or NONE,
        _software(start, about),
        "; ".join(notes) or NONE,
    )
    text = " | ".join(str(cell).replace("|", "/") for cell in cells)
    return f"| {text} |", complete


def _model(case: Case) -> Any:
    unknown = {"first_layer_gmac": None, "head_gmac": None}
    return SimpleNamespace(**{**unknown, **case.variant["fingerprint"]})


def _of_the_gpu(events: Sequence[dict[str, Any]], since: float, until: float) -> Iterator[str]:
    """Yield means of the trainer's GPU samples within the window."""
    for metric, shown in (
        ("gpu_utilization", "GPU {:.0%}"),
        ("power", "{:.0f} W"),
        ("sm_clock", "{:.0f} MHz"),
    ):
        values = [
            value
            for event in events
            if event["event"] == "gpu" and metric in event
            for at, value in zip(event["at"], event[metric], strict=True)
            if since <= at <= until and value is not None
        ]
        if values:
            yield shown.format(fmean(values))


def _software(start: dict[str, Any], about: dict[str, Any]) -> str:
    if not start:
        return NONE
    words = [f"{start['framework']} {start['framework_version']}"]
    for name, title in (("cuda", "CUDA"), ("cudnn", "cuDNN"), ("driver", "driver")):
        if about.get(name):
            words.append(f"{title} {about[name]}")
    return ", ".join(words)


def _reason(ended: Ended) -> str:
    """Return in one line why a trainer did not finish its window."""
    if ended.stopped:
        return ended.stopped
    said = [line.strip() for line in ended.lines if not line.startswith(PREFIX)]
    said = [line for line in said if line]
    if matching := [line for line in said if OUT_OF_MEMORY.search(line)]:
        return matching[-1][:LONGEST_REASON]
    return ": ".join([ended.how, *said[-1:]])[:LONGEST_REASON]
