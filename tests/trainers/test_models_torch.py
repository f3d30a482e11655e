"""The networks are the benchmarks' own: parameters and multiply-adds, counted on no device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from torch import nn

pytestmark = pytest.mark.tier("frameworks")

# Parameters exactly, GMAC within 0.1 % of what was measured on upstream's own models. The third is
# the first layer's part of it.
FINGERPRINTS = {
    "resnet50": (25_557_032, 4.089, 0.118, (1, 3, 224, 224)),
    "deeplabv3plus": (43_589_878, 371.70, 0.113, (1, 3, 512, 1024)),
    "tsm": (24_327_632, 32.70, 0.944, (1, 8, 3, 224, 224)),
}


def build(name: str) -> nn.Module:
    from k8sbench.trainers.models import deeplabv3plus_torch, resnet_torch, tsm_torch

    models: dict[str, Any] = {
        "resnet50": resnet_torch.Classifier,
        "deeplabv3plus": deeplabv3plus_torch.DeepLabV3Plus,
        "tsm": tsm_torch.TSM,
    }
    model: nn.Module = models[name]()
    return model


def multiply_adds(model: nn.Module, shape: tuple[int, ...]) -> list[float]:
    """Of each convolution and linear layer in one forward pass, in units of 10^9."""
    import torch
    from torch import nn

    counted: list[float] = []

    def count(layer: Any, _: Any, output: torch.Tensor) -> None:
        counted.append(output.numel() * layer.weight[0].numel() / 1e9)

    for layer in model.modules():
        if isinstance(layer, (nn.Conv2d, nn.Linear)):
            layer.register_forward_hook(count)
    with torch.no_grad():
        model.eval()(torch.empty(shape, device="meta"))
    return counted


@pytest.mark.parametrize("name", FINGERPRINTS)
def test_a_network_has_its_benchmarks_fingerprint(name: str) -> None:
    import torch

    parameters, gmac, first, shape = FINGERPRINTS[name]
    with torch.device("meta"):
        model = build(name)
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters
    counted = multiply_adds(model, shape)
    assert sum(counted) == pytest.approx(gmac, rel=0.001)
    assert counted[0] == pytest.approx(first, rel=0.005)


def test_deeplabs_backbone_keeps_one_eighth_by_dilation() -> None:
    import torch
    from torch import nn

    with torch.device("meta"):
        model: Any = build("deeplabv3plus")
    outputs = model.backbone.eval()(torch.empty((1, 3, 64, 128), device="meta"))
    assert [tuple(output.shape[1:]) for output in outputs] == [
        (256, 16, 32),
        (512, 8, 16),
        (1024, 8, 16),
        (2048, 8, 16),
    ]
    dilations = [
        layer.dilation[0]
        for layer in model.backbone.modules()
        if isinstance(layer, nn.Conv2d) and layer.kernel_size == (3, 3)
    ]
    # Stem, then one 3×3 per block; a dilated stage begins with half its dilation.
    assert dilations == [1] * 3 + [1] * 3 + [1] * 4 + [1] + [2] * 5 + [2] + [4] * 2


def test_tsm_moves_one_eighth_back_and_one_eighth_ahead_in_each_block() -> None:
    import torch

    from k8sbench.trainers.models import tsm_torch

    frames = torch.arange(3.0).view(3, 1, 1, 1).expand(3, 16, 1, 1) + 1  # frame t holds t + 1
    moved = tsm_torch.Shift(3)(frames)[:, :, 0, 0].tolist()
    back, ahead, stays = [2.0, 3.0, 0.0], [0.0, 1.0, 2.0], [1.0, 2.0, 3.0]
    for frame in range(3):
        assert moved[frame] == [back[frame]] * 2 + [ahead[frame]] * 2 + [stays[frame]] * 12

    with torch.device("meta"):
        model = build("tsm")
    assert sum(isinstance(module, tsm_torch.Shift) for module in model.modules()) == 16


def test_tsm_does_not_mix_clips() -> None:
    import torch

    from k8sbench.trainers.models import tsm_torch

    clips = torch.randn(2 * 4, 8, 3, 3)
    both = tsm_torch.Shift(4)(clips)
    assert torch.equal(both[:4], tsm_torch.Shift(4)(clips[:4]))
    assert torch.equal(both[4:], tsm_torch.Shift(4)(clips[4:]))


def test_tsms_parameter_groups_are_upstreams() -> None:
    import torch

    from k8sbench.trainers.models import tsm_torch

    with torch.device("meta"):
        model = tsm_torch.TSM()
    groups = tsm_torch.groups(model, 1e-4)
    told = [(len(g["params"]), g["lr_mult"], g["weight_decay"]) for g in groups]
    assert told == [(53, 1.0, 1e-4), (106, 1.0, 0.0), (1, 5.0, 1e-4), (1, 10.0, 0.0)]
    assert sum(told[0] for told in told) == len(list(model.parameters()))


def test_resnet_does_not_decay_batch_norm_but_for_that_of_its_four_shortcuts() -> None:
    """Upstream asks for "bn" in a parameter's name, and shortcuts' are named otherwise."""
    import torch

    from k8sbench.trainers.models import resnet_torch

    with torch.device("meta"):
        model = resnet_torch.Classifier()
    free, decayed = resnet_torch.decayed_and_not(model, 0.5)
    assert (len(free["params"]), free["weight_decay"]) == (98, 0.0)
    assert (len(decayed["params"]), decayed["weight_decay"]) == (63, 0.5)
    assert all(parameter.dim() == 1 for parameter in free["params"])


def test_deeplabs_loss_is_a_mean_over_all_pixels_and_weighs_the_auxiliary_head() -> None:
    import torch
    from torch import nn

    from k8sbench.trainers.models import deeplabv3plus_torch

    class Fixed(nn.Module):
        def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            even = torch.zeros(images.shape[0], 4, 2, 2)
            return even, even

    labels = torch.tensor([[0, 1], [2, deeplabv3plus_torch.IGNORE]])[None]
    values = deeplabv3plus_torch.losses(Fixed(), torch.zeros(1, 3, 2, 2), labels)
    assert list(values) == [
        "decode.loss_seg",
        "decode.acc_seg",
        "aux.loss_seg",
        "aux.acc_seg",
        "loss",
    ]
    pixel = torch.log(torch.tensor(4.0)).item()
    assert values["decode.loss_seg"].item() == pytest.approx(pixel * 3 / 4)
    assert values["aux.loss_seg"].item() == pytest.approx(0.4 * pixel * 3 / 4)
    assert values["loss"].item() == pytest.approx(1.4 * pixel * 3 / 4)
    assert values["decode.acc_seg"].item() == pytest.approx(25.0)
