"""The sharded classifier: its loss and gradients against numpy in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.trainers.arcface_checks import (
    BATCH,
    CLASSES,
    EMBEDDING,
    agrees_with_the_definition,
    run_head,
    samples,
)
from tests.unit.trainers.paddle_runs import import_paddle

pytestmark = [pytest.mark.tier("frameworks"), pytest.mark.filterwarnings("ignore::UserWarning")]


@pytest.fixture(autouse=True, scope="module")
def paddle() -> Any:
    import_paddle()
    import paddle

    paddle.set_device("cpu")
    return paddle


@pytest.mark.parametrize("head", ["own", "dense"])
def test_loss_and_gradients_are_those_of_the_definition(head: str) -> None:
    """`own` has its backward pass by hand, `dense` by autograd."""
    agrees_with_the_definition(head)


def test_a_gradient_that_flows_on_is_scaled() -> None:
    import paddle

    from k8sbench.trainers.parts.arcface_head_paddle import ArcFace

    features, labels = samples()
    _, plain, _, _ = run_head("own", features, labels)
    layer = ArcFace(CLASSES, EMBEDDING, head="own")
    given = paddle.to_tensor(features, stop_gradient=False)
    (layer(given, paddle.to_tensor(labels)) * 3.0).backward()
    np.testing.assert_allclose(given.grad.numpy(), 3.0 * plain, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("head", ["own", "dense"])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_feature_on_its_centre_or_opposite_has_finite_gradients(head: str, sign: float) -> None:
    from k8sbench.trainers.parts.arcface_head_paddle import initial_centres

    labels = np.arange(BATCH)
    features = sign * initial_centres(CLASSES, EMBEDDING, 0, CLASSES, 0).T[:BATCH]
    loss, of_features, of_centres, _ = run_head(head, np.ascontiguousarray(features), labels)
    assert np.isfinite(loss)
    assert np.isfinite(of_features).all()
    assert np.isfinite(of_centres).all()


@pytest.mark.parametrize(("classes", "world"), [(85_742, 32), (85_742, 8), (10, 3), (8, 4), (3, 1)])
def test_shards_cover_every_class_once(classes: int, world: int) -> None:
    from k8sbench.trainers.parts.arcface_head_paddle import shard

    shards = [shard(classes, rank, world) for rank in range(world)]
    assert [first for first, _ in shards] == [sum(n for _, n in shards[:r]) for r in range(world)]
    assert sum(count for _, count in shards) == classes
    assert max(count for _, count in shards) == -(-classes // world)


def test_centres_do_not_depend_on_the_sharding() -> None:
    from k8sbench.trainers.parts.arcface_head_paddle import initial_centres, shard

    whole = initial_centres(3000, 8, 0, 3000, seed=3)
    parts = [initial_centres(3000, 8, *shard(3000, rank, 7), seed=3) for rank in range(7)]
    np.testing.assert_array_equal(np.concatenate(parts, axis=1), whole)
    assert whole.std() == pytest.approx((2 / 3008) ** 0.5, rel=0.05)
    assert not np.array_equal(whole, initial_centres(3000, 8, 0, 3000, seed=4))


def test_what_cannot_be_sharded_is_an_error() -> None:
    from k8sbench.trainers.parts.arcface_head_paddle import ArcFace

    with pytest.raises(ValueError, match="no such head"):
        ArcFace(10, 4, head="margins")
    with pytest.raises(ValueError, match="on one rank only"):
        ArcFace(10, 4, head="dense", world=2)
    with pytest.raises(ValueError, match="5 classes leave rank 3 of 4 without any"):
        ArcFace(5, 4, head="own", rank=3, world=4)
