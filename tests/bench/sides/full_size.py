"""Each benchmark at full size on one GPU, as rows for docs/measured.md.

Batches, windows and multiply-adds are the catalog's, the GPU's peak is that of `gpu_peaks`. NVML is
asked while the trainer runs, between its first measured record and its last. Nothing here runs
without a GPU.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the other parts of the bench need a framework and nothing of k8sbench's
    from k8sbench.model.spec import Precision, Variant

ROOT = Path(__file__).resolve().parents[3]
LEAST_SECONDS = 30  # of steady training, so that NVML's means mean something
ASKED_EVERY = 0.25  # seconds; NVML's own utilisation covers 1/6 s to 1 s
TIME_LIMIT = 600.0
FAILED = " failed: "  # what a row has instead of figures
# By benchmark and variant: those that differ in arithmetic, not in a learning rate.
VARIANTS = (
    ("deeplabv3p", "mmseg"),
    ("deeplabv3p", "paddleseg"),
    ("deeplabv3p", "matched"),
    ("tsm", "kinetics"),
    ("resnet50", "dle"),
    ("arcface", "plsc"),
)
HEADER = (
    "| benchmark | variant | precision | batch | samples/s | ms/step | TFLOP/s | of peak "
    "| memory MiB | GPU util % | power W | SM MHz |\n"
    "|---|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
)
ASK = {"utilisation": "GPU util %", "power": "W", "clock": "SM MHz"}


@dataclass
class Watched:
    """What NVML said while the window lasted."""

    values: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in ASK})

    def shown(self, name: str) -> str:
        """The mean, or a dash where nothing was said."""
        found = self.values[name]
        return f"{fmean(found):.0f}" if found else "–"


@dataclass(frozen=True)
class Ran:
    """One finished run: its events, and what NVML said."""

    start: Mapping[str, Any]
    environment: Mapping[str, Any]
    summary: Mapping[str, Any]
    watched: Watched


def gpu_names() -> list[str]:
    """The GPUs of this machine; none where NVML does not answer."""
    pynvml = _nvml()
    try:
        pynvml.nvmlInit()
        handles = map(pynvml.nvmlDeviceGetHandleByIndex, range(pynvml.nvmlDeviceGetCount()))
        names = [pynvml.nvmlDeviceGetName(handle) for handle in handles]
        pynvml.nvmlShutdown()
    except pynvml.NVMLError:
        return []
    return [name.decode() if isinstance(name, bytes) else str(name) for name in names]


def _nvml() -> Any:
    import pynvml

    return pynvml


def sees_gpu(framework: str) -> bool:
    """Whether the framework that is installed here can use a GPU."""
    program = {
        "pytorch": "import torch; assert torch.cuda.is_available()",
        "paddle": "import paddle; assert paddle.device.cuda.device_count() > 0",
    }[framework]
    asked = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    return asked.returncode == 0


def rows(frameworks: set[str], only: str = "") -> Iterator[str]:
    """A markdown table's lines, as they are measured, of trainers whose name has `only`."""
    from k8sbench.adapters.files import catalog

    told = False
    for benchmark, name in VARIANTS:
        spec = catalog.find(benchmark).spec
        variant = next(v for v in spec.variants if v.name == name)
        if only not in str(variant.trainer_module):
            continue
        if variant.framework not in frameworks:
            yield f"<!-- {benchmark} {name}: {variant.framework} sees no GPU here -->"
            continue
        for precision in ("fp32", "amp"):
            ran = _run(benchmark, variant, precision)
            if isinstance(ran, str):
                yield f"<!-- {benchmark} {name} {precision}{FAILED}{ran} -->"
                continue
            if not told:
                yield from (*_heading(ran), HEADER)
                told = True
            yield row(benchmark, variant, precision, ran)


def _heading(ran: Ran) -> Iterator[str]:
    about = ran.environment
    now = datetime.now(UTC)
    yield f"\n## {about['gpu_model']}, {now:%Y-%m-%d}\n"
    yield (
        f"One GPU, synthetic data. Driver {about['driver']}, CPU {about['cpu']}, "
        f"ECC {about['ecc']}, power limit {about['power_limit_w']} W. NVML's figures are means "
        "over the steady part; memory is the most that tensors held."
    )
    yield ""


