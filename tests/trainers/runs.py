"""Runs a trainer in the test's process or as separate ranks."""

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
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn
from unittest import mock

import pytest

from tests.harness import children
from tests.harness.forks import Ended
from tests.trainers import in_turn as turns

ROOT = pathlib.Path(__file__).resolve().parents[2]
Event = dict[str, Any]
Captured = pytest.CaptureFixture[str]

Job = tuple[str, ...]
"""A trainer's name and its options."""

FRAMEWORKS = {
    **dict.fromkeys(("deeplabv3p_pytorch", "resnet50", "tsm", "gpt"), "pytorch"),
    **dict.fromkeys(("deeplabv3p_paddle", "arcface"), "paddle"),
}
"""Trainer → its framework."""
# The same networks with narrow layers: what a test of the loop needs, in a fraction of the time.
DIVISORS = {"pytorch": 4, "paddle": 8}
_HELD = contextlib.ExitStack()
atexit.register(_HELD.close)


def of(framework: str) -> list[str]:
    """The trainers of a framework."""
    return [trainer for trainer, its in FRAMEWORKS.items() if its == framework]


def import_paddle() -> None:
    """Import paddle, whose import warns of much that is not ours to mend."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module("paddle")


def part(framework: str) -> Any:
    """The module of a framework's session."""
    if framework == "paddle":
        import_paddle()
        from k8sbench.trainers.parts import paddle_session

        return paddle_session
    from k8sbench.trainers.parts import torch_session

    return torch_session


def narrow(trainer: str) -> tuple[str, ...]:
    """The options of a narrow network."""
    return ("--width-divisor", str(DIVISORS[FRAMEWORKS[trainer]]))


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
    if FRAMEWORKS[trainer] == "paddle":
        import_paddle()
    module = importlib.import_module(f"k8sbench.trainers.{trainer}")
    with mock.patch.dict(os.environ):  # a trainer sets variables, for a process of its own
        module.main(["--device", "cpu", "--threads", "1", *options])
    return capfd.readouterr().out


def run(capfd: Captured, trainer: str, *options: str) -> list[Event]:
    """Run one rank here, on one thread, and give its events."""
    return events(output(capfd, trainer, *options))


def free_port() -> int:
    """Return an unused port, reserved as long as these tests run."""
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


def processes(
    _: str | None,
    arguments: Sequence[str],
    environments: Sequence[Mapping[str, str]],
    timeout: float,
) -> list[Ended]:
    """Run `python ARGUMENTS` in each environment, at once."""
    with contextlib.ExitStack() as stack:
        started = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, *arguments],
                    env=dict(each),
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
            for each in environments
        ]
        try:
            outputs = [process.communicate(timeout=timeout) for process in started]
        finally:
            for process in started:
                process.kill()
    pairs = zip(started, outputs, strict=True)
    return [Ended(process.returncode, *texts) for process, texts in pairs]


start = processes
"""Starts the programs of a framework; `tests/trainers` alone forks them."""


def together(
    arguments: Sequence[str],
    environments: Iterable[dict[str, str]],
    *,
    framework: str | None = None,
    timeout: float = 400.0,
    code: int = 0,
) -> list[str]:
    """Run `python ARGUMENTS` in each environment; return the outputs.

    Each process must end with that exit code. It may have imported the `framework` before.
    """
    how = processes if framework is None else start
    ended = how(framework, arguments, [environment(**more) for more in environments], timeout)
    for each in ended:
        assert each.code == code, each.err
    return [each.out for each in ended]


