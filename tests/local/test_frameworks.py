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
if dist.get_rank() == 1:
    raise ValueError("boom")
dist.all_reduce(one)
"""


def test_the_rank_that_broke_is_named_though_torchrun_hides_it(machine: Machine) -> None:
    running = machine.start(TORCH, launcher=True)
    seen = running.to_the_end()
    assert seen.final.phase is Phase.FAILED
    assert "rank 0 of 2 sees 2" in seen.lines("master-0")
    assert seen.final.cause.startswith("worker-0 ")
    assert seen.final.cause.endswith("ValueError: boom")
    assert not processes_of(running.run_id)
