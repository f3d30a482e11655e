"""The real launchers of both frameworks, in the environment that the operator would have made."""

from __future__ import annotations

from pathlib import Path

import pytest

from k8sbench import trainers
from k8sbench.model.phase import Phase
from tests.local.jobs import Machine, processes_of

pytestmark = pytest.mark.tier("frameworks")

LAUNCHERS = {
    "paddle_launch.py": (Path(trainers.__path__[0]) / "paddle_launch.py").read_text(),
}
TORCH = """
import os, sys
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
tell = sys.excepthook

def leave(*error):
    # Not by way of the interpreter's end, in which torch may abort where a peer is gone.
    tell(*error)
    os._exit(1)

sys.excepthook = leave
one = torch.ones(1)
dist.all_reduce(one)
os.write(1, f"rank {dist.get_rank()} of {dist.get_world_size()} sees {one.item():g}\\n".encode())
if "--fail" in sys.argv and dist.get_rank() == 1:
    raise ValueError("boom")
if "--fail" in sys.argv:
    dist.all_reduce(one)
os._exit(0)
"""
PADDLE = """
import os
import paddle
import paddle.distributed as dist
dist.init_parallel_env()
one = paddle.ones([1])
dist.all_reduce(one)
os.write(1, f"rank {dist.get_rank()} of {dist.get_world_size()} sees {one.item():g}\\n".encode())
os._exit(0)
"""


def test_paddles_launcher_brings_two_replicas_together(machine: Machine) -> None:
    running = machine.start(PADDLE, framework="paddle", launcher=True, files=LAUNCHERS)
    seen = running.to_the_end()
    assert seen.final.phase is Phase.SUCCEEDED, seen.events
    assert "rank 0 of 2 sees 2" in seen.lines("worker-0")
    assert "rank 1 of 2 sees 2" in seen.lines("worker-1")
    assert not processes_of(running.run_id)


def test_the_rank_that_broke_is_named_though_torchrun_hides_it(machine: Machine) -> None:
    running = machine.start(TORCH, "--fail", launcher=True)
    seen = running.to_the_end()
    assert seen.final.phase is Phase.FAILED
    assert "rank 0 of 2 sees 2" in seen.lines("master-0")
    assert seen.final.cause.startswith("worker-0 ")
    assert seen.final.cause.endswith("ValueError: boom")
    assert not processes_of(running.run_id)


@pytest.mark.parametrize("framework", ["pytorch", "paddle"])
def test_launchers_and_their_ranks_end_when_the_job_is_cancelled(
    machine: Machine, framework: str
) -> None:
    waits = "import signal; print('waits', flush=True); signal.pause()"
    running = machine.start(waits, framework=framework, launcher=True, files=LAUNCHERS)
    running.until_line("waits")
    machine.cluster.cancel(running.run_id, "enough", "enough")
    assert running.to_the_end().final.phase is Phase.CANCELLED
    assert not processes_of(running.run_id)
