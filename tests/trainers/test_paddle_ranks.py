"""Several ranks: they compute what one computes, whoever starts them, and are numbered rightly."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

import pytest

from tests.trainers.killed_ranks import a_killed_rank_ends_its_job
from tests.trainers.paddle_checks import FROZEN_TOLERANCE, STEEP, on_one_rank, on_two_ranks
from tests.trainers.paddle_runs import narrow, ranks, run
from tests.trainers.torch_checks import computes_the_same, sums_up
from tests.trainers.torch_runs import environment, free_port, only, refuse

__all__ = ["narrow"]  # a fixture
pytestmark = [pytest.mark.tier("frameworks"), pytest.mark.filterwarnings("ignore::UserWarning")]


def test_two_ranks_compute_what_one_computes_with_twice_the_batch() -> None:
    """Also where all gradients are summed up at once, by the trainer itself."""
    jobs = [(name, *options, "--frozen-norm") for name, options in STEEP.items()]
    jobs.append((*jobs[0], "--no-overlap"))
    both = on_two_ranks(jobs, "cpu", before=COUNTED, timeout=200.0)
    for one, (first, second) in zip(on_one_rank(jobs, "cpu"), both, strict=True):
        assert (first[0]["world_size"], first[0]["global_batch"], second[0]["rank"]) == (2, 4, 1)
        assert only(first, "environment")[0]["backend"] == "gloo"
        assert first[0]["options"].get("head", "own") == "own"
        assert [event["event"] for event in second] == ["start", "environment", "rank"]
        computes_the_same(one, first, FROZEN_TOLERANCE)
    told = [(first[0]["options"]["overlap"], only(first, "sums")[0]["large"]) for first, _ in both]
    assert (told[0], told[-1]) == ((True, 0), (False, 5))


# How often a large vector is summed up by the trainer itself.
COUNTED = """
from paddle import distributed
from k8sbench.trainers.parts import loop

large = 0
summed, finish = distributed.all_reduce, loop.Loop._finish

def all_reduce(values, *given, **named):
    global large
    large += values.size > 1000
    return summed(values, *given, **named)

def told(run):
    global large
    if run.here.place.first:
        run.journal.event("sums", {"large": large})
    large = 0
    return finish(run)

distributed.all_reduce, loop.Loop._finish = all_reduce, told
"""


def test_a_vector_is_summed_up_and_timed() -> None:
    found = sums_up("cpu", "--framework", "paddle", start=ranks)
    assert found[0]["framework"] == "paddle"
    assert only(found, "environment")[0]["backend"] == "gloo"


def test_a_killed_rank_ends_the_job_and_is_named() -> None:
    """That of PyTorch: tests/local/test_submit.py."""
    a_killed_rank_ends_its_job("paddle", "--device", "cpu", "--threads", "1")


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

    monkeypatch.setattr(paddle_loop, "refuse", refuse)
    monkeypatch.setattr(paddle_session, "_amp_has_effect", lambda _: True)  # as on a GPU
    monkeypatch.setenv("PADDLE_TRAINER_ID", "0")
    monkeypatch.setenv("PADDLE_TRAINERS_NUM", "2")
    with pytest.raises(SystemExit, match="fp16 with a sharded layer runs on one rank only"):
        run(capfd, "arcface", *STEEP["arcface"], "--amp-dtype", "fp16")
    assert capfd.readouterr().out == ""


def test_nodes_meet_by_the_operators_variables_and_node_n_is_rank_n(tmp_path: pathlib.Path) -> None:
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
