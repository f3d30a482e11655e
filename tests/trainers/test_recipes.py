"""Learning rate, momentum, decay, clipping and loss scale of every recipe are upstream's.

The figures stand in the files that the trainers name beside theirs; here they are written down once
more, by hand, with the shape of a job at which the reports ran them.
"""

import importlib
import sys
from typing import Any

import pytest

from k8sbench.trainers import gpt, tsm
from k8sbench.trainers.parts import loop
from k8sbench.trainers.parts.steps import Course
from tests.trainers import runs
from tests.trainers.checks import STEEP, run

pytestmark = [pytest.mark.tier("frameworks"), pytest.mark.filterwarnings("ignore::UserWarning")]

BATCH = {"tsm": 16, "resnet50": 128}
"""Samples per rank of those whose rates change with the epoch."""
PADDLE = {"arcface", "deeplabv3p_paddle"}
# trainer, its options, (nodes, ranks per node) → momentum, weight decay, {finished steps: rate}
RECIPES: dict[str, tuple[str, tuple[str, ...], tuple[int, int], float, float, dict[int, float]]] = {
    # schedule_80k.py: SGD 0.01, 0.9, 5e-4; poly 0.9 to 1e-4, whatever the number of ranks.
    "mmseg": (
        *("deeplabv3p_pytorch", (), (1, 8), 0.9, 5e-4),
        {0: 0.01, 40_000: 0.0099 * 0.5**0.9 + 1e-4, 80_000: 1e-4},
    ),
    # benchmark/deeplabv3p.yml: poly 0.9 to 0.
    "paddleseg": (
        *("deeplabv3p_paddle", (), (1, 8), 0.9, 4e-5),
        {0: 0.01, 40_000: 0.01 * 0.5**0.9, 80_000: 0.0},
    ),
    "matched": (
        *("deeplabv3p_paddle", ("--recipe", "matched"), (1, 8), 0.9, 5e-4),
        {0: 0.01, 40_000: 0.0099 * 0.5**0.9 + 1e-4, 80_000: 1e-4},
    ),
    # 0.0025 × GPUs of a node; 234,584 clips are 458 steps of 32 × 16.
    "tsm": (
        *("tsm", (), (4, 8), 0.9, 1e-4),
        {0: 0.02, 9159: 0.02, 9160: 0.002, 18_319: 0.002, 18_320: 0.0002},
    ),
    "tsm, all cards": ("tsm", ("--lr-cards", "all"), (4, 8), 0.9, 1e-4, {0: 0.08}),
    # 0.256 for a batch of 256, here 1024; 1,281,167 images are 1251 steps; 8 of 90 epochs warm-up.
    "dle": (
        *("resnet50", (), (1, 8), 0.875, 1 / 32768),
        {0: 1.024 / 8, 7 * 1251: 1.024, 49 * 1251: 1.024 / 2, 90 * 1251: 0.0},
    ),
    # 0.001 × batch; one epoch, which the warm-up of 8 outlasts.
    "report": (
        *("resnet50", ("--recipe", "report"), (1, 8), 0.125, 1 / 32768),
        {0: 1.024 / 8, 1250: 1.024 / 8},
    ),
    # nanoGPT's train.py: 6e-4 after 2,000 steps, a cosine to 600,000, here to 0.
    "gpt2": ("gpt", (), (1, 8), 0.0, 0.0, {0: 3e-7, 1999: 6e-4, 301_000: 3e-4, 600_000: 0.0}),
    # 0.1 for a batch of 1024, here 4096.
    "plsc": (
        *("arcface", (), (4, 8), 0.9, 5e-4),
        {
            0: 0.4,
            99_999: 0.4,
            100_000: 0.04,
            159_999: 0.04,
            160_000: 0.004,
            219_999: 0.004,
            220_000: 0.0004,
        },
    ),
}


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function from a trainer's options to its plan of work."""
    runs.import_paddle()

    def read(trainer: str, options: tuple[str, ...], shape: tuple[int, int]) -> Any:
        nodes, ranks = shape
        place = {
            "RANK": 0,
            "LOCAL_RANK": 0,
            "WORLD_SIZE": nodes * ranks,
            "LOCAL_WORLD_SIZE": ranks,
            "PADDLE_TRAINER_ID": 0,
            "PADDLE_RANK_IN_NODE": 0,
            "PADDLE_TRAINERS_NUM": nodes * ranks,
        }
        for name, value in place.items():
            monkeypatch.setenv(name, str(value))
        session = runs.part("paddle" if trainer in PADDLE else "pytorch")
        made: list[Any] = []
        monkeypatch.setattr(session, "run", lambda given, *_: made.append(given))
        module = importlib.import_module(f"k8sbench.trainers.{trainer}")
        module.main(["--device", "cpu", "--threads", "1", *options])
        return made[0]

    return read


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_upstreams(name: str, work: Any) -> None:
    trainer, options, shape, momentum, decay, rates = RECIPES[name]
    found = work(trainer, options, shape)
    assert (found.momentum, found.weight_decay) == (momentum, decay)
    nodes, ranks = shape
    epoch_steps = found.epoch_samples // (nodes * ranks * BATCH.get(trainer, 1))
    schedule = found.schedule(Course(steps=100, epoch_steps=epoch_steps))
    assert {step: schedule(step) for step in rates} == pytest.approx(rates, rel=1e-9)


