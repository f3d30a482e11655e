"""Resumed trainers reach bitwise the results of uninterrupted ones (on a CPU).

Generated pictures and networks of a sixteenth of the width. Kills while a checkpoint is written:
`test_checkpoints`.
"""

import errno
import functools
import pathlib
import shutil
from collections.abc import Callable
from typing import Any

import pytest

from k8sbench.trainers.data import sample_sets
from k8sbench.trainers.parts import checkpoints, samples
from tests.trainers import published, runs
from tests.trainers.runs import Captured, Event, events, losses, only, refusal, run

pytestmark = pytest.mark.tier("frameworks")

LENGTH = 10
COMMON = (
    *("--mode", "train", "--length", str(LENGTH), "--evaluate-every", "5"),
    *("--warmup", "1", "--log-interval", "1", "--batch-size", "2", "--seed", "3"),
    *("--device", "cpu", "--threads", "1", "--width-divisor", "16"),
)
# The set of each trainer, and what makes it tiny.
TRAINERS = {
    "deeplabv3p_pytorch": ("cityscapes", ("--crop", "32x32")),
    "deeplabv3p_paddle": ("cityscapes", ("--crop", "32x32")),
    "resnet50": ("imagenet", ("--input-size", "32", "--classes", "8", "--accumulate", "2")),
    "tsm": ("kinetics", ("--input-size", "32", "--classes", "4", "--segments", "2")),
    "arcface": ("faces", ("--size", "16", "--classes", "8")),
}
SETS: dict[str, Callable[[pathlib.Path], None]] = {
    "cityscapes": functools.partial(sample_sets.cityscapes, pictures=8, size=(32, 64)),
    "imagenet": functools.partial(sample_sets.imagenet, pictures=24, size=(40, 40)),
    "kinetics": functools.partial(sample_sets.kinetics, pictures=8, size=(40, 40)),
    "faces": functools.partial(sample_sets.faces, pictures=16, size=(16, 16)),
}
FAST = ("--fused-optimizer", "--channels-last")
# What else each run has beside its own: start weights, a gradient scaler, loader processes, options
# of speed, ranks; and the step of the checkpoint that it goes on from.
CASES: dict[str, tuple[tuple[str, ...], int, int]] = {
    "deeplabv3p_pytorch": (("--workers", "1"), 1, 5),
    "deeplabv3p_paddle": (("--workers", "1", "--fused-optimizer"), 1, 5),
    "resnet50": (("--workers", "0", *FAST), 1, 6),  # after a whole step of two batches
    "tsm": (("--workers", "0", "--amp-dtype", "fp16"), 1, LENGTH),
    "arcface": (("--workers", "0"), 2, 5),
}


def words(trainer: str, sets: pathlib.Path, *more: str) -> list[str]:
    """Return arguments that train on the trainer's set; draw it if missing."""
    name, tiny = TRAINERS[trainer]
    if not (sets / name).exists():
        SETS[name](sets / name)
    return ["-m", f"k8sbench.trainers.{trainer}", *COMMON, *tiny, "--data", str(sets / name), *more]


def goes_on(whole: list[Event], resumed: list[Event]) -> int:
    """Check bitwise equality of a resumed run; return the step before it."""
    (event,) = only(resumed, "resume")
    done = int(event["step"])
    assert losses(resumed) == losses(whole)[done:]

    def evaluated(found: list[Event]) -> list[object]:
        each = only(found, "evaluation")
        return [[event["step"], event["figures"]] for event in each if event["step"] > done]

    assert evaluated(resumed) == evaluated(whole)
    for name in ("best", "evaluations", "steps", "ended_by"):
        assert resumed[-1][name] == whole[-1][name], name
    return done


