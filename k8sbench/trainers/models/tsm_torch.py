"""TSM ResNet-50 for PyTorch: ResNet-50 v1.5 with temporal shift.

Before the first convolution of every block, one eighth of the channels is moved one frame back in
time and one eighth one frame ahead ("blockres", `shift_div` 8); the rest stays. The clip's logits
are the mean over its frames. 24.328 M parameters with 400 classes, 32.7 GMAC per clip of 8 frames
at 224×224.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from k8sbench.trainers.models.resnet_torch import Classifier

SHIFT_DIV = 8
DROPOUT = 0.5


class Shift(nn.Module):
    """Moves channels in time; out of place, as upstream does by default."""

    def __init__(self, segments: int) -> None:
        super().__init__()
        self.segments = segments

    def forward(self, x: Tensor) -> Tensor:
        """Shift the frames of clips: (clips · segments, C, H, W)."""
        frames = x.view(-1, self.segments, *x.shape[1:])
        fold = x.shape[1] // SHIFT_DIV
        moved = torch.zeros_like(frames)
        moved[:, :-1, :fold] = frames[:, 1:, :fold]
        moved[:, 1:, fold : 2 * fold] = frames[:, :-1, fold : 2 * fold]
        moved[:, :, 2 * fold :] = frames[:, :, 2 * fold :]
        return moved.view_as(x)


class TSM(nn.Module):
    """One row of logits per clip."""

    def __init__(self, classes: int = 400, segments: int = 8, *, width_divisor: int = 1) -> None:
        super().__init__()
        self.segments = segments
        self.frames = Classifier(classes, dropout=DROPOUT, width_divisor=width_divisor)
        nn.init.normal_(self.frames.fc.weight, std=0.001)
        nn.init.zeros_(self.frames.fc.bias)
        for block in self.frames.backbone.blocks():
            block.reduce = nn.Sequential(Shift(segments), *block.reduce)

    def forward(self, clips: Tensor) -> Tensor:
        """`clips`: (clips, segments, 3, H, W)."""
        logits: Tensor = self.frames(clips.flatten(0, 1))
        return logits.view(-1, self.segments, logits.shape[1]).mean(1)


def losses(model: nn.Module, clips: Tensor, labels: Tensor) -> dict[str, Tensor]:
    """Cross entropy, and the top-1 and top-5 share of clips, percent."""
    logits = model(clips)
    ranked = logits.detach().topk(min(5, logits.shape[1]), dim=1).indices
    hits = (ranked == labels[:, None]).float()
    return {
        "loss": F.cross_entropy(logits, labels),
        "top1": 100.0 * hits[:, 0].mean(),
        "top5": 100.0 * hits.sum(1).mean(),
    }


def groups(model: nn.Module, decay: float) -> list[dict[str, Any]]:
    """Upstream's parameter groups.

    The classifier learns 5 times as fast and its bias 10 times; batch norm and biases are not
    decayed.
    """
    norms: list[Tensor] = []
    weights: list[Tensor] = []
    classifier: list[nn.Linear] = []
    for module in model.modules():
        if isinstance(module, nn.Linear):
            classifier.append(module)
        elif isinstance(module, nn.Conv2d):
            weights.append(module.weight)
        elif isinstance(module, nn.BatchNorm2d):
            norms += [module.weight, module.bias]
    return [
        {"params": weights, "lr_mult": 1.0, "weight_decay": decay},
        {"params": norms, "lr_mult": 1.0, "weight_decay": 0.0},
        {"params": [fc.weight for fc in classifier], "lr_mult": 5.0, "weight_decay": decay},
        {"params": [fc.bias for fc in classifier], "lr_mult": 10.0, "weight_decay": 0.0},
    ]