def rank_variables(framework: str, world_size: int) -> list[dict[str, str]]:
    """Return the environment of each rank that a launcher would set."""
    ports = [free_port() for _ in range(world_size + 1)]
    endpoints = [f"127.0.0.1:{port}" for port in ports[1:]]
    ranks = [*map(str, range(world_size))]
    if framework == "pytorch":
        shared = {"WORLD_SIZE": str(world_size), "LOCAL_WORLD_SIZE": str(world_size)}
        shared |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(ports[0])}
        return [{**shared, "RANK": rank, "LOCAL_RANK": rank} for rank in ranks]
    shared = {
        "PADDLE_TRAINERS_NUM": str(world_size),
        "PADDLE_LOCAL_SIZE": str(world_size),
        "PADDLE_TRAINER_ENDPOINTS": ",".join(endpoints),
        "PADDLE_MASTER": f"127.0.0.1:{ports[0]}",
        "PADDLE_DISTRI_BACKEND": "gloo",
    }
    return [
        {
            **shared,
            "PADDLE_TRAINER_ID": rank,
            "PADDLE_RANK_IN_NODE": rank,
            "PADDLE_CURRENT_ENDPOINT": endpoint,
        }
        for rank, endpoint in zip(ranks, endpoints, strict=True)
    ]


def marked(name: str, value: str) -> Iterator[tuple[int, dict[str, str]]]:
    """The processes that have this variable, with their environments."""
    for path in pathlib.Path("/proc").glob("[1-9]*/environ"):
        with contextlib.suppress(OSError):
            entries = path.read_text(errors="replace").split("\0")
            found = dict(entry.split("=", 1) for entry in entries if "=" in entry)
            if found.get(name) == value:
                yield int(path.parent.name), found


def refuse(message: str, **_: bool) -> NoReturn:
    """Raise, in the place of the trainers' own refusal, which ends the process."""
    raise SystemExit(message)


def refusal(framework: str, arguments: Sequence[str], *, begun: bool = False) -> str:
    """Run a failing `python ARGUMENTS`; return its one line of error."""
    (ended,) = start(framework, arguments, [environment()], 400.0)
    assert (ended.code, ended.out != "") == (2, begun)
    (line,) = ended.err.splitlines()
    return line


def ranks(
    arguments: Sequence[str], world_size: int, framework: str = "pytorch", *, timeout: float = 400.0
) -> list[str]:
    """Start `python ARGUMENTS` once per rank, without a launcher, and give each one's stdout."""
    variables = rank_variables(framework, world_size)
    return together(arguments, variables, framework=framework, timeout=timeout)


def alone(arguments: Sequence[str], *, framework: str | None = None, timeout: float = 400.0) -> str:
    """Run `python ARGUMENTS` as a job of its own and give its stdout."""
    return together(arguments, [{}], framework=framework, timeout=timeout)[0]


def program(jobs: Sequence[Job], *, before: str = "", full_size: bool = False) -> list[str]:
    """The arguments of Python that run trainers as :func:`in_turn` does."""
    each = [
        (name, str(free_port()), *options, *(() if full_size else narrow(name)))
        for name, *options in jobs
    ]
    lines = "\n".join(map(" ".join, each))
    return ["-c", before + children.calling(turns.train, lines)]


def in_turn(
    jobs: Sequence[Job],
    world_size: int,
    *,
    before: str = "",
    full_size: bool = False,
    timeout: float = 400.0,
) -> list[list[list[Event]]]:
    """Run trainers of a framework in sequence, one process per rank.

    Returns each job's events by rank. Trainers are narrow unless `full_size`. `before` is a program
    that runs first, on every rank.
    """
    framework = FRAMEWORKS[jobs[0][0]]
    arguments = program(jobs, before=before, full_size=full_size)
    if framework == "paddle" and world_size == 1:
        printed = together(arguments, [{}], framework=framework, timeout=timeout)
    else:
        printed = ranks(arguments, world_size, framework, timeout=timeout)
    return [list(each) for each in zip(*map(separate, map(events, printed)), strict=True)]


def separate(found: Sequence[Event]) -> list[list[Event]]:
    """Events of several runs, each of which begins with its start line."""
    first = [index for index, event in enumerate(found) if event["event"] == "start"]
    return [list(found[a:b]) for a, b in itertools.pairwise([*first, len(found)])]
