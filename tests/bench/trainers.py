"""What our trainers cost beside a plain loop of the same model.

    python tests/bench/trainers.py [--only NAME] [--part PART]... [--pairs N]

Three questions, each with a limit (exit code 1 if one is missed), in two parts, `steps` and `host`:

- Step time: interleaved pairs of blocks of steps, ours as it is against a plain loop with
  upstream's own waits for the device; the median of the pairs' ratios, with its quartiles. At most
  1.03 on a GPU and 1.10 on CPUs that others share.
- Host work: the same with a model that does nothing; timers, meters and log lines may take 0.2 ms
  of CPU time per step.
- Memory: at most 10 % more than the plain loop takes (on a CPU: of what the process grew by since
  its imports).

On a GPU the networks have their full size, in FP32 and in mixed precision. Without one the networks
are whole and the pictures small, on one thread. What is not installed is not measured, and the
bench says so. How fast the trainers are by themselves is measured by ``tests/gpu_figures``.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # `tests`, when run as a file

from tests.bench.sides import pairs
from tests.bench.sides.cases import NOOPS, TRAINERS, Case
from tests.gpu import needs

RATIO_LIMITS = {"cuda": 1.03, "cpu": 1.10}
HOST_LIMIT_MS = 0.2
MEMORY_LIMIT = 1.10
LEAST_PAIRS = 7
BLOCK_SECONDS = {"cuda": 1.0, "cpu": 0.4}
PARTS = ("steps", "host")
MODULES = {"pytorch": "torch", "paddle": "paddle"}


def main() -> int:
    """Measure and print; returns 1 if a limit is missed."""
    given = _arguments()
    began = time.monotonic()
    parts = given.part or PARTS
    here = {name for name, module in MODULES.items() if importlib.util.find_spec(module)}
    for name in sorted(MODULES.keys() - here):
        print(f"{name} is not installed: nothing of it is measured")
    failed = 0
    if "steps" in parts:
        print(f"step time, {given.pairs} interleaved pairs, ratio as median (quartiles):")
        for case in TRAINERS:
            if given.only in case.trainer and case.framework in here:
                device = given.device or _device(MODULES[case.framework])
                for label, options in _precisions(case, device):
                    failed += _steps(case, label, device, options, given)
    if "host" in parts:
        print("\nhost work per step, with a model that does nothing:")
        for case in NOOPS:
            if case.framework in here:
                failed += _host(case, given)
    print(f"\n{time.monotonic() - began:.0f} s; limits missed or runs failed: {failed}")
    return 1 if failed else 0


def _device(module: str) -> str:
    reason = needs.missing(module)
    if reason is not None:
        print(f"on the CPU: {reason}")
    return "cuda" if reason is None else "cpu"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--only", default="", metavar="NAME", help="trainers whose name has NAME")
    parser.add_argument(
        "--part", action="append", choices=PARTS, help="only this part, or these (all)"
    )
    parser.add_argument(
        "--pairs", type=int, default=15, help=f"at least {LEAST_PAIRS}, without limits 2 (15)"
    )
    parser.add_argument("--device", choices=BLOCK_SECONDS, help="default: a GPU if there is one")
    parser.add_argument(
        "--block-seconds", type=float, metavar="S", help=f"of each block ({BLOCK_SECONDS})"
    )
    parser.add_argument(
        "--no-limits", action="store_true", help="exit code 1 only where a side fails"
    )
    given = parser.parse_args()
    if given.pairs < LEAST_PAIRS and not given.no_limits:
        parser.error(f"--pairs must be at least {LEAST_PAIRS}")
    return given


def _precisions(case: Case, device: str) -> list[tuple[str, tuple[str, ...]]]:
    if device == "cpu":
        return [("FP32", case.small)]
    return [("FP32", ()), *([("AMP", case.amp)] if case.amp else [])]


def _steps(
    case: Case, label: str, device: str, options: tuple[str, ...], given: argparse.Namespace
) -> int:
    """Print one comparison; the number of limits that it misses."""
    name = f"{case.name}, {label}, {device}"
    try:
        block = given.block_seconds or BLOCK_SECONDS[device]
        found = pairs.compare(case, device, options, pairs=given.pairs, block_seconds=block)
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
    return 0 if given.no_limits else (middle > limit) + (growth > MEMORY_LIMIT)


def _host(case: Case, given: argparse.Namespace) -> int:
    """Print the host's work of one loop; 1 if it is too much."""
    try:
        found = pairs.compare(case, "cpu", case.small, pairs=given.pairs, block_seconds=0.2)
    except pairs.SideFailed as failed:
        print(f"  {case.name}: FAILED\n{failed}")
        return 1
    low, middle, high = (1000 * value for value in statistics.quantiles(found.more_cpu, n=4))
    print(
        f"  {case.name}: {middle:.3f} ms ({low:.3f}–{high:.3f}) more than the plain loop's "
        f"{_ms(found.plain_cpu)}, limit {HOST_LIMIT_MS} ms: {_ok(middle <= HOST_LIMIT_MS)}",
        flush=True,
    )
    return int(middle > HOST_LIMIT_MS and not given.no_limits)


def _ms(seconds: tuple[float, ...]) -> str:
    return f"{1000 * statistics.median(seconds):.3g} ms"


def _ok(kept: bool) -> str:
    return "ok" if kept else "MISSED"


if __name__ == "__main__":
    sys.exit(main())
