# mypy: allow-subclassing-any
"""Batch norm over the samples of all ranks, without waits for the device.

PyTorch's own `nn.SyncBatchNorm` leaves out ranks that have no samples, by boolean masks: what they
select has a length that only the device knows, so that the host waits three times per layer and
step. Here every rank has as many samples as every other, which the first batch of a layer shows.
What remains is what PyTorch 1.8 did, when the reports were made: one all-gather of each rank's mean
and inverse deviation forward, one all-reduce of two sums backward, and PyTorch's own kernels
between. The kernels exist on GPUs only, where alone batch norm is synchronised.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F


class SyncNorm(nn.modules.batchnorm._BatchNorm):
    """Batch norm over all ranks while it trains, `nn.BatchNorm2d` else."""

    def __init__(self, like: nn.modules.batchnorm._BatchNorm) -> None:
        """Take the place of `like`, with its parameters and running statistics."""
        super().__init__(like.num_features, like.eps, like.momentum)
        self.weight, self.bias = like.weight, like.bias
        self.running_mean, self.running_var = like.running_mean, like.running_var
        self.num_batches_tracked = like.num_batches_tracked
        self.count = 0
        self.counts: tuple[Tensor, Tensor] | None = None

    def forward(self, x: Tensor) -> Tensor:
        """The normalised `x`, in the type of `x`."""
        if not self.training:
            return F.batch_norm(
                x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps
            )
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        count = x.numel() // x.shape[1]
        if self.counts is None:
            self.count, self.counts = count, _equal_counts(count, self.running_mean)
        elif count != self.count:
            raise ValueError(f"batch norm began with {self.count} samples per rank, now {count}")
        running = (self.running_mean, self.running_var, self.momentum)
        normalised: Tensor = _Normalise.apply(
            x, self.weight, self.bias, self.eps, self.counts, running
        )
        return normalised


def synchronise(model: nn.Module) -> nn.Module:
    """Replace every batch norm in `model` by one over all ranks.

    Not for models that are compiled.

    The compiler would put collectives of its own in the place of these.
    """
    for name, layer in model.named_children():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):
            setattr(model, name, SyncNorm(layer))
        else:
            synchronise(layer)
    return model


def _equal_counts(count: int, running_mean: Tensor) -> tuple[Tensor, Tensor]:
    """Return this rank's sample count once per rank, if equal everywhere.

    In both kernels' types: forward that of the running mean, backward whole numbers. The only
    values that the host ever reads, in the first step.
    """
    mine = torch.tensor([count], device=running_mean.device)
    of_rank = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(of_rank, mine)
    told = torch.cat(of_rank)
    if told.tolist() != [count] * len(of_rank):
        raise ValueError(f"ranks with unequal batches, of {told.tolist()} samples in batch norm")
    return told.to(running_mean.dtype), told.int()


class _Normalise(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, eps: float, counts: Any, running: Any
    ) -> Tensor:
        x = _dense(x)
        mine = torch.stack(torch.batch_norm_stats(x, eps))
        all_ranks = mine.new_empty(len(counts[0]), *mine.shape)
        if dist.get_backend() == "gloo":  # which has no gathering into one tensor
            dist.all_gather(list(all_ranks.unbind()), mine)
        else:
            dist.all_gather_into_tensor(all_ranks, mine)
        mean, invstd = torch.batch_norm_gather_stats_with_counts(
            x, *all_ranks.unbind(1), *running, eps, counts[0]
        )
        ctx.save_for_backward(x, weight, mean, invstd, counts[1])
        normalised: Tensor = torch.batch_norm_elemt(x, weight, bias, mean, invstd, eps)
        return normalised

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, mean, invstd, counts = ctx.saved_tensors
        gradient = _dense(gradient)
        *sums, of_weight, of_bias = torch.batch_norm_backward_reduce(
            gradient, x, mean, invstd, weight, True, True, True
        )
        of_all = torch.stack(sums)
        dist.all_reduce(of_all)
        of_input = torch.batch_norm_backward_elemt(
            gradient, x, mean, invstd, weight, *of_all.unbind(), counts
        )
        # Of weight and bias this rank's own: data parallelism sums them up.
        return of_input, of_weight, of_bias, None, None, None


def _dense(x: Tensor) -> Tensor:
    """The kernels read images in one piece, channels first or last."""
    return x if x.is_contiguous(memory_format=torch.channels_last) else x.contiguous()
