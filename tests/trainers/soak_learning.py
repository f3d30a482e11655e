"""Learning as in `test_training_on_files.py`: wider networks, larger pictures, for `make soak`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.trainers.test_training_on_files import learns

pytestmark = [pytest.mark.tier("frameworks"), pytest.mark.filterwarnings("ignore::UserWarning")]

LEARNED = {
    "resnet50": (
        (
            *("--input-size", "64", "--classes", "8", "--width-divisor", "4"),
            *("--batch-size", "8", "--accumulate", "2", "--lr", "0.1"),
        ),
        ("imagenet", 160, (64, 80)),
        ("top-1", 85.0),
    ),
    "tsm": (
        (
            *("--input-size", "64", "--classes", "4", "--width-divisor", "4", "--segments", "4"),
            *("--batch-size", "4", "--lr", "0.01"),
        ),
        ("kinetics", 32, (64, 80)),
        ("top-1", 85.0),
    ),
    "arcface": (
        (
            *("--size", "32", "--classes", "8", "--width-divisor", "4"),
            *("--batch-size", "16", "--lr", "0.1"),
        ),
        ("faces", 320, (32, 32)),
        ("accuracy", 95.0),
    ),
}


@pytest.mark.timeout(1000)
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("trainer", LEARNED)
def test_a_wider_network_learns_a_larger_set(
    trainer: str, seed: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    options, drawn, reached = LEARNED[trainer]
    learns(capfd, tmp_path, trainer, (*options, "--seed", str(seed)), drawn, reached)
