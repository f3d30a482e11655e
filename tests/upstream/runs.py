"""Published programs on this machine, run and measured like a user's."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from k8sbench.cli.main import main
from tests.harness import benchmark_files, upstream
from tests.tiers import ROOT

PROGRAMS = ROOT / "tests" / "upstream" / "programs"
BATCH, WARMUP, ITERATIONS = 2, 1, 5
TOTAL = WARMUP + ITERATIONS
PATIENCE = "10m"
"""Ten times the longest run, on two idle cores."""


@dataclass(frozen=True)
class Run:
    """A run that has ended."""

    row: dict[str, Any]
    """Its row, as JSON has it."""
    log: str
    """Output of its first replica."""

    def numbers(self, pattern: str) -> list[float]:
        """Return a number per line of the window; line one is warm-up."""
        found = [float(text) for text in re.findall(pattern, self.log, re.MULTILINE)]
        assert len(found) == TOTAL, self.log
        return found[WARMUP:]


@dataclass(frozen=True)
class Bench:
    """A folder for a benchmark file and what lies beside it, and a store."""

    folder: Path
    store: Path
    capture: pytest.CaptureFixture[str]

    def submit(
        self,
        command: Sequence[str | Path],
        log: str | dict[str, str],
        *words: str,
        packages: Sequence[str] = (),
        **more: Any,
    ) -> Run:
        """Run a command to its end; it must give a valid row."""
        variant = benchmark_files.variant(
            [str(word) for word in command],
            "registry.example.com/upstream:1",
            batch_size={"fp32": BATCH},
            env={"PYTHONPATH": upstream.installed(*packages, "common")},
            window={"warmup": WARMUP, "iterations": ITERATIONS, "rule": "ours"},
            log=log,
            **more,
        )
        spec = benchmark_files.benchmark(base=variant)
        spec["default_framework"] = variant["framework"]
        file = self.folder / "upstream.yaml"
        file.write_text(yaml.safe_dump(spec))
        started = ("--backend=local", "--yes", "--run-id=once", f"--timeout={PATIENCE}")
        code = main(["submit", str(file), *started, *words])
        said = self.capture.readouterr().err
        logs = {path.stem: path.read_text() for path in self.store.glob("runs/once/logs/*")}
        # Of steps of milliseconds, on a machine in use, one may take as long as all the others.
        assert code in {0, 5}, f"{said}\n{logs}"
        assert main(["results", "--accept=unsteady", "-o", "json"]) == 0
        (row,) = json.loads(self.capture.readouterr().out)["rows"]
        assert row["state"] == "valid", f"{said}\n{logs}"
        # A line begins with the time at which it was received.
        first = logs.get("master-0") or logs["worker-0"]
        return Run(row, "\n".join(line.partition(" ")[2] for line in first.splitlines()))
