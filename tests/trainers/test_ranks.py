"""Several ranks: they compute what one computes, agree on their end, and die together."""

import functools
import pathlib
import re

import pytest

from tests.harness import children
from tests.trainers import counted_sums
from tests.trainers.checks import (
    FROZEN_TOLERANCE,
    SAMPLE,
    SIZES,
    STEEP,
    computes_the_same,
    frozen,
    on_ranks,
    run,
    sums_up,
)
from tests.trainers.killed_ranks import a_killed_rank_ends_its_job
from tests.trainers.runs import (
    Captured,
    Event,
    Job,
    free_port,
    losses,
    narrow,
    only,
    refuse,
    together,
)
from tests.trainers.torch_checks import meeting

pytestmark = [pytest.mark.tier("frameworks"), pytest.mark.filterwarnings("ignore::UserWarning")]
on_each = pytest.mark.parametrize("framework", ["pytorch", "paddle"])

RESNET50 = ("resnet50", *STEEP["resnet50"])
ADDED_UP = (
    *RESNET50,
    "--frozen-norm",
    "--accumulate",
    "2",
    "--iterations",
    "6",
    "--run-id",
    counted_sums.HOOKED,
)
SHARDED = (
    "gpt",
    *SIZES["gpt"],
    "--lr",
    "4",
    "--frozen-norm",  # prints means over the ranks
    "--shard",
    "--accumulate",
    "4",
    "--iterations",
    "8",
)
AMP = (*frozen("pytorch")[0], "--amp-dtype", "bf16")
# Its one step is far from a second: the ranks go on, until rank 0's clock says enough.
GOES_ON = (*RESNET50, "--iterations", "1", "--min-steady-seconds", "1")
ALONE: list[Job] = [*frozen("pytorch"), ADDED_UP, SHARDED]
APART: list[Job] = [(*AMP, "--overlap"), AMP, GOES_ON]
JOBS: dict[str, tuple[list[Job], list[Job], str]] = {
    "pytorch": (ALONE, APART, children.calling(counted_sums.count_in_torch)),
    "paddle": (frozen("paddle"), [], children.calling(counted_sums.count_in_paddle)),
}


@functools.cache
def ran(framework: str) -> tuple[list[list[Event]], list[list[list[Event]]]]:
    """Return events of these jobs on one rank and on two.

    Two ranks also run the jobs that need two.
    """
    jobs, more, before = JOBS[framework]
    one = [each for (each,) in on_ranks(jobs, 1, "cpu")]
    return one, on_ranks([*jobs, *more], 2, "cpu", before=before, timeout=200.0)


@on_each
def test_two_ranks_compute_what_one_computes_with_twice_the_batch(framework: str) -> None:
    """Five steps of each trainer, and one that sums gradients at once."""
    one, two = ran(framework)
    for (trainer, *_), alone, (first, second) in zip(frozen(framework), one, two, strict=False):
        assert alone[0]["benchmark"] in trainer
        batch = 4 * SAMPLE.get(trainer, 1)
        assert (first[0]["world_size"], first[0]["global_batch"], second[0]["rank"]) == (
            2,
            batch,
            1,
        )
        assert first[0]["options"].get("head", "own") == "own"
        assert first[-1]["norm"] == ("LayerNorm" if trainer == "gpt" else "BatchNorm")
        assert only(first, "environment")[0]["backend"] == "gloo"
        assert [event["event"] for event in second] == ["start", "environment", "rank"]
        computes_the_same(alone, first, FROZEN_TOLERANCE)


def test_paddles_gradients_are_summed_up_at_once_where_that_is_asked_for() -> None:
    _, both = ran("paddle")
    told = [(first[0]["options"]["overlap"], only(first, "sums")[0]["large"]) for first, _ in both]
    assert (told[0], told[-1]) == ((True, 0), (False, 5))


