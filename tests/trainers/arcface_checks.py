"""ArcFace's classifier against numpy in double precision, on Paddle's current device."""

from typing import Any

import numpy as np
import pytest

CLASSES, EMBEDDING, BATCH = 50, 16, 12
MARGIN, SCALE = 0.5, 64.0


def samples() -> tuple[Any, Any]:
    random = np.random.default_rng(1)
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

    from k8sbench.trainers.models.arcface_paddle import ArcFace

    layer = ArcFace(CLASSES, EMBEDDING, head=head, margin=MARGIN, scale=SCALE, **arguments)
    given = paddle.to_tensor(features, stop_gradient=False)
    loss = layer(given, paddle.to_tensor(labels))
    loss.backward()
    return loss.item(), given.grad.numpy(), layer.centres.grad.numpy(), layer.centres.numpy()


def agrees_with_the_definition(head: str) -> None:
    """Its loss and its gradients of features and centres are those of the formula."""
    features, labels = samples()
    loss, of_features, of_centres, centres = run_head(head, features, labels)
    expected = reference(features.astype("float64"), labels, centres.astype("float64"))
    assert loss == pytest.approx(expected[0], rel=1e-5)
    assert loss > SCALE  # where the CPU's own cross-entropy would cut logits off
    np.testing.assert_allclose(of_features, expected[1], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(of_centres, expected[2], rtol=1e-4, atol=1e-3)
