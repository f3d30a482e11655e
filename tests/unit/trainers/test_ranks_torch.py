"""Several ranks: they compute what one computes, agree on their end, and die together."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests.unit.trainers.torch_runs import (
    NARROW,
    environment,
    events,
    free_port,
    losses,
    narrow,
    only,
    rank_variables,
    ranks,
    run,
)

__all__ = ["narrow"]  # a fixture
pytestmark = pytest.mark.tier("frameworks")

# Sizes, and rates at which five steps change the loss but keep it finite: a network whose batch
# norm is frozen at its start is a steep place.
CASES = {
    "deeplabv3p_pytorch": ("--crop", "32x32", "--classes", "5", "--lr", "0.5"),
    "resnet50": ("--input-size", "32", "--classes", "10", "--lr", "1e-5"),
    "tsm": (
        *("--input-size", "32", "--classes", "10", "--segments", "4", "--lr", "1e-5"),
        "--mean-values",
    ),
}
FIVE = ("--warmup", "0", "--iterations", "5", "--log-interval", "1", "--frozen-norm")
# FP32 sums in another order; measured: 1.5e-6 at most. A gradient that is summed instead of
# averaged over the ranks is off by more than 1e-3.
TOLERANCE = 1e-5

PROGRAM = f"""
import importlib, os, sys
put = setattr
{NARROW}
for name, port, *options in (line.split() for line in sys.argv[1].splitlines()):
    os.environ["MASTER_PORT"] = port  # each run meets anew
    importlib.import_module("k8sbench.trainers." + name).main(options)
"""


def test_two_ranks_compute_what_one_computes_with_twice_the_batch(
    narrow: None,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Losses over five steps, per trainer; then a run whose end the ranks have to agree on."""
    shared = ("--device", "cpu", "--threads", "1", "--batch-size", "2")
    jobs = [(name, *shared, *FIVE, *case) for name, case in CASES.items()]
    steady = ("--warmup", "0", "--iterations", "1", "--min-steady-seconds", "1")
    jobs.append(("resnet50", *shared, *steady, *CASES["resnet50"]))
    script = "\n".join(" ".join((name, str(free_port()), *options)) for name, *options in jobs)
    first, second = ranks(["-c", PROGRAM, script], 2)

    starts = only(events(first), "start")
    assert [start["world_size"] for start in starts] == [2] * 4
    assert [start["global_batch"] for start in starts] == [4] * 4
    assert {start["rank"] for start in only(events(second), "start")} == {1}
    assert only(events(first), "environment")[0]["backend"] == "gloo"
    assert not only(events(second), "step")
    assert not only(events(second), "summary")
    assert len(only(events(second), "rank")) == 4
    assert first.startswith("K8SBENCH ")
    assert second.startswith("K8SBENCH ")

    together = losses(events(first))
    for number, (name, case) in enumerate(CASES.items()):
        alone = losses(run(capfd, name, "--batch-size", "4", *FIVE, *case))
        assert len(alone) == 5
        assert abs(alone[4] - alone[0]) > 0.01 * alone[0], "five steps that change nothing"
        assert together[5 * number : 5 * number + 5] == pytest.approx(alone, rel=TOLERANCE), name
    seconds = [step["seconds"] for step in only(events(first), "step")[15:]]
    summary = only(events(first), "summary")[-1]
    assert summary["steps"] == len(seconds)
    assert summary["window"]["last_step"] == 1
    assert sum(seconds) >= 1.0


def test_two_nodes_start_by_the_training_operators_variables() -> None:
    port = str(free_port())
    options = (
        *("--device", "cpu", "--threads", "1", "--batch-size", "2", "--warmup", "1"),
        *("--iterations", "2", "--input-size", "32", "--classes", "10", "--run-id", "r7"),
    )
    started = [
        subprocess.Popen(
            [
                *(sys.executable, "-m", "torch.distributed.run"),
                *("-m", "k8sbench.trainers.resnet50", *options),
            ],
            env=environment(
                PET_NNODES="2",
                PET_NODE_RANK=str(node),
                PET_MASTER_ADDR="127.0.0.1",
                PET_MASTER_PORT=port,
                PET_NPROC_PER_NODE="1",
                MASTER_ADDR="127.0.0.1",
                MASTER_PORT=port,
                RANK=str(node),
                WORLD_SIZE="2",
            ),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for node in (0, 1)
    ]
    try:
        outputs = [process.communicate(timeout=100) for process in started]
    finally:
        for process in started:
            process.kill()
    assert [process.returncode for process in started] == [0, 0], outputs
    told = [events(out) for out, _ in outputs]
    starts = [only(found, "start")[0] for found in told]
    assert [(start["rank"], start["local_rank"]) for start in starts] == [(0, 0), (1, 0)]
    assert {start["run_id"] for start in starts} == {"r7"}
    assert len(only(told[0], "step")) == 3
    assert not only(told[1], "step")


def test_a_rank_whose_peer_is_killed_ends_at_once_with_its_traceback() -> None:
    port = free_port()
    endless = ("--warmup", "0", "--iterations", "100000", "--input-size", "32", "--classes", "10")
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "k8sbench.trainers.resnet50", "--batch-size", "2", *endless],
            env=environment(**rank_variables(rank, 2, port)),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in (0, 1)
    ]
    first, second = started
    assert first.stdout is not None
    try:
        for line in first.stdout:
            if '"event": "step"' in line:
                break
        second.send_signal(signal.SIGKILL)
        _, errors = first.communicate(timeout=30)
        second.communicate(timeout=30)
    finally:
        for process in started:
            process.kill()
    assert first.returncode == 1
    assert "Traceback" in errors
