"""What it costs a trainer to sample its GPU beside the training.

    python tests/bench/gpu_samples.py [--pairs N] [--seconds S]

Blocks of ResNet-50's steps with the sampler and without it take turns in one process; which comes
first changes from pair to pair. Two limits (exit code 1 if one is missed): the ratio of the step
times has 1.00 within its quartiles, or lies below; and the sampler takes less than 1 ms of the
processor per second, by its thread's own clock. The same limit holds for k8sbench itself, which
samples the GPUs of a local run: it is measured for one. On a GPU the driver's library is asked;
without one a stand-in for it, compiled of tests/trainers/nvml.c, and the network trains on one
thread.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # `tests`, when run as a file

LIMIT_MS = 1.0
LOCAL_SECONDS = 20.0
NEEDED = ("msgspec", "psutil", "pynvml", "yaml")
"""By k8sbench itself."""
LEAST_PAIRS = 7


def main() -> int:
    """Measure and print; returns 1 if a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--pairs", type=int, default=15, help=f"at least {LEAST_PAIRS} (15)")
    parser.add_argument("--seconds", type=float, default=2.5, help="of each block (2.5)")
    given = parser.parse_args()
    if importlib.util.find_spec("torch") is None:
        print("PyTorch is not installed: nothing is measured")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        return _compared(Path(folder), max(given.pairs, LEAST_PAIRS), given.seconds)


def _compared(folder: Path, pairs: int, seconds: float) -> int:
    import torch

    from k8sbench.trainers import resnet50
    from k8sbench.trainers.parts import nvml, torch_loop
    from k8sbench.trainers.parts.gpu_samples import EVERY, Sampler
    from tests.trainers import stand_in

    words = ["--device", "cpu", "--threads", "1", "--input-size", "64", "--batch-size", "4"]
    if torch.cuda.is_available():
        words = ["--device", "cuda"]
    else:
        nvml.LIBRARY = str(stand_in.built(folder / stand_in.NAME, SM_CLOCK=1380))
    torch_loop._Run.to_its_end = lambda run: run  # type: ignore[assignment, return-value]
    run: Any = resnet50.main(words)
    names = run.here.gpu_names() or (stand_in.ADDRESS, None)
    batches = run.batches()
    run.journal._write = lambda _: None  # what is written is not what is measured
    processor: dict[bool, list[float]] = {True: [], False: []}
    sampled = [0.0, 0.0]  # the sampler's seconds of the processor, and seconds in all

    def block(*, with_sampler: bool) -> float:
        """Seconds of one step; adds the process' time of the processor for it."""
        sampler = Sampler(run.journal)
        sampler.start(names if with_sampler else None)
        began, computed, steps = time.monotonic(), time.process_time(), 0
        while (passed := time.monotonic() - began) < seconds:
            run.step(*next(batches), 0.0)
            run.here.sync()
            steps += 1
        processor[with_sampler].append((time.process_time() - computed) / steps)
        if sampler._thread is not None and sampler._thread.ident is not None:
            clock = time.pthread_getcpuclockid(sampler._thread.ident)
            sampled[0] += time.clock_gettime(clock)
            sampled[1] += passed
        sampler.stop()
        return passed / steps

    for _ in range(2):
        block(with_sampler=True)
    sampled[:] = [0.0, 0.0]
    processor[True].clear()
    ratios, plain = [], []
    for number in range(pairs):
        taken = {which: block(with_sampler=which) for which in (number % 2 == 0, number % 2 == 1)}
        plain.append(taken[False])
        ratios.append(taken[True] / taken[False])
    low, middle, high = statistics.quantiles(ratios, n=4)
    cost = 1000 * sampled[0] / sampled[1]
    local = _local_ms(folder)
    kept = low <= 1.0, cost <= LIMIT_MS, local is None or local <= LIMIT_MS
    print(
        f"{pairs} pairs of {seconds:g} s on {run.here.device_kind}, a sample every {EVERY:g} s: "
        f"step {1000 * statistics.median(plain):.3g} ms, with the sampler {middle:.3f} "
        f"({low:.3f}–{high:.3f}) of it, limit 1.00 within the quartiles: {_ok(kept[0])}"
    )
    both = [on / off for on, off in zip(processor[True], processor[False], strict=True)]
    low, middle, high = statistics.quantiles(both, n=4)
    print(f"the same of the processor's time: {middle:.3f} ({low:.3f}–{high:.3f})")
    print(
        f"the sampler's time of the processor: {cost:.3f} ms per second, limit {LIMIT_MS:g} ms: "
        f"{_ok(kept[1])}"
    )
    if local is None:
        print(f"k8sbench itself is not measured: it needs {', '.join(NEEDED)}")
    else:
        print(f"k8sbench's own, of a local run's GPU: {local:.3f} ms per second: {_ok(kept[2])}")
    return 0 if all(kept) else 1


def _local_ms(folder: Path) -> float | None:
    """Milliseconds of the processor per second that k8sbench takes for one GPU of a local run."""
    if any(importlib.util.find_spec(name) is None for name in NEEDED):
        return None
    import pynvml

    from k8sbench.adapters.local import gpus
    from tests.local.followed import followed

    if not gpus.inventory().gpus:
        from tests.trainers import stand_in

        pynvml.nvmlLib = ctypes.CDLL(str(stand_in.built(folder / stand_in.NAME, SM_CLOCK=1380)))
        pynvml._nvmlGetFunctionPointer_cache.clear()
    source, _ = followed(folder)
    (thread,) = (one for one in threading.enumerate() if one.name == source.name)
    assert thread.ident is not None
    clock = time.pthread_getcpuclockid(thread.ident)
    began, computed = time.monotonic(), time.clock_gettime(clock)
    time.sleep(LOCAL_SECONDS)
    return 1000 * (time.clock_gettime(clock) - computed) / (time.monotonic() - began)


def _ok(kept: bool) -> str:
    return "ok" if kept else "MISSED"


if __name__ == "__main__":
    sys.exit(main())
