"""Processes of our trainers and of peers."""

from __future__ import annotations

import json
import os
import pathlib
import select
import subprocess
import sys
import time
from typing import IO, Any

from tests.gpu.peers.contests import Ours

ROOT = pathlib.Path(__file__).resolve().parents[3]
PREFIX = "K8SBENCH "


class NotRun(Exception):
    """A figure is missing; the message is the reason."""


def _environment() -> dict[str, str]:
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:160] if lines else "it said nothing"


def run_ours(ours: Ours, *, tiny: bool, until: float) -> dict[str, Any]:
    """Run a trainer; return the figures of its machine lines.

    `seconds` of a step, `parameters`, GPU and framework. It is
    killed at the monotonic time `until`.
    """
    limit = max(until - time.monotonic(), 1.0)
    try:
        ended = subprocess.run(
            [sys.executable, *ours.words(tiny)],
            env=_environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=limit,
        )
    except subprocess.TimeoutExpired:
        raise NotRun(f"not done in the {limit:.0f} s that were left") from None
    if ended.returncode != 0:
        raise NotRun(f"exit code {ended.returncode}: {_last_line(ended.stderr)}")
    lines = (line for line in ended.stdout.splitlines() if line.startswith(PREFIX))
    events = {event["event"]: event for event in map(json.loads, (x[len(PREFIX) :] for x in lines))}
    window = events["summary"]["window"]
    return {
        "seconds": window["seconds"] / (window["last_step"] - window["first_step"] + 1),
        "parameters": events["summary"]["parameters"],
        "gpu": events["summary"]["machine"].get("gpu_model"),
        "torch": events["start"]["framework_version"],
    }


class Peer:
    """A process of `theirs`: imports, then waits for commands."""

    def __init__(self, name: str, task: dict[str, Any], log: pathlib.Path) -> None:
        self.name, self.log = name, log
        with log.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.gpu.peers.theirs", name, json.dumps(task)],
                env=_environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self.packages: dict[str, str] = {}

    def ready(self, limit: float) -> None:
        """Wait for its imports."""
        self.packages = self._answer(limit)["packages"]

    def steps(self, warmup: int, steps: int, limit: float) -> dict[str, Any]:
        """Take steps; returns `seconds` of one and `parameters`."""
        try:
            _of(self.process.stdin).write(f"{warmup} {steps}\n")
            _of(self.process.stdin).flush()
        except BrokenPipeError:
            raise NotRun(_last_line(self.log.read_text())) from None
        return self._answer(limit)

    def _answer(self, limit: float) -> dict[str, Any]:
        stdout = _of(self.process.stdout)
        # One line at a time, so that none waits in the buffer.
        if not select.select([stdout], [], [], limit)[0]:
            raise NotRun(f"no answer within {limit:.0f} s")
        line = stdout.readline()
        if not line:
            self.process.wait()
            raise NotRun(_last_line(self.log.read_text()))
        answer: dict[str, Any] = json.loads(line)
        return answer

    def end(self) -> None:
        """Kill the process."""
        self.process.kill()
        self.process.communicate()


def _of(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe
