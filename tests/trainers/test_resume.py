"""Each trainer, killed by SIGKILL in the middle of its training and started again with the same
options, trains to the same bits as one that nobody disturbed (on a CPU: no tolerance).

Generated pictures and networks of a sixteenth of the width. `make soak` kills more trainers; all
moments of a save: `test_checkpoints`.
"""

from __future__ import annotations

import errno
import pathlib

import pytest

from tests.trainers import published
from tests.trainers.resumed import LENGTH, goes_on, killed, trained, words
from tests.trainers.runs import Captured, Event, losses, only, refusal, run

pytestmark = pytest.mark.tier("frameworks")


FAST = ("--fused-optimizer", "--channels-last")
# What else each run has beside its own: start weights, a gradient scaler, loader processes, options
# of speed, ranks; when it is killed, and the step of the checkpoint that is left then.
CASES: dict[str, tuple[tuple[str, ...], int, str, int]] = {
    "deeplabv3p_pytorch": (("--workers", "1"), 1, "step 7", 6),
    "deeplabv3p_paddle": (("--workers", "1", "--fused-optimizer"), 1, "evaluation 5", 4),
    "resnet50": (("--workers", "0", *FAST), 1, "rename 3", 4),
    "tsm": (("--workers", "0", "--amp-dtype", "fp16"), 1, f"checkpoint {LENGTH}", LENGTH),
    "arcface": (("--workers", "0"), 2, "step 7", 6),
}


@pytest.mark.parametrize(
    "trainer",
    # The others share the loops of these.
    [
        *("deeplabv3p_pytorch", "deeplabv3p_paddle", "arcface"),
        *(pytest.param(trainer, marks=pytest.mark.soak) for trainer in ("resnet50", "tsm")),
    ],
)
def test_a_killed_run_goes_on_to_the_same_bits(
    trainer: str, tmp_path: pathlib.Path, capfd: Captured
) -> None:
    more, world, moment, left = CASES[trainer]

    def train(arguments: list[str]) -> list[Event]:
        # Paddle reads only as it is imported on how many threads it computes.
        if trainer in {"arcface", "deeplabv3p_paddle"}:
            return trained(trainer, arguments, world)
        return run(capfd, trainer, *arguments[2:])

    if trainer == "tsm":
        found = published.tensors("torchvision", divisor=16)
        more += ("--weights", str(published.write(tmp_path / "start.pth", found)))
    arguments = words(trainer, tmp_path, *more)
    whole = train(arguments)
    assert len(set(losses(whole))) == LENGTH

    saving = [*arguments, "--checkpoints", str(tmp_path / "run")]
    before = killed(trainer, saving, moment, world)
    after = train(saving)
    assert goes_on(whole, before, after) == left
    assert (after[-1]["final_loss"] is None) == (left == LENGTH)
    for event in only(after, "weights"):
        assert event["left"] == ["fc"]
    # It goes on with what it was, or not at all.
    if trainer == "resnet50":
        other = [*saving, "--batch-size", "4", "--lr", "0.5", "--input-size", "33"]
        assert refusal(other, begun=True) == (
            f"k8sbench: error: {tmp_path}/run/step-0000000010 was written with batch_size 2 (now "
            "4), input_size 32 (now 33), lr of the first step 0.0005 (now 0.0625); start as "
            "before, or name an empty folder by --checkpoints"
        )
    if trainer == "deeplabv3p_pytorch":
        assert refusal([*saving, "--length", "9"], begun=True) == (
            f"k8sbench: error: {tmp_path}/run/step-0000000010 is of step 10: a run of 9 ends before"
        )
        longer = train([*saving, "--length", "12"])
        (resumed,) = only(longer, "resume")
        assert (resumed["step"], longer[-1]["steps"]) == (10, 12)


def test_on_a_full_disk_a_run_goes_on_and_says_so(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capfd: Captured
) -> None:
    saving = ("--workers", "0", "--checkpoints", str(tmp_path / "run"))
    options = words("resnet50", tmp_path, *saving)[2:]

    def full(path: pathlib.Path, _: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(pathlib.Path, "write_bytes", full)
    found = run(capfd, "resnet50", *options)
    assert [(event["step"], event["failed"]) for event in only(found, "checkpoint")] == [
        (step, f"{tmp_path}/run/.step-{step:010d}.part/rank-0/common.npz: No space left on device")
        for step in (6, 10)  # after whole steps of the optimizer, of two batches each
    ]
    assert len(losses(found)) == found[-1]["steps"] == LENGTH
    assert list((tmp_path / "run").iterdir()) == []