@pytest.mark.parametrize(
    "trainer",
    # The others share the loops of these.
    [
        *("deeplabv3p_pytorch", "deeplabv3p_paddle", "arcface"),
        *(pytest.param(trainer, marks=pytest.mark.soak) for trainer in ("resnet50", "tsm")),
    ],
)
def test_a_run_resumes_bitwise(trainer: str, tmp_path: pathlib.Path, capfd: Captured) -> None:
    more, world, left = CASES[trainer]
    framework = runs.FRAMEWORKS[trainer]

    def train(arguments: list[str]) -> list[Event]:
        # Paddle reads only as it is imported on how many threads it computes.
        if trainer in {"arcface", "deeplabv3p_paddle"}:
            of_ranks = [{}] if world == 1 else runs.rank_variables(framework, world)
            return events(runs.together(arguments, of_ranks, framework=framework)[0])
        return run(capfd, trainer, *arguments[2:])

    if trainer == "tsm":
        found = published.tensors("torchvision", divisor=16)
        more += ("--weights", str(published.write(tmp_path / "start.pth", found)))
    arguments = words(trainer, tmp_path, *more)
    whole = train(arguments)
    assert len(set(losses(whole))) == LENGTH

    saving = [*arguments, "--checkpoints", str(tmp_path / "run")]
    assert losses(train(saving)) == losses(whole)
    if left < LENGTH:
        shutil.rmtree(tmp_path / "run" / f"step-{LENGTH:010d}")
    after = train(saving)
    assert goes_on(whole, after) == left
    assert (after[-1]["final_loss"] is None) == (left == LENGTH)
    # It goes on with what it was, or not at all.
    if trainer == "resnet50":
        other = [*saving, "--batch-size", "4", "--lr", "0.5", "--input-size", "33"]
        assert refusal(framework, other, begun=True) == (
            f"k8sbench: error: {tmp_path}/run/step-0000000010 was written with batch_size 2 (now "
            "4), input_size 32 (now 33), lr of the first step 0.0005 (now 0.0625); start as "
            "before, or name an empty folder by --checkpoints"
        )
    if trainer == "deeplabv3p_pytorch":
        assert refusal(framework, [*saving, "--length", "9"], begun=True) == (
            f"k8sbench: error: {tmp_path}/run/step-0000000010 is of step 10: a run of 9 ends before"
        )
        longer = train([*saving, "--length", "12"])
        (resumed,) = only(longer, "resume")
        assert (resumed["step"], longer[-1]["steps"]) == (10, 12)


def test_a_run_does_not_go_on_with_other_start_weights(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capfd: Captured
) -> None:
    saving = ("--workers", "0", "--checkpoints", str(tmp_path / "run"), "--length", "2")
    options = words("resnet50", tmp_path, *saving)[2:]
    tensors = published.tensors("torchvision", divisor=16)
    one = published.write(tmp_path / "one.pth", tensors)
    other = published.write(tmp_path / "other.pth", {**tensors, "fc.bias": tensors["fc.bias"] + 1})
    run(capfd, "resnet50", *options, "--weights", str(one))
    monkeypatch.setattr(checkpoints, "refuse", runs.refuse)
    for more, now in ((("--weights", str(other)), repr(samples.digest(other))), ((), "None")):
        told = (
            f"written with start weights '{samples.digest(one)}' \\(now {now}\\); start as before"
        )
        with pytest.raises(SystemExit, match=told):
            run(capfd, "resnet50", *options, *more)
    same = published.write(tmp_path / "same.pth", tensors)
    assert only(run(capfd, "resnet50", *options, "--weights", str(same)), "resume")


def test_on_a_full_disk_a_run_goes_on_and_says_so(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capfd: Captured
) -> None:
    saving = ("--workers", "0", "--checkpoints", str(tmp_path / "run"))
    options = words("resnet50", tmp_path, *saving)[2:]

    to_open = pathlib.Path.open

    def full(path: pathlib.Path, *how: Any, **more: Any) -> Any:
        if path.suffix == ".npz":
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        return to_open(path, *how, **more)

    monkeypatch.setattr(pathlib.Path, "open", full)
    found = run(capfd, "resnet50", *options)
    assert [(event["step"], event["failed"]) for event in only(found, "checkpoint")] == [
        (step, f"{tmp_path}/run/.step-{step:010d}.part/rank-0/common.npz: No space left on device")
        for step in (5, 10)
    ]
    assert len(losses(found)) == found[-1]["steps"] == LENGTH
    assert list((tmp_path / "run").iterdir()) == []
