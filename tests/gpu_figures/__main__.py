"""Figures of a GPU machine, then the GPU tests, within a time limit.

    python3 -m tests.gpu_figures FILE [--wheels FOLDER] [--rehearse] ...

In this order: the systems at full size in FP32 and in AMP; ``k8sbench submit resnet50 --backend
local``; the tests of ``tests/gpu``. What comes first matters most. Each part has a limit of time,
which leaves the later parts theirs, and what it does not use is theirs, too. A failure ends no more
than its own line. FILE has all that is printed, as it comes.
Exit code 0 if every row has a figure and every part has succeeded or been skipped for want of a
package, 1 if not, 6 without a GPU.

It needs PyTorch or Paddle, psutil, PyYAML and pytest; ``submit`` also needs :data:`NEEDED`, which
may be carried here as wheels. ``--rehearse`` runs all of it on the CPU, in small shapes.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import signal
import sys
import tempfile
import time
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from tests.gpu import needs
from tests.gpu_figures import bounded, rows, without_timeout
from tests.gpu_figures.bounded import ROOT, Ended

SECONDS = 520.0
LATER = {"rows": 320.0, "submit": 90.0, "tests": 0.0}
"""Part → seconds reserved for later parts; `submit` measures for 180 s."""
LEAST_SECONDS = 10.0
"""A program is not started with less."""
MODULES = {"pytorch": "torch", "paddle": "paddle"}
TIERS = {"pytorch": "gpu", "paddle": "gpu-paddle"}
NEEDED = ("click", "jinja2", "msgspec", "psutil", "pynvml", "sqlalchemy", "yaml")
"""Modules that k8sbench imports for a local run."""
NO_GPU = 6
Verdict = tuple[str, bool]
"""Result text of a part, and its success."""


@dataclass(frozen=True)
class Run:
    """One run of this program."""

    options: argparse.Namespace
    file: TextIO
    folder: Path
    deadline: float
    """In terms of `time.monotonic`."""
    environ: dict[str, str]
    frameworks: Sequence[str]
    """Those that can use the device."""

    def say(self, *lines: str) -> None:
        """Print lines and write them."""
        print(*lines, sep="\n", flush=True)
        print(*lines, sep="\n", file=self.file, flush=True)

    def seconds_for(self, part: str) -> float:
        """Seconds left to a part."""
        alone = self.options.part == [part]
        return self.deadline - time.monotonic() - (0.0 if alone else LATER[part])

    def start(self, words: Sequence[str], seconds: float) -> Ended:
        """Run Python with these arguments, within `seconds`."""
        if seconds < LEAST_SECONDS:
            return Ended([], None, "no time was left for it")
        return bounded.run([sys.executable, *words], seconds=seconds, environ=self.environ)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the parts; returns the exit code."""
    began = time.monotonic()
    given = _arguments(argv)
    # Also whoever ends this program gets no program that it has started left behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    unusable = {name: _unusable(module, given) for name, module in MODULES.items()}
    frameworks = [name for name in MODULES if unusable[name] is None]
    reasons = [f"{MODULES[name]}: {reason}" for name, reason in unusable.items() if reason]
    if not frameworks:
        print(f"error: no framework can measure here ({'; '.join(reasons)})", file=sys.stderr)
        return NO_GPU
    given.file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, given.file.open("w", encoding="utf-8") as file:
        environ = _environment(given, frameworks, Path(folder))
        run = Run(given, file, Path(folder), began + SECONDS, environ, frameworks)
        device = "a rehearsal on the CPU" if given.rehearse else " and ".join(needs.gpus())
        run.say(f"# Figures of {device}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC", "")
        run.say(*(f"Not measured: {reason}" for reason in reasons), "")
        summary, code = [], 0
        for part in given.part:
            before = time.monotonic()
            text, succeeded = PARTS[part](run)
            word = "ok" if succeeded else "FAILED"
            summary.append(f"- {part}: {word}: {text} ({time.monotonic() - before:.0f} s)")
            code |= not succeeded
        run.say("## Summary", "", *summary, "")
        run.say(f"Exit code {code:d} after {time.monotonic() - began:.0f} s.")
    return int(code)


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python3 -m tests.gpu_figures",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="for the figures; overwritten")
    parser.add_argument("--wheels", type=Path, metavar="FOLDER", help="wheels carried here")
    parser.add_argument("--part", action="append", choices=PARTS, help="only this part, or these")
    parser.add_argument("--only", default="", metavar="NAME", help="trainers whose name has NAME")
    parser.add_argument("--rehearse", action="store_true", help="on the CPU, in small shapes")
    given = parser.parse_args(argv)
    given.part = [part for part in PARTS if part in (given.part or PARTS)]
    return given


