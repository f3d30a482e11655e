"""Runs a Paddle trainer inside the test's process, or ranks of one beside it."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Sequence

import pytest

from tests.trainers import torch_runs
from tests.trainers.torch_runs import Captured, Event, Job, events, free_port, separate, together

# The same networks with narrow layers: what a test of the loop needs, in a tenth of the time.
NARROW = """
def narrowed(model):
    return lambda *given, **options: model(*given, **{**options, "width_divisor": 8})
from k8sbench.trainers.models import deeplabv3p_paddle, deeplabv3plus_paddle, ir50_paddle
for module, name in (
    (deeplabv3p_paddle, "DeepLabV3P"),
    (deeplabv3plus_paddle, "DeepLabV3Plus"),
    (ir50_paddle, "IR50"),
):
    put(module, name, narrowed(getattr(module, name)))
"""

# Trainers one after the other in one process: a line for each, NAME OPTIONS.
IN_TURN = f"""
import importlib, sys
put = setattr
{NARROW}
for name, *options in (line.split() for line in sys.argv[1].splitlines()):
    importlib.import_module("k8sbench.trainers." + name).main(options)
"""


def import_paddle() -> None:
    """Import paddle, whose import warns of much that is not ours to mend."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module("paddle")


@pytest.fixture(autouse=True, scope="module")
def on_cpu() -> None:
    """Have Paddle imported, with a CPU for its device, for all tests of a module."""
    import_paddle()
    import paddle

    paddle.set_device("cpu")


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the trainers that run inside this process build narrow networks."""
    import_paddle()
    exec(NARROW, {"put": monkeypatch.setattr})


def output(capfd: Captured, trainer: str, *options: str) -> str:
    """Run one rank here, on one thread, and give what it printed."""
    import_paddle()
    return torch_runs.output(capfd, trainer, *options)


def run(capfd: Captured, trainer: str, *options: str) -> list[Event]:
    """Run one rank here, on one thread, and give its events."""
    return events(output(capfd, trainer, *options))


def rank_variables(world_size: int) -> list[dict[str, str]]:
    """What a launcher tells each rank of a new job on one machine."""
    ports = [free_port() for _ in range(world_size + 1)]
    endpoints = [f"127.0.0.1:{port}" for port in ports[1:]]
    return [
        {
            "PADDLE_TRAINER_ID": str(rank),
            "PADDLE_RANK_IN_NODE": str(rank),
            "PADDLE_TRAINERS_NUM": str(world_size),
            "PADDLE_LOCAL_SIZE": str(world_size),
            "PADDLE_CURRENT_ENDPOINT": endpoints[rank],
            "PADDLE_TRAINER_ENDPOINTS": ",".join(endpoints),
            "PADDLE_MASTER": f"127.0.0.1:{ports[0]}",
            "PADDLE_DISTRI_BACKEND": "gloo",
        }
        for rank in range(world_size)
    ]


def ranks(arguments: Sequence[str], world_size: int, *, timeout: float = 100.0) -> list[str]:
    """Start `python ARGUMENTS` once per rank, without the launcher, and give each one's stdout."""
    return together(arguments, rank_variables(world_size), timeout=timeout)


def in_turn(
    jobs: Sequence[Job], world_size: int, *, before: str = "", timeout: float = 100.0
) -> list[list[list[Event]]]:
    """Run narrow trainers one after the other, all in one process per rank: of each job each
    rank's events.
    """
    script = "\n".join(" ".join(job) for job in jobs)
    arguments = ["-c", before + IN_TURN, script]
    printed = (
        together(arguments, [{}], timeout=timeout)
        if world_size == 1
        else ranks(arguments, world_size, timeout=timeout)
    )
    return [list(each) for each in zip(*map(separate, map(events, printed)), strict=True)]
