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
CHUNK = 4096  # tokens whose logits are there at a time
ALIGNED = 64  # rows of a matrix that tensor cores take without remainder


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
        chunked_loss: bool = False,
    ) -> None:
        super().__init__()
        self.chunked_loss = chunked_loss
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
        x = self.norm(x).flatten(0, 1)
        if self.chunked_loss:
            loss: Tensor = ChunkedCrossEntropy.apply(x, self.tokens.weight, targets.flatten())
            return loss
        return F.cross_entropy(F.linear(x, self.tokens.weight), targets.flatten())


class ChunkedCrossEntropy(torch.autograd.Function):
    """Mean cross entropy of `x` · `weight`ᵀ, without the logits of all tokens at once.

    Each chunk's gradients follow its loss, so that nothing is computed twice. Rows of zeros align
    the vocabulary; their logits are left out of the loss.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
        """`x`: (tokens, channels); `weight`: (vocabulary, channels); `targets`: (tokens,)."""
        device = x.device.type
        is_mixed = torch.is_autocast_enabled(device)
        half = torch.get_autocast_dtype(device) if is_mixed else x.dtype
        vocabulary = len(weight)
        with torch.autocast(device, enabled=False):
            matrix = F.pad(weight.to(half), (0, 0, 0, -vocabulary % ALIGNED))
            of_weight = torch.zeros_like(matrix, dtype=torch.float32)
            of_x = []
            total = torch.zeros((), device=x.device)
            for part, right in zip(x.to(half).split(CHUNK), targets.split(CHUNK), strict=True):
                logits = (part @ matrix.T).float()
                logits[:, vocabulary:] = -torch.inf
                logs = logits.logsumexp(1, keepdim=True)
                chosen = right[:, None]
                total += (logs - logits.gather(1, chosen)).sum()
                change = (logits - logs).exp_()
                change.scatter_add_(1, chosen, -torch.ones_like(chosen, dtype=change.dtype))
                narrow = change.to(half)
                of_x.append(narrow @ matrix)
                of_weight += narrow.T @ part
        ctx.save_for_backward(torch.cat(of_x), of_weight[:vocabulary])
        ctx.types = x.dtype, weight.dtype
        return total / len(x)

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor, Tensor, None]:
        """The gradients are of the sum over the tokens, so that fp16 holds them."""
        of_x, of_weight = ctx.saved_tensors
        share = outer / len(of_x)
        type_x, type_weight = ctx.types
        return (of_x * share).to(type_x), (of_weight * share).to(type_weight), None


def decayed_and_not(model: nn.Module, decay: float) -> list[dict[str, Any]]:
    """Two parameter groups: matrices, embeddings among them, and vectors without weight decay."""
    matrices = [parameter for parameter in model.parameters() if parameter.dim() > 1]
    vectors = [parameter for parameter in model.parameters() if parameter.dim() == 1]
    return [
        {"params": matrices, "weight_decay": decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
