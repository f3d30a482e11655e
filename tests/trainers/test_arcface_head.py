"""The sharded classifier: its loss and gradients against numpy in double precision."""

import argparse
import inspect
import types
from typing import Any

import numpy as np
import pytest

from k8sbench.trainers.parts.events import RankPlace
from tests.trainers import arcface_checks
from tests.trainers.arcface_checks import (
    BATCH,
    CLASSES,
    EMBEDDING,
    agrees_with_the_definition,
    run_head,
    samples,
)
from tests.trainers.runs import import_paddle, refuse

pytestmark = [pytest.mark.tier("frameworks"), pytest.mark.filterwarnings("ignore::UserWarning")]


@pytest.fixture(autouse=True, scope="module")
def on_cpu() -> None:
    """Import Paddle on a CPU for all tests of this module."""
    import_paddle()
    import paddle

    paddle.set_device("cpu")


@pytest.mark.parametrize("head", ["own", "dense"])
def test_loss_and_gradients_are_those_of_the_definition(head: str) -> None:
    """`own` has its backward pass by hand, `dense` by autograd."""
    agrees_with_the_definition(head)


def test_the_fused_head_is_asked_for_the_same_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """Paddle's kernel runs on GPUs only; this one follows its documentation."""
    import paddle
    from paddle.nn import functional

    call = inspect.signature(functional.margin_cross_entropy)

    def documented(*given: Any, **named: Any) -> Any:
        asked = call.bind(*given, **named)
        asked.apply_defaults()
        of = types.SimpleNamespace(**asked.arguments)
        assert of.group is None  # all ranks
        assert (of.reduction, of.return_softmax) == ("mean", False)
        label = functional.one_hot(of.label, of.logits.shape[1])
        angles = paddle.acos(of.logits)
        moved = paddle.cos(of.margin1 * angles + of.margin2) - of.margin3
        logits = of.scale * (of.logits + (moved - of.logits) * label)
        return (paddle.logsumexp(logits, axis=1) - (logits * label).sum(axis=1)).mean()

    monkeypatch.setattr(functional, "margin_cross_entropy", documented)
    monkeypatch.setattr(arcface_checks, "MARGIN", 0.6)  # neither is Paddle's own default
    monkeypatch.setattr(arcface_checks, "SCALE", 72.0)
    agrees_with_the_definition("margin")


@pytest.mark.parametrize(
    ("wanted", "on_gpu", "ranks", "head"),
    [
        ("auto", False, 2, "own"),
        ("auto", True, 1, "dense"),
        ("auto", True, 2, "margin"),
        ("own", True, 2, "own"),
        ("margin", True, 1, "margin"),
        ("margin", False, 1, "--head margin needs a GPU"),
        ("dense", True, 2, "--head dense .* runs on one rank only"),
    ],
)
def test_a_run_takes_the_reports_head_where_it_can(
    wanted: str, on_gpu: bool, ranks: int, head: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from k8sbench.trainers import arcface
    from k8sbench.trainers.parts import settings

    monkeypatch.setattr(settings, "refuse", refuse)
    here: Any = types.SimpleNamespace(
        on_gpu=on_gpu, place=RankPlace(rank=0, local_rank=0, world_size=ranks)
    )
    if head.startswith("--"):
        with pytest.raises(SystemExit, match=head):
            arcface.head_name(here, wanted)
    else:
        assert arcface.head_name(here, wanted) == head


def test_ranks_without_a_class_are_refused_by_all_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also by those that have some, which would else wait for the others."""
    from k8sbench.trainers import arcface
    from k8sbench.trainers.parts import settings

    monkeypatch.setattr(settings, "refuse", refuse)
    here: Any = types.SimpleNamespace(place=RankPlace(rank=0, local_rank=0, world_size=4))
    with pytest.raises(SystemExit, match="--classes 5 leaves ranks of 4 without any"):
        arcface.make_head(here, argparse.Namespace(classes=5, head="own"))


def test_a_gradient_that_flows_on_is_scaled() -> None:
    import paddle

    from k8sbench.trainers.models.arcface_paddle import ArcFace

    features, labels = samples()
    _, plain, _, _ = run_head("own", features, labels)
    layer = ArcFace(CLASSES, EMBEDDING, head="own")
    given = paddle.to_tensor(features, stop_gradient=False)
    (layer(given, paddle.to_tensor(labels)) * 3.0).backward()
    np.testing.assert_allclose(given.grad.numpy(), 3.0 * plain, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("head", ["own", "dense"])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_feature_on_its_centre_or_opposite_has_finite_gradients(head: str, sign: float) -> None:
    from k8sbench.trainers.models.arcface_paddle import initial_centres

    labels = np.arange(BATCH)
    features = sign * initial_centres(CLASSES, EMBEDDING, 0, CLASSES, 0).T[:BATCH]
    loss, of_features, of_centres, _ = run_head(head, np.ascontiguousarray(features), labels)
    assert np.isfinite(loss)
    assert np.isfinite(of_features).all()
    assert np.isfinite(of_centres).all()


@pytest.mark.parametrize(("classes", "world"), [(85_742, 32), (85_742, 8), (10, 3), (8, 4), (3, 1)])
def test_shards_cover_every_class_once(classes: int, world: int) -> None:
    from k8sbench.trainers.models.arcface_paddle import shard

    shards = [shard(classes, rank, world) for rank in range(world)]
    assert [first for first, _ in shards] == [sum(n for _, n in shards[:r]) for r in range(world)]
    assert sum(count for _, count in shards) == classes
    assert max(count for _, count in shards) == -(-classes // world)


def test_weights_are_drawn_with_the_variance_of_upstream() -> None:
    """2 ÷ the values that each input goes to: a convolution's and the embedding's."""
    from k8sbench.trainers.models.arcface_paddle import EMBEDDING, IR50

    model = IR50(size=32, width_divisor=2)
    convolution, embedding = model.body[0], model.embed[3]
    assert convolution.weight.shape == [32, 3, 3, 3]
    deviations = [layer.weight.numpy().std() for layer in (convolution, embedding)]
    expected = [(2 / (32 * 9)) ** 0.5, (2 / EMBEDDING) ** 0.5]
    assert deviations == pytest.approx(expected, rel=0.1)


def test_centres_do_not_depend_on_the_sharding() -> None:
    from k8sbench.trainers.models.arcface_paddle import initial_centres, shard

    whole = initial_centres(3000, 8, 0, 3000, seed=3)
    parts = [initial_centres(3000, 8, *shard(3000, rank, 7), seed=3) for rank in range(7)]
    np.testing.assert_array_equal(np.concatenate(parts, axis=1), whole)
    assert whole.std() == pytest.approx((2 / 3008) ** 0.5, rel=0.05)
    assert not np.array_equal(whole, initial_centres(3000, 8, 0, 3000, seed=4))
