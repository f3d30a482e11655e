"""The bench at full size, which needs a GPU: what it starts, and how it makes a row of a run."""

from __future__ import annotations

import importlib
import subprocess
import sys
import threading
import types
from typing import Any

import pytest

from k8sbench.adapters.files import catalog
from k8sbench.trainers.parts.events import line
from tests.bench import trainers as bench
from tests.bench.sides import full_size, taps
from tests.trainers.paddle_runs import import_paddle


def variant_of(benchmark: str, name: str) -> Any:
    return next(v for v in catalog.find(benchmark).spec.variants if v.name == name)


@pytest.mark.tier("frameworks")
@pytest.mark.parametrize("precision", ["fp32", "amp"])
@pytest.mark.parametrize(("benchmark", "name"), full_size.VARIANTS)
def test_a_trainer_understands_what_the_catalog_asks_of_it(
    benchmark: str, name: str, precision: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    variant = variant_of(benchmark, name)
    if variant.framework == "paddle":
        import_paddle()
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "")  # a trainer sets it, for a process of its own
    loop = {"pytorch": "torch_loop", "paddle": "paddle_loop"}[variant.framework]
    module = importlib.import_module(f"k8sbench.trainers.{variant.trainer_module}")
    parts = importlib.import_module(f"k8sbench.trainers.parts.{loop}")
    options = full_size.options_of(benchmark, variant, precision)
    _, common = taps.described(parts, lambda: module.main(options))
    assert (common.benchmark, common.variant, common.device) == (benchmark, name, "cuda")
    assert common.precision == precision
    assert (common.warmup, common.iterations) == (
        variant.window.warmup,
        variant.window.iterations,
    )
    assert common.min_steady_seconds == full_size.LEAST_SECONDS


ABOUT = {
    "gpu_model": "NVIDIA H200",
    "gpu_uuid": "8c6f",
    "driver": "580.1",
    "cpu": "EPYC",
    "ecc": True,
    "power_limit_w": 700.0,
    "cuda": "12.8",
    "cudnn": "91002",
}
"""What an environment tells of a GPU, as far as a row or its heading holds it."""


def told(precision: str) -> list[str]:
    """The lines of a run of 120 steps of ResNet-50, 100 of them measured, in 4 s."""
    events: list[tuple[str, dict[str, object]]] = [
        (
            "start",
            {"framework": "pytorch", "framework_version": "2.10.0", "batch_size_per_gpu": 128},
        ),
        ("environment", ABOUT),
        ("environment", {"arithmetic": {}}),
        ("step", {"step": 19}),
        ("step", {"step": 20}),
        ("rank", {}),
        (
            "summary",
            {
                "window": {
                    "first_step": 21,
                    "last_step": 120,
                    "seconds": 4.0,
                    "samples_per_second": 3200.0,
                },
                "precision_effective": precision,
                "max_memory_mib": 12345.6,
            },
        ),
    ]
    return [line(name, fields) for name, fields in events]


class Nvml(types.ModuleType):
    """A GPU that is asked while the trainer runs; its power is nobody's to know."""

    NVML_CLOCK_SM = 1

    class NVMLError(Exception):
        pass

    def __init__(self) -> None:
        super().__init__("pynvml")
        self.asked = threading.Event()

    def nvmlInit(self) -> None:
        pass

    def nvmlShutdown(self) -> None:
        pass

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        return uuid

    def nvmlDeviceGetUtilizationRates(self, device: str) -> Any:
        assert device == "GPU-8c6f"
        return types.SimpleNamespace(gpu=97)

    def nvmlDeviceGetPowerUsage(self, _: str) -> int:
        raise self.NVMLError("not for you")

    def nvmlDeviceGetClockInfo(self, _: str, kind: int) -> int:
        self.asked.set()
        return 1980 if kind == self.NVML_CLOCK_SM else 0


class Trainer:
    """Stands in for the trainer's process: prints what it is told to, once NVML has been asked."""

    def __init__(self, lines: list[str], nvml: Nvml, code: int = 0) -> None:
        self.stdout = self._printed(lines, nvml)
        self.returncode = code

    def _printed(self, lines: list[str], nvml: Nvml) -> Any:
        for each in lines:
            if '"event": "rank"' in each:
                assert nvml.asked.wait(100)
            yield each + "\n"

    def wait(self) -> int:
        return self.returncode

    def kill(self) -> None:
        pass


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> Nvml:
    found = Nvml()
    monkeypatch.setattr(full_size, "_nvml", lambda: found)
    return found


def test_a_run_becomes_a_row(nvml: Nvml, monkeypatch: pytest.MonkeyPatch) -> None:
    """3,200 images/s are (6 × 4.089 − 2 × 0.118) × 3,200 = 77.8 TFLOP/s; an H200 does 989.4."""
    started: list[list[str]] = []

    def popen(words: list[str], **_: Any) -> Trainer:
        started.append(words)
        nvml.asked.clear()
        return Trainer(told("amp" if "fp16" in words else "fp32"), nvml)

    monkeypatch.setattr(subprocess, "Popen", popen)
    rows = list(full_size.rows({"pytorch"}, "resnet50"))
    assert [words[:3] for words in started] == [
        [sys.executable, "-m", "k8sbench.trainers.resnet50"]
    ] * 2
    assert rows[0].startswith("\n## NVIDIA H200, ")
    assert rows[1].startswith("One GPU, synthetic data. Driver 580.1, CPU EPYC, ECC True, power")
    assert rows[-3] == full_size.HEADER
    software = "dle (pytorch 2.10.0, CUDA 12.8, cuDNN 91002)"
    figures = "| 128 | 3200.0 | 40.0 | 77.8 |"
    assert rows[-2:] == [
        f"| resnet50 | {software} | FP32 {figures} 116% | 12346 | 97 | – | 1980 |",
        f"| resnet50 | {software} | AMP (fp16) {figures} 8% | 12346 | 97 | – | 1980 |",
    ]


def test_a_run_that_fails_says_with_what(nvml: Nvml, monkeypatch: pytest.MonkeyPatch) -> None:
    nvml.asked.set()
    lines = [*told("fp32")[:3], "torch.OutOfMemoryError: CUDA out of memory.", ""]
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: Trainer(lines, nvml, 1))
    failed = [full_size.FAILED in row for row in full_size.rows({"pytorch"}, "tsm")]
    assert failed == [True, True]
    rows = list(full_size.rows({"pytorch"}, "arcface"))
    assert rows == ["<!-- arcface plsc: paddle sees no GPU here -->"]


def test_rows_are_recorded_as_they_come(
    nvml: Nvml, monkeypatch: pytest.MonkeyPatch, tmp_path: Any, capsys: Any
) -> None:
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: Trainer(told("fp32"), nvml))
    record = tmp_path / "measured.md"
    assert bench._full_size({"pytorch"}, "resnet50", record) == 0
    assert record.read_text().strip() in capsys.readouterr().out
    assert bench._full_size(set(), "", record) == 0
    assert "not measured, no GPU here" in capsys.readouterr().out
