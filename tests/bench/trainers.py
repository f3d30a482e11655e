"""What our trainers cost beside a plain loop of the same model, and how fast they are on a GPU.

    python tests/bench/trainers.py [--only NAME] [--pairs N] [--record FILE]

Three questions, each with a limit (exit code 1 if one is missed):

- Step time: interleaved pairs of blocks of steps, ours as it is against a plain loop with
  upstream's own waits for the device; the median of the pairs' ratios, with its quartiles. At most
  1.03 on a GPU and 1.10 on CPUs that others share.
- Host work: the same with a model that does nothing; timers, meters and log lines may take 0.2 ms
  of CPU time per step.
- Memory: at most 10 % more than the plain loop takes (on a CPU: of what the process grew by since
  its imports).

On a GPU the networks have their full size, in FP32 and in mixed precision, and every benchmark then
runs once more by itself, for the rows of docs/measured.md (`--record` appends them to a file).
Without one the networks are whole and the pictures small, on one thread.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # `tests`, when run as a file

from tests.bench.sides import full_size, pairs
from tests.bench.sides.cases import NOOPS, TRAINERS, Case

RATIO_LIMITS = {"cuda": 1.03, "cpu": 1.10}
HOST_LIMIT_MS = 0.2
MEMORY_LIMIT = 1.10
LEAST_PAIRS = 7
BLOCK_SECONDS = {"cuda": 1.0, "cpu": 0.4}


def main() -> int:
    """Measure and print; returns 1 if a limit is missed."""
    given = _arguments()
    began = time.monotonic()
    gpus = full_size.gpu_names()
    seeing = {name for name in ("pytorch", "paddle") if gpus and full_size.sees_gpu(name)}
    print(f"GPUs: {', '.join(gpus) or 'none'}; used by: {', '.join(sorted(seeing)) or 'nobody'}")
    missed = 0
    wanted = [case for case in TRAINERS if given.only in case.trainer]
    print(f"\nstep time, {given.pairs} interleaved pairs, ratio as median (quartiles):")
    for case in wanted:
        device = "cuda" if case.framework in seeing else "cpu"
        for label, options in _precisions(case, device):
            missed += _steps(case, label, device, options, given.pairs)
    print("\nhost work per step, with a model that does nothing:")
    for case in NOOPS:
        missed += _host(case, given.pairs)
    if seeing:
        print("\nfull size on one GPU, rows for docs/measured.md:")
        for line in full_size.rows(seeing):
            print(line, flush=True)
            if given.record is not None:
                with given.record.open("a", encoding="utf-8") as file:
                    file.write(line + "\n")
    else:
        print("\nfull size on one GPU: not measured, no GPU here; docs/measured.md has no new rows")
    print(f"\n{time.monotonic() - began:.0f} s; limits missed: {missed}")
    return 1 if missed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--only", default="", metavar="NAME", help="trainers whose name has NAME")
    parser.add_argument("--pairs", type=int, default=15, help=f"at least {LEAST_PAIRS} (15)")
    parser.add_argument("--record", type=Path, metavar="FILE", help="append the GPU's rows to FILE")
    given = parser.parse_args()
    if given.pairs < LEAST_PAIRS:
        parser.error(f"--pairs must be at least {LEAST_PAIRS}")
    return given


def _precisions(case: Case, device: str) -> list[tuple[str, tuple[str, ...]]]:
    if device == "cpu":
        return [("FP32", case.small)]
    return [("FP32", ()), *([("AMP", case.amp)] if case.amp else [])]


def _steps(case: Case, label: str, device: str, options: tuple[str, ...], count: int) -> int:
    """Print one comparison; the number of limits that it misses."""
    name = f"{case.name}, {label}, {device}"
    try:
        found = pairs.compare(
            case, device, options, pairs=count, block_seconds=BLOCK_SECONDS[device]
        )
    except pairs.SideFailed as failed:
        print(f"  {name}: FAILED\n{failed}")
        return 1
    low, middle, high = statistics.quantiles(found.ratios, n=4)
    limit = RATIO_LIMITS[device]
    growth = found.ours_memory / found.plain_memory
    cpu = f", CPU time {found.cpu_ratio:.3f}" if device == "cpu" else ""
    print(
        f"  {name}: plain {_ms(found.plain)}, ours {_ms(found.ours)} per step; "
        f"ratio {middle:.3f} ({low:.3f}–{high:.3f}){cpu}, limit {limit}: {_ok(middle <= limit)}"
    )
    print(
        f"    memory: plain {found.plain_memory:.0f} MiB, ours {found.ours_memory:.0f} MiB, "
        f"ratio {growth:.3f}, limit {MEMORY_LIMIT}: {_ok(growth <= MEMORY_LIMIT)}",
        flush=True,
    )
    return (middle > limit) + (growth > MEMORY_LIMIT)


def _host(case: Case, count: int) -> int:
    """Print the host's work of one loop; 1 if it is too much."""
    try:
        found = pairs.compare(case, "cpu", case.small, pairs=count, block_seconds=0.2)
    except pairs.SideFailed as failed:
        print(f"  {case.name}: FAILED\n{failed}")
        return 1
    low, middle, high = (1000 * value for value in statistics.quantiles(found.more_cpu, n=4))
    print(
        f"  {case.name}: {middle:.3f} ms ({low:.3f}–{high:.3f}) more than the plain loop's "
        f"{_ms(found.plain_cpu)}, limit {HOST_LIMIT_MS} ms: {_ok(middle <= HOST_LIMIT_MS)}",
        flush=True,
    )
    return int(middle > HOST_LIMIT_MS)


def _ms(seconds: tuple[float, ...]) -> str:
    return f"{1000 * statistics.median(seconds):.3g} ms"


def _ok(kept: bool) -> str:
    return "ok" if kept else "MISSED"


if __name__ == "__main__":
    sys.exit(main())
