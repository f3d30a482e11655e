"""Figures of a machine with a GPU, then what the tests find on it, within a limit of time.

    python3 -m tests.gpu_figures FILE [--wheels FOLDER] [--rehearse] ...

In this order: the systems at full size in FP32 and in AMP; ``k8sbench submit resnet50 --backend
local``; the tests of ``tests/gpu``. What comes first matters most. Each part has a limit of time,
which leaves the later parts theirs, and what it does not use is theirs, too. A failure ends no more
than its own line. FILE has all that is printed, as it comes, and the whole text of failed tests.
Exit code 0 if every row has a figure and every part has succeeded or been skipped for want of a
package, 1 if not, 6 without a GPU.

It needs PyTorch or Paddle, psutil, PyYAML and pytest; ``submit`` also needs :data:`NEEDED`, which
may be carried here as wheels. ``--rehearse`` runs all of it on the CPU, in small shapes.
"""

from __future__ import annotations

import argparse
import contextlib
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
RESERVED = {"rows": 0.0, "submit": 60.0, "tests": 110.0}
"""Part → seconds that the parts before it leave to it."""
LEAST_SECONDS = 10.0
"""A program is not started with less."""
MODULES = {"pytorch": "torch", "paddle": "paddle"}
TIERS = {"pytorch": "gpu", "paddle": "gpu-paddle"}
NEEDED = ("click", "jinja2", "msgspec", "psutil", "pynvml", "sqlalchemy", "yaml")
"""Modules that k8sbench imports for a local run."""
NO_GPU = 6
TESTS = "tests/gpu"


@dataclass(frozen=True)
class Run:
    """One run of this program."""

    options: argparse.Namespace
    file: TextIO
    deadline: float
    """Of `time.monotonic`."""
    environ: dict[str, str]
    frameworks: Sequence[str]
    """Those that can use the device."""

    def say(self, *lines: str) -> None:
        """Print lines and write them."""
        print(*lines, sep="\n", flush=True)
        self.write(*lines)

    def write(self, *lines: str) -> None:
        """Write lines to the file alone."""
        print(*lines, sep="\n", file=self.file, flush=True)

    def seconds_for(self, part: str) -> float:
        """Seconds left to a part, less those of the later parts."""
        parts = self.options.part
        later = sum(RESERVED[each] for each in parts[parts.index(part) + 1 :])
        return self.deadline - time.monotonic() - later

    def start(self, words: Sequence[str], seconds: float) -> Ended:
        """Run a command, within `seconds`."""
        if seconds < LEAST_SECONDS:
            return Ended([], None, "no time was left for it")
        return bounded.run(words, seconds=seconds, environ=self.environ)


@dataclass(frozen=True)
class Verdict:
    """What came of a part."""

    text: str
    succeeded: bool


def main(argv: Sequence[str] | None = None) -> int:
    """Run the parts; returns the exit code."""
    began = time.monotonic()
    given = _arguments(argv)
    # Also whoever ends this program gets no program that it has started left behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    reasons = _unusable(given)
    frameworks = [name for name in MODULES if name not in reasons]
    if not frameworks:
        said = "; ".join(f"{MODULES[name]}: {reason}" for name, reason in reasons.items())
        print(
            f"error: no framework can measure here ({said}); --rehearse uses the CPU",
            file=sys.stderr,
        )
        return NO_GPU
    given.file.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        file = stack.enter_context(given.file.open("w", encoding="utf-8"))
        environ = _environment(given, frameworks, folder)
        run = Run(given, file, began + given.seconds, environ, frameworks)
        run.say(f"# Figures of {_device(given)}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC", "")
        run.say(*(f"Not measured: {MODULES[name]}: {why}" for name, why in reasons.items()), "")
        summary, code = [], 0
        for part in given.part:
            before = time.monotonic()
            verdict = PARTS[part](run, folder)
            word = "ok" if verdict.succeeded else "FAILED"
            summary.append(f"- {part}: {word}: {verdict.text} ({time.monotonic() - before:.0f} s)")
            code |= not verdict.succeeded
        run.say("## Summary", "", *summary, "")
        run.say(f"Exit code {code:d} after {time.monotonic() - began:.0f} s.")
    return int(code)


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    description, _, more = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        prog="python3 -m tests.gpu_figures",
        description=description,
        epilog=more,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="for the figures; overwritten")
    parser.add_argument("--wheels", type=Path, metavar="FOLDER", help="wheels carried here")
    parser.add_argument("--part", action="append", choices=PARTS, help="only this part, or these")
    parser.add_argument("--only", default="", metavar="NAME", help="trainers whose name has NAME")
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"in all ({SECONDS:.0f})")
    parser.add_argument("--rehearse", action="store_true", help="on the CPU, in small shapes")
    given = parser.parse_args(argv)
    given.part = [part for part in PARTS if part in (given.part or PARTS)]
    return given