def _unusable(module: str, given: argparse.Namespace) -> str | None:
    """Return why a framework cannot use the device."""
    if given.rehearse:
        return None if importlib.util.find_spec(module) else "not installed"
    return needs.missing(module)


def _environment(
    given: argparse.Namespace, frameworks: Sequence[str], folder: Path
) -> dict[str, str]:
    """The variables of all programs: what is imported from where, and on which device."""
    # pytest without any plug-in is the same everywhere.
    own = {"PYTHONUNBUFFERED": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    # Wheels come behind what is installed: a machine may have some of it.
    paths = [str(ROOT), os.environ.get("PYTHONPATH", ""), str(folder / "site")]
    environ = {**os.environ, **own, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    for wheel in given.wheels.glob("*.whl") if given.wheels else ():
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder / "site")
    if given.rehearse:
        return {**environ, "CUDA_VISIBLE_DEVICES": ""}
    tiers = " ".join(TIERS[name] for name in frameworks)
    return {"K8SBENCH_REQUIRE_TIERS": tiers, **environ}


def _rows(run: Run) -> Verdict:
    """Print the table; a row gets its time share and what remained."""
    run.say("## Full size on one GPU", "", rows.HEADER)
    found = rows.cases(run.options.only, rehearsal=run.options.rehearse)
    cases = [case for case in found if case.variant["framework"] in run.frameworks]
    complete = 0
    for number, case in enumerate(cases):
        ended = run.start(case.command(), run.seconds_for("rows") / (len(cases) - number))
        line, credible = rows.row(case, ended)
        run.say(line)
        complete += credible
    run.say("")
    text = f"{complete} of {len(cases)} rows have a figure and no failure"
    return text, complete == len(cases)


def _submit(run: Run) -> Verdict:
    """Print what k8sbench itself makes of a run on this machine."""
    words = ["-m", "k8sbench", "submit", "resnet50", "--backend", "local"]
    words += ["--store", str(run.folder / "store")]
    if run.options.rehearse:
        words += ["--warmup", "1", "--iterations", "5", "--batch-size", "2"]
    run.say("## `k8sbench submit resnet50 --backend local`", "")
    tried = run.start(["-c", f"import {', '.join(NEEDED)}"], LEAST_SECONDS)
    if tried.code != 0:
        run.say("```text", *tried.lines[-1:], "```", "")
        return "skipped, because not all that it needs can be imported", True
    ended = run.start(words, run.seconds_for("submit"))
    run.say("```text", *(line for line in ended.lines if not line.startswith("  step ")), "```", "")
    return ended.how, ended.code == 0


def _tests(run: Run) -> Verdict:
    """Print the result of the GPU tests; on a failure, all output."""
    words = ["-m", "pytest", "-v", "-p", "no:cacheprovider", "-p", without_timeout.__name__]
    if importlib.util.find_spec("xdist"):
        words += ["-p", "xdist", "--numprocesses", "4"]
    run.say("## `tests/gpu`", "")
    ended = run.start([*words, "tests/gpu"], run.seconds_for("tests"))
    results = [line for line in ended.lines if line.startswith(("FAILED", "ERROR", "tier "))]
    run.say(*(f"- {line}" for line in results), "")
    counts = next((line.strip("= ") for line in reversed(ended.lines) if line[:1] == "="), "none")
    succeeded = ended.code in (0, 5)  # 5: it has met no test
    if not succeeded:
        run.say("```text", *ended.lines, "```", "")
    return f"{counts}; {ended.how}", succeeded


PARTS = {"rows": _rows, "submit": _submit, "tests": _tests}

if __name__ == "__main__":
    sys.exit(main())
