"""The sharded classifier: its loss and gradients against numpy in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.trainers.paddle_runs import import_paddle

pytestmark = [pytest.mark.tier("frameworks"), pytest.mark.filterwarnings("ignore::UserWarning")]

CLASSES, EMBEDDING, BATCH = 50, 16, 12
MARGIN, SCALE = 0.5, 64.0


@pytest.fixture(autouse=True, scope="module")
def paddle() -> Any:
    import_paddle()
    import paddle

    paddle.set_device("cpu")
    return paddle


def samples() -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    return (
        random.standard_normal((BATCH, EMBEDDING)).astype("float32"),
        random.integers(0, CLASSES, BATCH),
    )


def reference(features: Any, labels: Any, centres: Any) -> tuple[float, Any, Any]:
    """Loss and gradients of features and centres, in float64, written down from the definition."""
    rows = np.arange(len(labels))
    lengths = np.linalg.norm(features, axis=1, keepdims=True)
    sizes = np.linalg.norm(centres, axis=0)
    x, w = features / lengths, centres / sizes
    cosines = x @ w
    angles = np.arccos(cosines[rows, labels])
    logits = SCALE * cosines
    logits[rows, labels] = SCALE * np.cos(angles + MARGIN)
    largest = logits.max(axis=1, keepdims=True)
    shares = np.exp(logits - largest)
    total = shares.sum(axis=1, keepdims=True)
    loss = (np.log(total) + largest)[:, 0] - logits[rows, labels]

    change = shares / total
    change[rows, labels] -= 1
    change *= SCALE / len(labels)
    change[rows, labels] *= np.sin(angles + MARGIN) / np.sin(angles)
    of_x, of_w = change @ w.T, x.T @ change
    of_features = (of_x - x * (of_x * x).sum(axis=1, keepdims=True)) / lengths
    of_centres = (of_w - w * (of_w * w).sum(axis=0)) / sizes
    return float(loss.mean()), of_features, of_centres


def run_head(head: str, features: Any, labels: Any, **arguments: Any) -> tuple[Any, Any, Any, Any]:
    import paddle

    from k8sbench.trainers.parts.arcface_head_paddle import ArcFace

    layer = ArcFace(CLASSES, EMBEDDING, head=head, margin=MARGIN, scale=SCALE, **arguments)
    given = paddle.to_tensor(features, stop_gradient=False)
    loss = layer(given, paddle.to_tensor(labels))
    loss.backward()
    return loss.item(), given.grad.numpy(), layer.centres.grad.numpy(), layer.centres.numpy()


@pytest.mark.parametrize("head", ["own", "dense"])
def test_loss_and_gradients_are_those_of_the_definition(head: str) -> None:
    """`own` has its backward pass by hand, `dense` by autograd: each agrees with the formula."""
    features, labels = samples()
    loss, of_features, of_centres, centres = run_head(head, features, labels)
    expected = reference(features.astype("float64"), labels, centres.astype("float64"))
    assert loss == pytest.approx(expected[0], rel=1e-5)
    assert loss > SCALE  # where the CPU's own cross-entropy would cut logits off
    np.testing.assert_allclose(of_features, expected[1], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(of_centres, expected[2], rtol=1e-4, atol=1e-3)


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
