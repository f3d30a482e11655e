"""Learning rates, against the figures that upstream's programs printed."""

import pytest

from k8sbench.trainers.parts import schedules


@pytest.mark.parametrize(
    ("steps", "step", "printed"),
    # mmsegmentation's logs: rate of the step that a line ends with (DeepLabV3P…c1_fp32, c1_fp16).
    [
        (100, 10, "9.194e-03"),
        (100, 20, "8.290e-03"),
        (100, 100, "2.569e-04"),
        (40, 4, "9.329e-03"),
        (40, 8, "8.426e-03"),
        (20, 1, "1.000e-02"),
        (20, 2, "9.553e-03"),
        (80000, 50, "9.995e-03"),
    ],
)
def test_poly_is_mmsegmentations(steps: int, step: int, printed: str) -> None:
    rate = schedules.poly(0.01, steps, power=0.9, minimum=1e-4)
    assert f"{rate(step - 1):.3e}" == printed


@pytest.mark.parametrize(
    ("steps", "step", "printed"),
    [(20, 2, "0.009549"), (20, 20, "0.000675"), (200, 5, "0.009820"), (200, 10, "0.009594")],
)
def test_poly_without_a_minimum_is_paddlesegs(steps: int, step: int, printed: str) -> None:
    rate = schedules.poly(0.01, steps, power=0.9)
    assert f"{rate(step - 1):.6f}" == printed


def test_past_their_end_the_rules_stay_where_they_are() -> None:
    assert schedules.poly(0.01, 10, minimum=1e-4)(50) == pytest.approx(1e-4)
    assert schedules.warmup_cosine(0.1, warmup=2, total=4)(50) == pytest.approx(0.0)
