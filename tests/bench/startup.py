"""Start-up time of the command line, relative to ``python -c pass``.

Prints medians of 10 interleaved runs; the limits are the project's own (a help page within 100 ms,
a rendered manifest within 250 ms above the bare interpreter). Exit code 1 if one is missed.
"""

import statistics
import subprocess
import sys
import time

ROUNDS = 10
BARE = [sys.executable, "-c", "pass"]
LIMITS = {
    "k8sbench --help": ([sys.executable, "-m", "k8sbench", "--help"], 100.0),
    "k8sbench render resnet50": ([sys.executable, "-m", "k8sbench", "render", "resnet50"], 250.0),
}


def milliseconds(words: list[str]) -> float:
    """Run a command to its end; returns its wall time, ms."""
    start = time.perf_counter()
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return (time.perf_counter() - start) * 1000


def main() -> int:
    """Measure and print; returns 1 if a limit is missed."""
    bare: list[float] = []
    times: dict[str, list[float]] = {name: [] for name in LIMITS}
    for _ in range(ROUNDS + 1):
        bare.append(milliseconds(BARE))
        for name, (words, _limit) in LIMITS.items():
            times[name].append(milliseconds(words))
    base = statistics.median(bare[1:])  # the first round fills the page cache
    print(f"python -c pass: {base:.0f} ms (median of {ROUNDS})")
    missed = 0
    for name, (_words, limit) in LIMITS.items():
        above = statistics.median(times[name][1:]) - base
        verdict = "ok" if above <= limit else "MISSED"
        missed += above > limit
        print(f"{name}: {above:.0f} ms above it, limit {limit:.0f} ms: {verdict}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