def row(benchmark: str, variant: Variant, precision: Precision, ran: Ran) -> str:
    """One row; a figure that is not known is a dash."""
    from k8sbench.measure.group.arithmetic import tflops
    from k8sbench.measure.group.gpu_peaks import peak_of

    window, batch = ran.summary["window"], ran.start["batch_size_per_gpu"]
    rate = window["samples_per_second"]
    steps = window["last_step"] - window["first_step"] + 1
    effective = ran.summary["precision_effective"]
    shown = f"AMP ({variant.amp_dtype})" if precision == "amp" else "FP32"
    if (precision == "amp") != (effective == "amp"):
        shown += f", in effect {effective}"
    speed = share = "–"
    if variant.fingerprint is not None:
        done = tflops(variant.fingerprint, rate, 1)
        speed = f"{done:.1f}"
        peak = peak_of(ran.environment["gpu_model"])
        if peak is not None:
            share = f"{done / (peak.fp16 if effective == 'amp' else peak.fp32):.0%}"
    software = (
        f"{ran.start['framework']} {ran.start['framework_version']}, "
        f"CUDA {ran.environment['cuda']}, cuDNN {ran.environment['cudnn']}"
    )
    watched = ran.watched
    cells = (
        benchmark,
        f"{variant.name} ({software})",
        shown,
        f"{batch}",
        f"{rate:.1f}",
        f"{1000 * window['seconds'] / steps:.1f}",
        speed,
        share,
        f"{ran.summary['max_memory_mib']:.0f}",
        watched.shown("utilisation"),
        watched.shown("power"),
        watched.shown("clock"),
    )
    return "| " + " | ".join(cells) + " |"


def options_of(benchmark: str, variant: Variant, precision: Precision) -> list[str]:
    """The trainer's options for one case: the catalog's own sizes and window."""
    # A benchmark without figures in mixed precision is measured in it all the same.
    batch = variant.batch_size.get(precision, variant.batch_size["fp32"])
    options: dict[str, object] = {
        "benchmark": benchmark,
        "variant": variant.name,
        "batch-size": batch,
        "warmup": variant.window.warmup,
        "iterations": variant.window.iterations,
        "log-interval": variant.window.log_interval["one_gpu"],
        "min-steady-seconds": LEAST_SECONDS,
        "amp-dtype": variant.amp_dtype if precision == "amp" else "none",
        "device": "cuda",
        **variant.args,
    }
    words: list[str] = []
    for name, value in options.items():
        if value is not False:
            words += [f"--{name}"] if value is True else [f"--{name}", str(value)]
    return words


def _run(benchmark: str, variant: Variant, precision: Precision) -> Ran | str:
    """Run one case; its events, or the last line of what went wrong."""
    words = ["-m", f"k8sbench.trainers.{variant.trainer_module}"]
    process = subprocess.Popen(
        [sys.executable, *words, *options_of(benchmark, variant, precision)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    timer = threading.Timer(TIME_LIMIT, process.kill)
    timer.start()
    try:
        return _followed(process, variant.window.warmup)
    finally:
        timer.cancel()
        process.kill()
        process.wait()


def _followed(process: subprocess.Popen[str], warmup: int) -> Ran | str:
    assert process.stdout is not None
    told: dict[str, dict[str, Any]] = {}
    watched, over = Watched(), threading.Event()
    watcher: threading.Thread | None = None
    last = ""
    for line in process.stdout:
        last = line.strip() or last
        if not line.startswith("K8SBENCH "):
            continue
        event = json.loads(line.removeprefix("K8SBENCH "))
        told[event["event"]] = told.get(event["event"], {}) | event
        if event["event"] == "step" and event["step"] >= warmup and watcher is None:
            address = told["environment"]["gpu_uuid"]
            watcher = threading.Thread(target=_watch, args=(address, watched, over))
            watcher.start()
        if event["event"] == "rank":
            over.set()
    over.set()
    if watcher is not None:
        watcher.join()
    if process.wait() or "summary" not in told:
        return last or f"exit code {process.returncode}"
    return Ran(told["start"], told["environment"], told["summary"], watched)


def _watch(uuid: str | None, watched: Watched, over: threading.Event) -> None:
    """Ask NVML until the run is over; a question without an answer leaves its list empty."""
    pynvml = _nvml()
    try:
        pynvml.nvmlInit()
        text = uuid if uuid is None or uuid.startswith("GPU-") else f"GPU-{uuid}"
        device = (
            pynvml.nvmlDeviceGetHandleByIndex(0)
            if text is None
            else pynvml.nvmlDeviceGetHandleByUUID(text)
        )
    except pynvml.NVMLError:
        return
    questions: dict[str, Callable[[], float]] = {
        "utilisation": lambda: pynvml.nvmlDeviceGetUtilizationRates(device).gpu,
        "power": lambda: pynvml.nvmlDeviceGetPowerUsage(device) / 1000,
        "clock": lambda: pynvml.nvmlDeviceGetClockInfo(device, pynvml.NVML_CLOCK_SM),
    }
    while not over.wait(ASKED_EVERY):
        for name, ask in questions.items():
            try:
                watched.values[name].append(float(ask()))
            except pynvml.NVMLError:
                continue
    pynvml.nvmlShutdown()
