"""Logs like a TensorFlow program's, and their format file."""

import datetime
from pathlib import Path

from tests.tiers import ROOT

BENCHMARK = ROOT / "docs" / "examples" / "tensorflow" / "benchmark.yaml"
GPU = "Tesla V100-SXM2-16GB"
CASES = {
    (1, "True"): 1200.0,
    (4, "True"): 4500.0,
    (8, "True"): 8800.0,
    (1, "False"): 400.0,
    (4, "False"): 1550.0,
    (8, "False"): 3050.0,
}
"""GPUs and whether AMP was on → images/s of the whole job."""


def log(
    gpus: int = 1,
    amp: str = "True",
    *,
    rate: float = 1200.0,
    batch: int = 256,
    day: int = 2,
    end: int = 500,
) -> str:
    """Return one log: thirty lines of ten steps; the first is warm-up."""
    at = datetime.datetime(2026, 3, day, 4, tzinfo=datetime.UTC)
    lines = [
        f"DLL {at:%Y-%m-%d %H:%M:%S.%f} - PARAMETER batch_size : {batch}  xla : True  amp : {amp} ",
        "Starting Model Training...",
        f"Num GPUs {gpus}",
        f"Per-GPU Batch Size {batch}",
    ]
    for step in range(200, end, 10):
        printed = round(rate * (1 + 0.002 * ((step // 10) % 3 - 1)), 4)
        at += datetime.timedelta(seconds=10 * batch * gpus / printed)
        lines.append(f"DLL {at:%Y-%m-%d %H:%M:%S.%f} - (0, {step}) total_ips : {printed} ")
    return "\n".join([*lines, "Ending Model Training ...", ""])


def folder(path: Path) -> Path:
    """Write thirty logs: six cases, repeated."""
    path.mkdir(parents=True, exist_ok=True)
    for (gpus, amp), rate in CASES.items():
        for repeat in range(1, 6):
            batch = 256 if amp == "True" else 128
            text = log(gpus, amp, rate=rate * (1 + 0.001 * (repeat - 3)), batch=batch)
            (path / f"gpu{gpus}_{amp}_{repeat}.txt").write_text(text)
    return path


OF = ["--benchmark", str(BENCHMARK), "--gpu-model", GPU]
"""The options by which these logs are imported."""
