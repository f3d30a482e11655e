"""Each trainer, killed by SIGKILL in the middle of its training and started again with the same
options, trains to the same bits as one that nobody disturbed (on a CPU: no tolerance).

Generated pictures and networks of a sixteenth of the width. `soak_resume.py` kills at more moments
and with several ranks of each framework; `make soak` runs it.
"""

from __future__ import annotations

import pathlib
import re

import pytest

from tests.trainers.resumed import LENGTH, TRAINERS, goes_on, killed, start_weights, trained, words
from tests.trainers.torch_runs import Event, losses, only, together

pytestmark = pytest.mark.tier("frameworks")


def step(number: int) -> object:
    def at(event: Event) -> bool:
        return event["event"] == "step" and event["step"] == number

    return at


# What else each run has beside its own: start weights, a gradient scaler, loader processes, ranks.
CASES: dict[str, tuple[tuple[str, ...], int]] = {
    "deeplabv3p_pytorch": (("--workers", "1"), 1),
    "deeplabv3p_paddle": (("--workers", "1"), 1),
    "resnet50": (("--workers", "0"), 1),
    "tsm": (("--workers", "0", "--amp-dtype", "fp16"), 1),
    "arcface": (("--workers", "0"), 2),
}


@pytest.mark.parametrize("trainer", TRAINERS)
def test_a_killed_run_goes_on_to_the_same_bits(
    trainer: str, tmp_path: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    more, world = CASES[trainer]
    if trainer == "tsm":
        more += ("--weights", str(start_weights(tmp_path)))
    arguments = words(trainer, tmp_path, *more)
    whole = trained(trainer, arguments, world)
    assert len(set(losses(whole))) == LENGTH

    saving = [*arguments, "--checkpoints", str(tmp_path / "run"), "--checkpoint-every", "2"]
    before = killed(trainer, saving, step(7), world)  # type: ignore[arg-type]
    after = trained(trainer, saving, world)
    assert 6 <= goes_on(whole, before, after) < LENGTH
    assert only(after, "weights") == [] or trainer == "tsm"

    # Once it is at its end it has nothing left to do, and says the same.
    if trainer == "tsm":
        again = trained(trainer, saving, world)
        assert goes_on(whole, before, again) == LENGTH
        assert only(again, "weights")[0]["left"] == ["fc"]


def test_a_run_of_other_settings_does_not_go_on(tmp_path: pathlib.Path) -> None:
    saving = ("--workers", "0", "--checkpoints", str(tmp_path / "run"))
    trained("resnet50", words("resnet50", tmp_path, *saving))
    other = words("resnet50", tmp_path, *saving, "--batch-size", "4", "--lr", "0.5")
    with pytest.raises(AssertionError) as refused:
        together(other, [{}])
    assert re.search(
        r"k8sbench: error: \S+/step-0000000010 was written with batch_size 2 \(now 4\), .*lr None "
        r"\(now 0\.5\).*; start as before, or name an empty folder by --checkpoints",
        str(refused.value),
    )