def _unusable(given: argparse.Namespace) -> dict[str, str]:
    """Framework that cannot use the device → why."""
    if given.rehearse:
        found = {name: importlib.util.find_spec(module) for name, module in MODULES.items()}
        return {name: "not installed" for name, spec in found.items() if spec is None}
    asked = {name: needs.missing(module) for name, module in MODULES.items()}
    return {name: reason for name, reason in asked.items() if reason is not None}


def _device(given: argparse.Namespace) -> str:
    return "a rehearsal on the CPU" if given.rehearse else " and ".join(needs.gpus())


def _environment(
    given: argparse.Namespace, frameworks: Sequence[str], folder: Path
) -> dict[str, str]:
    """The variables of all programs: what is imported from where, and on which device."""
    # pytest without any plug-in is the same everywhere.
    own = {"PYTHONUNBUFFERED": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    environ = {**os.environ, **own}
    given_path = [os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else []
    environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *given_path])
    if given.wheels is not None:
        for wheel in given.wheels.glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(folder / "site")
        # Behind what is installed: a machine may have some of it.
        environ["PYTHONPATH"] += os.pathsep + str(folder / "site")
    if given.rehearse:
        return {**environ, "CUDA_VISIBLE_DEVICES": ""}
    tiers = [TIERS[name] for name in frameworks]
    environ.setdefault("K8SBENCH_REQUIRE_TIERS", " ".join(tiers))
    return environ


def _rows(run: Run, folder: Path) -> Verdict:
    """Print the table; each row has its share of the time, and what the rows before it left."""
    del folder
    run.say("## Full size on one GPU", "", rows.HEADER)
    cases = [
        case
        for case in rows.cases(run.options.only, rehearsal=run.options.rehearse)
        if case.variant["framework"] in run.frameworks
    ]
    complete = 0
    for number, case in enumerate(cases):
        seconds = run.seconds_for("rows") / (len(cases) - number)
        ended = run.start(case.command(), seconds)
        row = rows.row(case, ended)
        run.say(row.line)
        complete += row.complete
    run.say("")
    verdict = f"{complete} of {len(cases)} rows have a figure and no failure"
    return Verdict(verdict, complete == len(cases))


def _submit(run: Run, folder: Path) -> Verdict:
    """Print what k8sbench itself makes of a run on this machine."""
    command = ["submit", "resnet50", "--backend", "local", "--store", str(folder / "store")]
    if run.options.rehearse:
        command += ["--warmup", "1", "--iterations", "5", "--batch-size", "2"]
    run.say("## `k8sbench submit resnet50 --backend local`", "")
    tried = run.start([sys.executable, "-c", f"import {', '.join(NEEDED)}"], LEAST_SECONDS)
    if tried.code != 0:
        run.say("```text", *tried.lines[-1:], "```", "")
        return Verdict("skipped, because not all that it needs can be imported", True)
    words = [sys.executable, "-m", "k8sbench", *command]
    ended = run.start(words, run.seconds_for("submit"))
    run.say("```text", *(line for line in ended.lines if not line.startswith("  step ")), "```", "")
    return Verdict(_how(ended), ended.code == 0)


def _tests(run: Run, folder: Path) -> Verdict:
    """Print what the tests on a GPU give; where some fail, write all of their text."""
    del folder
    plugin = ["-p", without_timeout.__name__]
    words = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", *plugin, TESTS]
    run.say(f"## `{TESTS}`", "")
    ended = run.start(words, run.seconds_for("tests"))
    results = [line for line in ended.lines if line.startswith(("FAILED", "ERROR", "tier "))]
    run.say(*(f"- {line}" for line in results), "")
    counts = next((line.strip("= ") for line in reversed(ended.lines) if line[:1] == "="), "none")
    succeeded = ended.code in (0, 5)  # 5: it has met no test
    if not succeeded:
        run.write("```text", *ended.lines, "```", "")
    return Verdict(f"{counts}; {_how(ended)}", succeeded)


def _how(ended: Ended) -> str:
    return ended.stopped or f"exit code {ended.code}"


PARTS = {"rows": _rows, "submit": _submit, "tests": _tests}

if __name__ == "__main__":
    sys.exit(main())
