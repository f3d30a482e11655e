"""Cost of answers in stores of different sizes: ``python tests/bench/store_size.py [NIGHTS ...]``.

A night has three runs of nine cases. The runs' folders are written by this script; the index is
built by the first command. Printed are the user processor seconds and the peak memory of each
command, and their ratio to the smallest store; then those of the documents of an operator with that
store, the last one four times at once. Exit code 1 if a limit is missed.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # `tests`, when run as a file

from k8sbench.model.run import Run
from k8sbench.store.run_folder import RunFolder
from tests.bench import served_store
from tests.harness import children
from tests.results.report.factory import START, repeats

NIGHTS = (4, 400)
"""Nights of the stores; 27 runs each."""
CASES = ("1x1", "1x2", "1x4", "1x8", "2x8", "4x8", "8x8", "16x8", "32x8")
DAY = 86400.0
LIMITS = {400: (1.5, 0.8), 4000: (3.0, None)}
"""Nights → most times the smallest store, and most seconds."""
LISTS = ("list -o name", "list", "list -o json", "list -o csv")
"""Lists in a pipe: they have all runs, so that their time grows with the store."""
MEGABYTES = 150
"""Most memory of a command."""
DOCUMENTS = {"/api/v1/runs?limit=1": 0.05, "/api/v1/rows": 0.2, "/": 1.0}
"""Path of a document of an operator → most processor seconds."""
MOST_OF_OPERATOR = 800
"""Nights up to which these hold: 20,000 runs."""
OPERATOR_MEGABYTES = 300
"""Most memory of an operator that makes four pages at once."""


def write(root: Path, nights: int) -> None:
    """Write the folders of a store."""
    for night in range(nights):
        for number, case in enumerate(CASES):
            gpus = int(case.split("x")[0]) * int(case.split("x")[1])
            level = 800.0 * gpus * (0.99 - 0.01 * number) * (1 + 0.002 * ((night * 7) % 5 - 2))
            rates = [level * share for share in (0.999, 1.0, 1.001)]
            at = START + DAY * night + 1000 * number
            for run in repeats(rates, case=case, set_name=f"night-{night:04}", at=at):
                _save(root, run, f"{run.run_id}-{night}-{number}")


def _save(root: Path, run: Run, run_id: str) -> None:
    plan = msgspec.structs.replace(run.plan, run_id=run_id)
    folder = RunFolder(root / "runs" / run_id)
    folder.path.mkdir(parents=True)
    log = folder.path / "logs" / "master-0.log"
    log.parent.mkdir()
    log.write_text("")
    folder.save(msgspec.structs.replace(run, planned=plan, process=None))


def measured(root: Path, *words: str) -> tuple[float, float]:
    """Run a command; returns its user processor seconds and peak memory, MB."""
    child = [sys.executable, "-c", CHILD, *words]
    env = {**os.environ, "K8SBENCH_STORE": str(root), "HOME": str(root), "KUBECONFIG": ""}
    # Compiled modules are kept, as in an installation.
    env |= {"PYTHONPYCACHEPREFIX": str(root / "compiled"), "PYTHONDONTWRITEBYTECODE": ""}
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    # What this process holds would count in the peak of its children.
    streams: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    done = subprocess.run(child, env=env, text=True, check=False, **streams)
    if done.returncode not in {0, 7}:
        raise SystemExit(f"{' '.join(words)}: {done.stderr}")
    seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    return seconds, int(done.stderr.rsplit("PEAK ", 1)[1]) / 1024


CHILD = """
import atexit, resource, runpy, sys
atexit.register(lambda: print("PEAK", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
                              file=sys.stderr))
runpy.run_module("k8sbench", run_name="__main__", alter_sys=True)
"""


def served(root: Path) -> tuple[dict[str, float], float]:
    """Serve a store as an operator; returns the processor seconds by path and the peak memory, MB.

    Those of the client that asks are among them.
    """
    words = children.command(served_store.serve, root, *DOCUMENTS)
    home = Path(__file__).resolve().parents[2]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=home)
    *figures, peak = map(float, done.stdout.split())
    return dict(zip(DOCUMENTS, figures, strict=True)), peak


def commands(root: Path, nights: int) -> dict[str, tuple[str, ...]]:
    """Return the commands to measure, by name."""
    last, before = f"night-{nights - 1:04}", f"night-{nights - 2:04}"
    run_id = max((path.name for path in (root / "runs").iterdir()), key=len)
    return {
        "results --set X": ("results", "--set", last),
        "results": ("results",),
        # The end of submit makes the same rows.
        "results RUN": ("results", run_id),
        "compare A B": ("compare", before, last),
        "compare": ("compare",),
        "history": ("history",),
        "history BENCH": ("history", "resnet50"),
        "status RUN": ("status", run_id),
        "explain RUN": ("explain", run_id),
        "results -o html": ("results", "-o", "html"),
    }


def main() -> int:
    """Measure and print; returns 1 if a limit is missed."""
    sizes = [int(word) for word in sys.argv[1:]] or list(NIGHTS)
    missed = []
    smallest: dict[str, float] = {}
    print(f"{'command':<18}{'runs':>8}{'seconds':>9}{'MB':>7}{'ratio':>7}")
    for nights in sizes:
        with tempfile.TemporaryDirectory(prefix="k8sbench-store-") as folder:
            root = Path(folder)
            write(root, nights)
            for name in ("store reindex", *LISTS):
                seconds, peak = measured(root, *name.split())
                print(f"{name:<18}{27 * nights:>8}{seconds:>9.2f}{peak:>7.0f}")
                if name in LISTS and peak > MEGABYTES:
                    missed.append(f"{name} with {27 * nights} runs")
            for name, words in commands(root, nights).items():
                tries = [measured(root, *words) for _ in range(3)]
                seconds, peak = min(tries)
                ratio = seconds / smallest.setdefault(name, seconds)
                print(f"{name:<18}{27 * nights:>8}{seconds:>9.2f}{peak:>7.0f}{ratio:>7.2f}")
                most, longest = LIMITS.get(nights, (None, None))
                is_slow = most is not None and ratio > most
                is_long = longest is not None and seconds > longest
                if is_slow or is_long or peak > MEGABYTES:
                    missed.append(f"{name} with {27 * nights} runs")
            documents, peak = served(root)
            for name, seconds in documents.items():
                print(f"{name:<20}{27 * nights:>6}{seconds:>9.3f}{peak:>7.0f}")
                is_slow = seconds > DOCUMENTS[name] and nights <= MOST_OF_OPERATOR
                if is_slow or peak > OPERATOR_MEGABYTES:
                    missed.append(f"GET {name} with {27 * nights} runs")
    for name in missed:
        print(f"missed: {name}")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