@pytest.mark.parametrize(
    ("name", "rates"),
    [
        ("mmseg", {1000: 0.0099 * 0.5**0.9 + 1e-4, 2000: 1e-4}),
        ("paddleseg", {1000: 0.01 * 0.5**0.9, 2000: 0.0}),
        # 20 epochs, of which 8 are warm-up.
        ("dle", {700: 1.024, 800: 1.024, 1400: 0.512, 2000: 0.0}),
    ],
)
def test_a_rate_falls_over_a_training(name: str, rates: dict[int, float], work: Any) -> None:
    trainer, options, shape, *_ = RECIPES[name]
    found = work(trainer, options, shape)
    schedule = found.schedule(Course(steps=2000, epoch_steps=100, trains=True))
    assert {step: schedule(step) for step in rates} == pytest.approx(rates, rel=1e-9)


@pytest.mark.parametrize(
    ("options", "accumulated"),
    [
        (("--mode", "train"), 256),
        (("--mode", "train", "--recipe", "report"), 1),
        (("--mode", "train", "--accumulate", "3"), 3),
        ((), 1),
    ],
)
def test_resnet50_adds_gradients_up_to_2048_samples_where_it_trains_as_upstream(
    options: tuple[str, ...], accumulated: int, work: Any
) -> None:
    """The learning rate fits: 0.256 per 256 samples, after 8 warm-up epochs."""
    data = ("--data", "/data", "--length", "2") if options else ()
    found = work("resnet50", ("--batch-size", "8", *data, *options), (1, 1))
    assert found.accumulate == found.options(None)["accumulate"] == accumulated
    rate = found.schedule(Course(steps=2, epoch_steps=2))
    assert rate(0) == pytest.approx(0.001 * 8 * accumulated / 8)


def test_synchronised_batch_norm_and_clipping_are_upstreams(work: Any) -> None:
    assert (tsm.CLIP_NORM, gpt.CLIP_NORM) == (20.0, 1.0)
    found = {name: work(*RECIPES[name][:3]) for name in RECIPES}
    of_several = ["mmseg", "paddleseg", "matched"]
    assert [name for name, one in found.items() if one.sync_bn] == of_several
    assert [name for name, one in found.items() if one.norm_batch == 2] == of_several


def test_pictures_are_normalised_as_upstream_does_it(work: Any) -> None:
    of_imagenet = ((123.675, 116.28, 103.53), (58.395, 57.12, 57.375))
    others: dict[str, Any] = {
        "paddleseg": ((127.5,) * 3, (127.5,) * 3),
        "plsc": ((127.5,) * 3, (128.0,) * 3),
    }
    others["gpt2"] = None  # no pictures
    found = {name: work(*RECIPES[name][:3]).normalise for name in RECIPES}
    assert found == {**dict.fromkeys(RECIPES, of_imagenet), **others}


def test_loss_scales_are_upstreams(work: Any) -> None:
    """Fixed in mmsegmentation and DLE; PaddleSeg's adapts from 1024."""
    found = {name: work(*RECIPES[name][:3]) for name in RECIPES}
    fixed = {name: one.static_scale for name, one in found.items() if one.static_scale is not None}
    assert fixed == {"mmseg": 512.0, "matched": 512.0, "dle": 128.0}
    assert found["paddleseg"].initial_scale == 1024.0


@pytest.mark.parametrize(
    ("trainer", "recipe", "reads_first"),
    [
        ("deeplabv3p_pytorch", "mmseg", True),
        ("deeplabv3p_paddle", "matched", True),
        ("deeplabv3p_paddle", "paddleseg", False),
        ("tsm", "kinetics", True),
        ("resnet50", "dle", False),
        ("gpt", "gpt2", True),
        ("arcface", "plsc", False),
    ],
)
def test_a_step_reads_its_values_where_upstream_does(
    trainer: str,
    recipe: str,
    reads_first: bool,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Reading brings the device to rest: before the backward pass, or after the step."""
    runs.import_paddle()
    tensor = sys.modules["paddle"].Tensor if trainer in PADDLE else sys.modules["torch"].Tensor
    order: list[str] = []

    def noting(owner: Any, name: str) -> None:
        call = getattr(owner, name)

        def noted(*given: Any, **more: Any) -> Any:
            order.append(name)
            return call(*given, **more)

        monkeypatch.setattr(owner, name, noted)

    noting(loop.Run, "read")
    noting(tensor, "backward")
    length = ("--batch-size", "2", "--warmup", "0", "--iterations", "1", "--recipe", recipe)
    run(capfd, trainer, *STEEP[trainer], "--device", "cpu", "--threads", "1", *length)
    assert order == (["read", "backward"] if reads_first else ["backward", "read"])
