"""`test_resume.py` at other moments, one kill after the other, with one rank and with two."""

from __future__ import annotations

import pathlib
import random

import pytest

from tests.trainers.resumed import LENGTH, TRAINERS, goes_on, killed, trained, words
from tests.trainers.torch_runs import losses

pytestmark = pytest.mark.soak

KILLS = 4


@pytest.mark.parametrize("world", [1, 2])
@pytest.mark.parametrize("trainer", TRAINERS)
@pytest.mark.timeout(1000)
def test_a_run_that_is_killed_again_and_again_ends_with_the_same_bits(
    trainer: str, world: int, tmp_path: pathlib.Path
) -> None:
    arguments = words(trainer, tmp_path, "--workers", "1")
    whole = trained(trainer, arguments, world)
    assert len(set(losses(whole))) == LENGTH
    saving = [*arguments, "--checkpoints", str(tmp_path / "run")]
    draw = random.Random(f"{trainer} {world}")
    for step in range(2, 2 + 2 * KILLS, 2):
        # A file that it opens for a checkpoint, or a line that it must come to.
        moment = draw.choice([f"open {draw.randrange(1, 20)}", f"step {step}"])
        before, came = killed(trainer, saving, moment, world)
        done = goes_on(whole, [], before) if not came else None
        first = next((event["step"] for event in before if event["event"] == "resume"), 0)
        assert losses(before) == losses(whole)[first:][: len(losses(before))], moment
        if done is not None:
            break
    goes_on(whole, [], trained(trainer, saving, world))
