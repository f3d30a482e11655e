"""GPT-2's decoder.

Positions are learned, norms stand before each part, and one matrix takes tokens in and out. From
"Language Models are Unsupervised Multitask Learners" (2019) and the shapes of its published
weights; without dropout, as programs have it that train it from scratch today. Attention is
PyTorch's own, whose kernel follows from GPU and precision.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

HEAD = 64  # channels of a head, of every size
DEVIATION = 0.02  # of weights at the start


class Block(nn.Module):
    """Attention to the tokens before, then a perceptron, each added to its input."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_1 = nn.LayerNorm(channels)
        self.norm_2 = nn.LayerNorm(channels)
        self.attend = nn.Linear(channels, 3 * channels)
        self.attended = nn.Linear(channels, channels)
        self.widen = nn.Linear(channels, 4 * channels)
        self.narrow = nn.Linear(4 * channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        """`x`: (sequences, length, channels), as is the result."""
        parts = self.attend(self.norm_1(x)).unflatten(2, (3, self.heads, -1))
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        found = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.attended(found.transpose(1, 2).flatten(2))
        wide = F.gelu(self.widen(self.norm_2(x)), approximate="tanh")
        out: Tensor = x + self.narrow(wide)
        return out


class GPT2(nn.Module):
    """Mean cross entropy of the next tokens.

    124,439,808 parameters with 12 layers, 1,557,611,200 with 48, positions among them.
    """

    def __init__(
        self,
        layers: int = 12,
        heads: int = 12,
        *,
        vocabulary: int = 50_257,
        positions: int = 1024,
        width_divisor: int = 1,
    ) -> None:
        super().__init__()
        channels = heads * (HEAD // width_divisor)
        self.tokens = nn.Embedding(vocabulary, channels)
        self.positions = nn.Embedding(positions, channels)
        self.blocks = nn.ModuleList(Block(channels, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(channels)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                # What is added to the sum over all layers is as much smaller as there are such.
                adds = name.endswith(("attended.weight", "narrow.weight"))
                scale = (2 * layers) ** -0.5 if adds else 1.0
                nn.init.normal_(parameter, std=DEVIATION * scale)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """Tokens and the ones that follow them: (sequences, length)."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.tokens(tokens) + self.positions(places)
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def decayed_and_not(model: nn.Module, decay: float) -> list[dict[str, Any]]:
    """Two parameter groups: matrices, embeddings among them, and vectors without weight decay."""
    matrices = [parameter for parameter in model.parameters() if parameter.dim() > 1]
    vectors = [parameter for parameter in model.parameters() if parameter.dim() == 1]
    return [
        {"params": matrices, "weight_decay": decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
