"""Finds out what slow steps of ResNet-50 in AMP come from: ``python -m tests.gpu.slow_steps``.

Runs the trainer with and without torchrun, its GPU sampler and watch, and its threads. Each step is
noted with what its thread did meanwhile: processor time, wait for a processor, wait for the GPU,
garbage collection, the driver's slowest call, and time that the host took from this machine.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import gc
import itertools
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import time
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
PREFIX = "SLOW-STEPS "
WARMUP, SLOW = 30, 1.5
"""Steps that are not judged, and how many times the median a slow one takes."""
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=1", "-m")
VARIANTS: dict[str, tuple[tuple[str, ...], dict[str, str], tuple[str, ...]]] = {
    "plain": (("-m",), {}, ()),
    "torchrun": (TORCHRUN, {}, ()),
    "torchrun, no sampler, no watch": (TORCHRUN, {}, ("no-sampler", "no-watch")),
    "torchrun, no collector": (TORCHRUN, {}, ("no-gc",)),
    "torchrun, OMP_NUM_THREADS=1": (TORCHRUN, {"OMP_NUM_THREADS": "1"}, ()),
    "torchrun, OMP_NUM_THREADS=8": (TORCHRUN, {"OMP_NUM_THREADS": "8"}, ()),
    "plain, OMP_NUM_THREADS=1": (("-m",), {"OMP_NUM_THREADS": "1"}, ()),
}
COLUMNS = ("ms", "cpu", "all cpu", "queued", "gpu wait", "gc", "driver", "stolen", "switches")


class Notes:
    """What a trainer's process notes of its steps."""

    def __init__(self) -> None:
        self.steps: list[dict[str, Any]] = []
        self.spans: list[tuple[str, float, float]] = []
        self.before = self._counters()

    @contextlib.contextmanager
    def span(self, name: str) -> Any:
        """Note when something began and ended."""
        began = time.perf_counter()
        yield
        self.spans.append((name, began, time.perf_counter()))

    @staticmethod
    def _counters() -> dict[str, float]:
        """Times in ms, since any moment."""
        used = resource.getrusage(resource.RUSAGE_THREAD)
        queued = pathlib.Path("/proc/thread-self/schedstat")
        stat = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()
        return {
            "ms": 1e3 * time.perf_counter(),
            "cpu": 1e3 * time.thread_time(),
            "all cpu": 1e3 * time.process_time(),
            "queued": int(queued.read_text().split()[1]) / 1e6 if queued.exists() else 0.0,
            "stolen": 10.0 * int(stat[8]),
            "switches": float(used.ru_nivcsw),
        }

    def step(self) -> None:
        """A step has ended."""
        now = self._counters()
        row = {name: round(value - self.before[name], 1) for name, value in now.items()}
        began, ended = self.before["ms"] / 1e3, now["ms"] / 1e3
        spans, self.spans = self.spans, []
        for kind in ("gpu wait", "gc", "driver"):
            of = [min(b, ended) - max(a, began) for name, a, b in spans if name == kind]
            row[kind] = round(1e3 * sum(each for each in of if each > 0), 1)
        self.before = now
        self.steps.append({"at": time.time(), **row})


def child(words: list[str]) -> None:
    """Train with notes: ``FLAGS OPTION...``."""
    flags, options = words[0].split(","), words[1:]
    import torch

    from k8sbench.trainers import resnet50
    from k8sbench.trainers.parts import ending, nvml, steps, watch

    notes = Notes()
    done, tolist, code = steps.StepTimer.step_done, torch.Tensor.tolist, nvml.Nvml._code
    began: list[float] = []

    def collected(phase: str, _: object) -> None:
        if phase == "start":
            began.append(time.perf_counter())
        else:
            notes.spans.append(("gc", began.pop(), time.perf_counter()))

    def step_done(self: Any) -> Any:
        record = done(self)
        notes.step()
        return record

    def read(self: Any) -> Any:
        with notes.span("gpu wait"):
            return tolist(self)

    def call(self: Any, *arguments: Any) -> Any:
        with notes.span("driver"):
            return code(self, *arguments)

    gc.callbacks.append(collected)
    steps.StepTimer.step_done = step_done  # type: ignore[method-assign]
    torch.Tensor.tolist = read
    nvml.Nvml._code = call  # type: ignore[assignment, method-assign]
    if "no-sampler" in flags:
        nvml.Sampler.start = lambda *_: None  # type: ignore[method-assign]
    if "no-watch" in flags:
        watch.start = lambda: None
    if "no-gc" in flags:
        gc.disable()

    def main() -> None:
        resnet50.main(options)
        os.write(1, f"{PREFIX}{json.dumps(notes.steps)}\n".encode())

    ending.run(main)