def test_ranks_sum_their_gradients_only_in_the_step_that_changes_the_weights() -> None:
    """Inner accumulation steps sum only the loss, which upstream prints."""
    one, two = ran("pytorch")
    first, _ = two[ALONE.index(ADDED_UP)]
    computes_the_same(one[ALONE.index(ADDED_UP)], first, FROZEN_TOLERANCE, steps=6)
    sums = only(first, "costs")[0]["steps"]
    assert (sums[0::2], min(sums[1::2]) > 1) == ([1, 1, 1], True)


def test_ranks_reduce_shared_gradients_only_in_the_step_that_changes_the_weights() -> None:
    """Those of two layers and of what lies outside them."""
    one, two = ran("pytorch")
    first, _ = two[ALONE.index(SHARDED)]
    computes_the_same(one[ALONE.index(SHARDED)], first, FROZEN_TOLERANCE, steps=8)
    assert only(first, "costs")[0]["reduced"] == [0, 0, 0, 3, 0, 0, 0, 3]


def test_in_amp_mmseg_sums_all_gradients_at_once_unless_asked_to_overlap() -> None:
    """As mmcv 1.2.7; in FP32, data parallelism sums them, as upstream's does."""
    _, two = ran("pytorch")
    found = [first for first, _ in (two[0], *two[len(ALONE) :][:2])]
    told = [only(first, "costs")[0] for first in found]
    assert [(one["whole"], one["wrapped"]) for one in told] == [(0, True), (0, True), (5, False)]
    assert [first[0]["options"]["overlap"] for first in found] == [True, True, False]
    _, overlapped, flat = (losses(first) for first in found)
    assert flat == pytest.approx(overlapped, rel=1e-3)


@pytest.mark.parametrize("world_size", [1, 2])
def test_a_process_group_sums_up_and_agrees(world_size: int) -> None:
    """One rank uses the same path as many."""
    told = meeting("cpu", world_size)
    assert len(told) == world_size
    for each in told:
        assert (each["backend"], each["transport"]) == ("gloo", "socket")
        assert each["world_size"] == world_size
        assert each["sum"] == [1.0 if world_size == 1 else 3.0] * 8
        assert each["agreed"] == 7


@on_each
def test_a_vector_is_summed_up_and_timed(framework: str) -> None:
    assert only(sums_up(framework, "cpu"), "environment")[0]["backend"] == "gloo"


def test_a_killed_rank_ends_the_job_and_is_named() -> None:
    """PyTorch's launcher: tests/local/test_submit.py."""
    a_killed_rank_ends_its_job("paddle", "--device", "cpu", "--threads", "1", *narrow("arcface"))


MEETING = """
import os
import paddle, paddle.distributed as dist
dist.init_parallel_env()
sum = paddle.to_tensor([1.0 + dist.get_rank()])
dist.all_reduce(sum)
print("node", os.environ["NODE"], "rank", dist.get_rank(), "sum", sum.item(), flush=True)
dist.barrier()
"""


def test_sharded_layers_refuse_a_scaler(capfd: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each rank would detect overflow of its own shard only."""
    from k8sbench.trainers.parts import paddle_session

    monkeypatch.setattr(paddle_session, "refuse", refuse)
    monkeypatch.setattr(paddle_session.PaddleSession, "scales", True)  # as on a GPU
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
    # As the operator has it: node 0 knows its own address, the others a name.
    masters = {1: f"localhost:{port}", 0: f"127.0.0.1:{port}"}
    shared = {"PADDLE_JOB_ID": "job", "PADDLE_NNODES": "2", "PADDLE_NPROC_PER_NODE": "1"}
    nodes = [
        {**shared, "PADDLE_MASTER": master, "PADDLE_RANK": str(node), "NODE": str(node)}
        for node, master in masters.items()
    ]
    outputs = together([paddle_launch.__file__, str(program)], nodes)
    for out, node in zip(outputs, masters, strict=True):
        assert re.findall(r"^node.*", out, re.MULTILINE) == [f"node {node} rank {node} sum 3.0"]
