"""The networks are the benchmarks' own: parameters and multiply-adds."""

from __future__ import annotations

from typing import Any

import pytest

from tests.trainers.paddle_runs import on_cpu

__all__ = ["on_cpu"]  # a fixture
pytestmark = [pytest.mark.tier("frameworks"), pytest.mark.filterwarnings("ignore::UserWarning")]


def build(name: str, **arguments: Any) -> Any:
    from k8sbench.trainers.models import deeplabv3p_paddle, deeplabv3plus_paddle, ir50_paddle

    models: dict[str, Any] = {
        "deeplabv3p": deeplabv3p_paddle.DeepLabV3P,
        "deeplabv3plus": deeplabv3plus_paddle.DeepLabV3Plus,
        "ir50": ir50_paddle.IR50,
    }
    model = models[name](**arguments)
    model.eval()
    return model


def operations(model: Any, shape: list[int]) -> tuple[float, float]:
    """Multiply-adds of convolutions and linear layers, and twice the elements of batch norms.

    Of one forward pass on `shape`, in units of 10^9. paddle.flops counts both in one number.
    """
    import paddle
    from paddle import nn

    multiplied = normalised = 0

    def count(layer: Any, _: Any, output: Any) -> None:
        nonlocal multiplied, normalised
        size = output.size
        if isinstance(layer, nn.Conv2D):
            multiplied += size * layer.weight[0].size
        elif isinstance(layer, nn.Linear):
            multiplied += size * layer.weight.shape[0]
        else:
            normalised += 2 * size

    kinds = (nn.Conv2D, nn.Linear, nn.BatchNorm2D, nn.BatchNorm1D)
    for layer in model.sublayers():
        if isinstance(layer, kinds):
            layer.register_forward_post_hook(count)
    with paddle.no_grad():
        model(paddle.zeros(shape))
    return multiplied / 1e9, normalised / 1e9


def pooled(model: Any) -> float:
    """Multiply-adds of the branch that sees one pixel, whatever the size of the image."""
    return float(model.pooled[1][0].weight.size) / 1e9


def test_paddlesegs_model_has_its_fingerprint() -> None:
    """26.794 M as paddle.flops counts: with the statistics of batch norm, which nobody trains."""
    from k8sbench.trainers.parts.paddle_session import count_parameters

    model = build("deeplabv3p")
    assert count_parameters(model) == 26_723_395
    assert sum(parameter.size for parameter in model.parameters()) == 26_794_243
    small, norms = operations(model, [1, 3, 64, 128])
    once = pooled(model)
    full = 64 * (small - once) + once  # at 512x1024: 64 times the pixels
    assert full == pytest.approx(227.585, rel=1e-3)
    assert full + 64 * norms == pytest.approx(228.4, rel=1e-3)


def test_mmsegmentations_model_has_its_fingerprint() -> None:
    from k8sbench.trainers.parts.paddle_session import count_parameters

    model = build("deeplabv3plus")
    assert count_parameters(model) == 43_589_878
    model.train()  # with the auxiliary head
    small, _ = operations(model, [1, 3, 64, 128])
    once = pooled(model)
    assert 64 * (small - once) + once == pytest.approx(371.70, rel=1e-3)


def test_the_matched_model_begins_as_pytorchs_does() -> None:
    """He's normal over the outputs, where Paddle's own counts the inputs."""
    wide = build("deeplabv3plus").branches[0][0].weight  # 1×1, 2048 channels to 512
    assert float(wide.std()) == pytest.approx((2 / 512) ** 0.5, rel=0.01)


def test_plscs_backbone_has_its_fingerprint() -> None:
    from k8sbench.trainers.parts.paddle_session import count_parameters

    model = build("ir50")
    assert count_parameters(model) == 43_584_985
    assert operations(model, [1, 3, 112, 112])[0] == pytest.approx(6.309, rel=1e-3)
    kernel = model.body[0].weight  # stride 1: it is applied at each pixel
    assert kernel.size * 112 * 112 / 1e9 == pytest.approx(0.0217, rel=2e-3)


@pytest.mark.parametrize(
    ("name", "dilations"),
    [
        ("deeplabv3p", [1] * 10 + [2] * 6 + [4, 8, 16]),
        ("deeplabv3plus", [1] * 11 + [2] * 6 + [4] * 2),
    ],
)
def test_a_backbone_keeps_one_eighth_by_dilation(name: str, dilations: list[int]) -> None:
    import paddle
    from paddle import nn

    backbone = build(name, width_divisor=8).backbone
    outputs = backbone(paddle.zeros([1, 3, 64, 128]))
    assert [output.shape for output in outputs] == [
        [1, 32, 16, 32],
        [1, 64, 8, 16],
        [1, 128, 8, 16],
        [1, 256, 8, 16],
    ]
    found = [
        layer._dilation[0]
        for layer in backbone.sublayers()
        if isinstance(layer, nn.Conv2D) and layer._kernel_size[0] == 3
    ]
    assert found == dilations


@pytest.mark.parametrize("name", ["deeplabv3p", "deeplabv3plus"])
def test_channels_last_is_the_same_network(name: str) -> None:
    import numpy as np
    import paddle

    images = np.random.default_rng(1).standard_normal((2, 3, 32, 64)).astype("float32")
    first = build(name, width_divisor=16)
    last = build(name, width_divisor=16, layout="NHWC")
    last.set_state_dict(first.state_dict())
    expected = first(paddle.to_tensor(images)).numpy()
    found = last(paddle.to_tensor(images.transpose(0, 2, 3, 1))).numpy().transpose(0, 3, 1, 2)
    assert expected.shape == (2, 19, 32, 64)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


def test_paddlesegs_loss_is_a_mean_over_the_pixels_that_have_a_class() -> None:
    import numpy as np
    import paddle

    from k8sbench.trainers.deeplabv3p_paddle import losses

    labels = paddle.to_tensor([[[0, 1], [2, 255]]])
    even = paddle.zeros([1, 4, 2, 2])
    found = losses("paddleseg", "NCHW")(lambda _: even, None, None, labels)
    assert found["loss"].item() == pytest.approx(np.log(4.0), rel=1e-4)


def test_the_matched_loss_is_mmsegmentations() -> None:
    import numpy as np
    import paddle

    from k8sbench.trainers.deeplabv3p_paddle import losses

    labels = paddle.to_tensor([[[0, 1], [2, 255]]])
    even = paddle.zeros([1, 2, 2, 4])
    found = losses("matched", "NHWC")(lambda _: (even, even), None, None, labels)
    pixel = float(np.log(4.0)) * 3 / 4
    assert found["decode.loss_seg"].item() == pytest.approx(pixel)
    assert found["aux.loss_seg"].item() == pytest.approx(0.4 * pixel)
    assert found["loss"].item() == pytest.approx(1.4 * pixel)
    assert found["decode.acc_seg"].item() == pytest.approx(25.0)