def run(variant: str, options: list[str], limit: float) -> list[dict[str, Any]]:
    """Run a variant; return its steps after the warm-up, or raise."""
    launcher, variables, flags = VARIANTS[variant]
    command = [sys.executable, *launcher, "tests.gpu.slow_steps", "child", ",".join(flags) or "-"]
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environ = {name: text for name, text in os.environ.items() if name != "OMP_NUM_THREADS"}
    environ |= {"PYTHONPATH": paths, **variables}
    ended = subprocess.run(
        [*command, *options],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=max(limit, 1.0),
    )
    for line in ended.stdout.splitlines():
        if line.startswith(PREFIX):
            found: list[dict[str, Any]] = json.loads(line.removeprefix(PREFIX))
            return found[WARMUP:]
    raise RuntimeError(f"exit code {ended.returncode}: {ended.stderr[-600:]}")


def slow(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The steps above `SLOW` × the median."""
    median = statistics.median(step["ms"] for step in steps)
    return [step for step in steps if step["ms"] > SLOW * median]


def summary(steps: list[dict[str, Any]]) -> list[str]:
    """A variant's cells: all steps, slow steps, and what those have above a usual one."""
    times, found = sorted(step["ms"] for step in steps), slow(steps)
    usual = {name: statistics.median(step[name] for step in steps) for name in COLUMNS}
    apart = [b["at"] - a["at"] for a, b in itertools.pairwise(found)]
    cells = [f"{usual['ms']:.1f}", f"{times[-1]:.1f}"]
    cells += [str(len(found)), f"{statistics.median(apart):.2f} s" if apart else "–"]
    for name in COLUMNS:
        more = [step[name] - usual[name] for step in found]
        cells.append(f"{statistics.median(more):+.1f}" if more else "–")
    return cells


def main() -> None:
    """Run the variants and print what they say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=100.0, help="for all variants")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--only", default="", help="numbers of variants, as in 0,1")
    parser.add_argument("--tiny", action="store_true", help="small shapes on a CPU")
    given = parser.parse_args()
    deadline = time.monotonic() + given.seconds
    length = ["--warmup", "0", "--iterations", str(WARMUP + given.steps), "--log-interval", "1"]
    size = ["--amp-dtype", "fp16", "--device", "cuda"]
    if given.tiny:
        size = ["--device", "cpu", "--input-size", "32", "--width-divisor", "8", "--batch-size=4"]
    names = list(VARIANTS)
    chosen = [names[int(number)] for number in given.only.split(",")] if given.only else names
    write = functools.partial(print, flush=True)
    write("what slow steps have above usual ones, medians, ms:")
    write("| variant | median ms | max ms | slow | every | " + " | ".join(COLUMNS) + " |")
    write("|---|" + "--:|" * (4 + len(COLUMNS)))
    lists = []
    for variant in chosen:
        try:
            steps = run(variant, [*length, *size], deadline - time.monotonic())
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            write(f"| {variant} | not run: {str(error)[-300:]} |")
            continue
        write(f"| {variant} | " + " | ".join(summary(steps)) + " |")
        first = steps[0]["at"]
        for step in slow(steps):
            more = ", ".join(f"{name} {step[name]}" for name in COLUMNS)
            lists.append(f"{variant}: at {step['at'] - first:.2f} s: {more}")
    write("\n" + "\n".join(lists))


if __name__ == "__main__":
    child(sys.argv[2:]) if sys.argv[1:2] == ["child"] else main()
