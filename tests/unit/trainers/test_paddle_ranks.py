"""Several ranks: they compute what one computes, whoever starts them, and are numbered rightly."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

import pytest

from tests.unit.trainers.paddle_runs import NARROW, narrow, ranks, run
from tests.unit.trainers.torch_runs import environment, events, free_port, losses, only

__all__ = ["narrow"]  # a fixture
pytestmark = [pytest.mark.tier("frameworks"), pytest.mark.filterwarnings("ignore::UserWarning")]

FIVE = ("--warmup", "0", "--iterations", "5", "--log-interval", "1", "--frozen-norm")
# Rates at which five steps change the loss but keep it finite: with batch norm frozen at its start
# a network is a steep place. 7 classes: two ranks hold 4 and 3 of them.
CASES = {
    "deeplabv3p_paddle": ("--crop", "32x32", "--classes", "5", "--lr", "0.01"),
    "arcface": ("--size", "16", "--classes", "7", "--lr", "0.001"),
}
# FP32 sums in another order; measured: 2e-7 at most. Ranks that do not exchange gradients are off
# by 8e-3, a backbone whose gradients are averaged where they must be summed by 0.15.
TOLERANCE = 1e-5

PROGRAM = f"""
import importlib, sys
put = setattr
{NARROW}
for name, *options in (line.split() for line in sys.argv[1].splitlines()):
    importlib.import_module("k8sbench.trainers." + name).main(options)
"""


def test_two_ranks_compute_what_one_computes_with_twice_the_batch(
    narrow: None, capfd: pytest.CaptureFixture[str]
) -> None:
    shared = ("--device", "cpu", "--threads", "1", "--batch-size", "2", *FIVE)
    script = "\n".join(" ".join((name, *shared, *case)) for name, case in CASES.items())
    first, second = ranks(["-c", PROGRAM, script], 2)

    starts = only(events(first), "start")
    assert [(start["world_size"], start["global_batch"]) for start in starts] == [(2, 4)] * 2
    assert [start["rank"] for start in only(events(second), "start")] == [1, 1]
    assert only(events(first), "environment")[0]["backend"] == "gloo"
    assert starts[1]["options"]["head"] == "own"
    assert not only(events(second), "step")
    assert not only(events(second), "summary")
    assert len(only(events(second), "rank")) == 2
    assert first.startswith("K8SBENCH ")
    assert second.startswith("K8SBENCH ")

    together = losses(events(first))
    for number, (name, case) in enumerate(CASES.items()):
        alone = losses(run(capfd, name, "--batch-size", "4", *FIVE, *case))
        assert len(alone) == 5
        assert abs(alone[4] - alone[0]) > 0.02 * alone[0], "five steps that change nothing"
        assert together[5 * number : 5 * number + 5] == pytest.approx(alone, rel=TOLERANCE), name


MEETING = """
import os
import paddle, paddle.distributed as dist
dist.init_parallel_env()
sum = paddle.to_tensor([1.0 + dist.get_rank()])
dist.all_reduce(sum)
print("node", os.environ["NODE"], "rank", dist.get_rank(), "sum", sum.item(), flush=True)
dist.barrier()
"""


def test_a_sharded_layer_is_not_trained_with_a_scaler_on_several_ranks(
    narrow: None, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each rank would judge the overflow of its own shard, and step or not on its own."""
    from k8sbench.trainers.parts import paddle_loop, paddle_session

    def refuse(message: str) -> None:
        raise SystemExit(message)

    monkeypatch.setattr(paddle_loop, "refuse", refuse)
    monkeypatch.setattr(paddle_session, "_amp_has_effect", lambda _: True)  # as on a GPU
    monkeypatch.setenv("PADDLE_TRAINERS_NUM", "2")
    with pytest.raises(SystemExit, match="fp16 with a sharded layer runs on one rank only"):
        run(capfd, "arcface", *CASES["arcface"], "--amp-dtype", "fp16")
    assert capfd.readouterr().out == ""


def test_nodes_meet_by_the_operators_variables_and_node_n_is_rank_n(
    tmp_path: pathlib.Path,
) -> None:
    from k8sbench.trainers import paddle_launch

    program = tmp_path / "meeting.py"
    program.write_text(MEETING)
    port = free_port()
    started = [
        subprocess.Popen(
            [sys.executable, paddle_launch.__file__, str(program)],
            env=environment(
                PADDLE_JOB_ID="job",
                PADDLE_NNODES="2",
                PADDLE_NPROC_PER_NODE="1",
                # As the operator has it: node 0 knows its own address, the others a name.
                PADDLE_MASTER=f"127.0.0.1:{port}" if node == 0 else f"localhost:{port}",
                POD_IP="127.0.0.1",
                PADDLE_RANK=str(node),
                NODE=str(node),
            ),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for node in (1, 0)
    ]
    try:
        outputs = [process.communicate(timeout=100) for process in started]
    finally:
        for process in started:
            process.kill()
    assert [process.returncode for process in started] == [0, 0], outputs
    for (out, _), node in zip(outputs, (1, 0), strict=True):
        assert re.findall(r"^node.*", out, re.MULTILINE) == [f"node {node} rank {node} sum 3.0"]
