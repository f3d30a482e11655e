"""Runs a PyTorch trainer inside the test's process, or as ranks of its own, and reads its lines."""

from __future__ import annotations

import atexit
import contextlib
import importlib
import itertools
import json
import os
import pathlib
import socket
import subprocess
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn
from unittest import mock

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
Event = dict[str, Any]
Captured = pytest.CaptureFixture[str]

# The same networks with narrow layers: what a test of the loop needs, in a fraction of the time.
NARROW = """
def narrowed(model):
    return lambda *given, **options: model(*given, **{**options, "width_divisor": 4})
from k8sbench.trainers.models import deeplabv3plus_torch, resnet_torch, tsm_torch
for module, name in (
    (deeplabv3plus_torch, "DeepLabV3Plus"),
    (resnet_torch, "Classifier"),
    (tsm_torch, "TSM"),
):
    put(module, name, narrowed(getattr(module, name)))
"""


# Trainers one after the other in one process: a line for each, NAME PORT OPTIONS.
FULL_SIZE_IN_TURN = """
import importlib, os, sys
for name, port, *options in (line.split() for line in sys.argv[1].splitlines()):
    os.environ["MASTER_PORT"] = port  # each run meets anew
    importlib.import_module("k8sbench.trainers." + name).main(options)
from k8sbench.trainers.parts import ending
ending.run(lambda: None)  # see END
"""
IN_TURN = f"put = setattr\n{NARROW}{FULL_SIZE_IN_TURN}"
_HELD = contextlib.ExitStack()
atexit.register(_HELD.close)
Job = tuple[str, ...]
"""A trainer's name and its options."""


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the trainers that run inside this process build narrow networks."""
    exec(NARROW, {"put": monkeypatch.setattr})


def events(text: str) -> list[Event]:
    """The machine lines of an output, in order."""
    prefix = "K8SBENCH "
    lines = [line for line in text.splitlines() if line.startswith(prefix)]
    return [json.loads(line.removeprefix(prefix)) for line in lines]


def only(found: Iterable[Event], name: str) -> list[Event]:
    """The events of one name."""
    return [event for event in found if event["event"] == name]


def losses(found: Iterable[Event]) -> list[Any]:
    """The losses of all records: numbers, or what JSON has no number for."""
    return [event["loss"] for event in only(found, "step")]


def output(capfd: Captured, trainer: str, *options: str) -> str:
    """Run one rank here, on one thread, and give what it printed."""
    capfd.readouterr()
    module = importlib.import_module(f"k8sbench.trainers.{trainer}")
    with mock.patch.dict(os.environ):  # a trainer sets variables, for a process of its own
        module.main(["--device", "cpu", "--threads", "1", *options])
    return capfd.readouterr().out


def run(capfd: Captured, trainer: str, *options: str) -> list[Event]:
    """Run one rank here, on one thread, and give its events."""
    return events(output(capfd, trainer, *options))


def free_port() -> int:
    """A port that nobody listens on, and nobody else is given as long as these tests run."""
    # Bound and not listening: who sets this option, as both frameworks do, can listen on it.
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    _HELD.enter_context(held)
    return int(held.getsockname()[1])


def environment(**more: str) -> dict[str, str]:
    """This process' environment with the source tree in front and `more`."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1", **more}


def together(
    arguments: Sequence[str],
    environments: Iterable[dict[str, str]],
    *,
    timeout: float = 100.0,
    code: int = 0,
) -> list[str]:
    """Start `python ARGUMENTS` in each environment; what each one printed, once all have ended by
    that code.
    """
    with contextlib.ExitStack() as stack:
        started = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, *arguments],
                    env=environment(**more),
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
            for more in environments
        ]
        try:
            outputs = [process.communicate(timeout=timeout) for process in started]
        finally:
            for process in started:
                process.kill()
    for process, (_, errors) in zip(started, outputs, strict=True):
        assert process.returncode == code, errors
    return [output for output, _ in outputs]


def rank_variables(rank: int, world_size: int, port: int) -> dict[str, str]:
    """What torchrun tells a rank of a job on one machine."""
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(world_size),
        "LOCAL_WORLD_SIZE": str(world_size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }


def refuse(message: str) -> NoReturn:
    """Raise, in the place of the trainers' own refusal, which ends the process."""
    raise SystemExit(message)


def refusal(arguments: Sequence[str], *, begun: bool = False) -> str:
    """Run `python ARGUMENTS`, which refuses to go on, `begun` or not: the one line that it says."""
    words = [sys.executable, *arguments]
    ended = subprocess.run(words, env=environment(), capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout != "") == (2, begun)
    (line,) = ended.stderr.splitlines()
    return line


END = """
here.close()
from k8sbench.trainers.parts import ending
ending.run(lambda: None)
"""
"""Ends a script of ranks as trainers end: PyTorch's own clean-up at the end of a process, after a
backward pass, now and then aborts it ("terminate called without an active exception")."""


def ranks(arguments: Sequence[str], world_size: int, *, timeout: float = 100.0) -> list[str]:
    """Start `python ARGUMENTS` once per rank, without a launcher, and give each one's stdout."""
    port = free_port()
    each = [rank_variables(rank, world_size, port) for rank in range(world_size)]
    return together(arguments, each, timeout=timeout)


def alone(arguments: Sequence[str], *, timeout: float = 100.0) -> str:
    """Run `python ARGUMENTS` as a job of its own and give its stdout."""
    return together(arguments, [{}], timeout=timeout)[0]


def in_turn(
    jobs: Sequence[Job],
    world_size: int,
    *,
    before: str = "",
    program: str = IN_TURN,
    timeout: float = 100.0,
) -> list[list[list[Event]]]:
    """Run trainers, narrow ones unless `program` is another, one after the other, all in one
    process per rank: of each job each rank's events. `before` is a program that runs first, on
    every rank.
    """
    script = "\n".join(" ".join((name, str(free_port()), *options)) for name, *options in jobs)
    printed = ranks(["-c", before + program, script], world_size, timeout=timeout)
    return [list(each) for each in zip(*map(separate, map(events, printed)), strict=True)]


def separate(found: Sequence[Event]) -> list[list[Event]]:
    """Events of several runs, each of which begins with its start line."""
    first = [index for index, event in enumerate(found) if event["event"] == "start"]
    return [list(found[a:b]) for a, b in itertools.pairwise([*first, len(found)])]
