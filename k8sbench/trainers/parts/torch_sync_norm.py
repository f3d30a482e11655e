# mypy: allow-subclassing-any
"""Batch norm over the samples of all ranks, without waits for the device.

PyTorch's own `nn.SyncBatchNorm` leaves out ranks that have no samples, by boolean masks: what they
select has a length that only the device knows, so that the host waits three times per layer and
step. Here every rank has as many samples as every other, which the first batch of a layer shows.
What remains is what PyTorch 1.8 did, when the reports were made: one all-gather of each rank's mean
and inverse deviation forward, one all-reduce of two sums backward, and PyTorch's own kernels
between. The kernels exist on GPUs only; `Formulas` are the same on CPUs.
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
    """`model` with every batch norm in it over all ranks; not for models that are compiled.

    The compiler would put collectives of its own in the place of these.
    """
    for name, layer in model.named_children():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):
            setattr(model, name, SyncNorm(layer))
        else:
            synchronise(layer)
    return model


def _equal_counts(count: int, running_mean: Tensor) -> tuple[Tensor, Tensor]:
    """This rank's number of samples once per rank, if it is every rank's; in both kernels' types:
    forward that of the running mean, backward whole numbers.

    The only values that the host ever reads, in the first step.
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
        kernels = _kernels(x)
        mine = torch.stack(kernels.batch_norm_stats(x, eps))
        all_ranks = mine.new_empty(len(counts[0]), *mine.shape)
        if dist.get_backend() == "gloo":  # which has no gathering into one tensor
            dist.all_gather(list(all_ranks.unbind()), mine)
        else:
            dist.all_gather_into_tensor(all_ranks, mine)
        mean, invstd = kernels.batch_norm_gather_stats_with_counts(
            x, *all_ranks.unbind(1), *running, eps, counts[0]
        )
        ctx.save_for_backward(x, weight, mean, invstd, counts[1])
        normalised: Tensor = kernels.batch_norm_elemt(x, weight, bias, mean, invstd, eps)
        return normalised

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, mean, invstd, counts = ctx.saved_tensors
        gradient = _dense(gradient)
        kernels = _kernels(x)
        *sums, of_weight, of_bias = kernels.batch_norm_backward_reduce(
            gradient, x, mean, invstd, weight, True, True, True
        )
        of_all = torch.stack(sums)
        dist.all_reduce(of_all)
        of_input = kernels.batch_norm_backward_elemt(
            gradient, x, mean, invstd, weight, *of_all.unbind(), counts
        )
        # Of weight and bias this rank's own: data parallelism sums them up.
        return of_input, of_weight, of_bias, None, None, None


def _dense(x: Tensor) -> Tensor:
    """The kernels read images in one piece, channels first or last."""
    return x if x.is_contiguous(memory_format=torch.channels_last) else x.contiguous()


def _kernels(x: Tensor) -> Any:
    return torch if x.is_cuda else Formulas


class Formulas:
    """PyTorch's five kernels of synchronised batch norm, under their names, for CPUs.

    Statistics of half precision are FP32.
    """

    @staticmethod
    def batch_norm_stats(x: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        """Mean and inverse deviation per channel."""
        variance, mean = torch.var_mean(_wide(x), _but_channels(x), correction=0)
        return mean, (variance + eps).rsqrt()

    @staticmethod
    def batch_norm_gather_stats_with_counts(
        _: Tensor,
        means: Tensor,
        invstds: Tensor,
        running_mean: Tensor,
        running_var: Tensor,
        momentum: float,
        eps: float,
        counts: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Of all ranks' statistics those of all samples; the running ones follow."""
        samples = counts.to(means.dtype).sum()
        shares = (counts / samples).unsqueeze(1)
        mean = (means * shares).sum(0)
        variance = ((invstds**-2 - eps + (means - mean) ** 2) * shares).sum(0)
        running_mean.lerp_(mean, momentum)
        running_var.lerp_(variance * (samples / (samples - 1)), momentum)
        return mean, (variance + eps).rsqrt()

    @staticmethod
    def batch_norm_elemt(
        x: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, invstd: Tensor, _: float
    ) -> Tensor:
        """The normalised `x`."""
        away = (_wide(x) - _column(mean, x)) * _column(invstd * weight, x)
        return (away + _column(bias, x)).to(x.dtype)

    @staticmethod
    def batch_norm_backward_reduce(
        gradient: Tensor,
        x: Tensor,
        mean: Tensor,
        invstd: Tensor,
        weight: Tensor,
        *_: bool,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Sums of the gradient, and of it times the distance from the mean; and what follows."""
        wide, but_channels = _wide(gradient), _but_channels(x)
        total = wide.sum(but_channels)
        by_distance = (wide * (_wide(x) - _column(mean, x))).sum(but_channels)
        return total, by_distance, (by_distance * invstd).to(weight.dtype), total.to(weight.dtype)

    @staticmethod
    def batch_norm_backward_elemt(
        gradient: Tensor,
        x: Tensor,
        mean: Tensor,
        invstd: Tensor,
        weight: Tensor,
        total: Tensor,
        by_distance: Tensor,
        counts: Tensor,
    ) -> Tensor:
        """The gradient of the input."""
        samples = counts.sum()
        slope = _column(by_distance / samples * invstd**2, x)
        away = _wide(gradient) - _column(total / samples, x)
        away = away - (_wide(x) - _column(mean, x)) * slope
        return (away * _column(invstd * weight, x)).to(x.dtype)


def _wide(x: Tensor) -> Tensor:
    return x if x.dtype is torch.float64 else x.float()


def _but_channels(x: Tensor) -> list[int]:
    return [axis for axis in range(x.dim()) if axis != 1]


def _column(values: Tensor, x: Tensor) -> Tensor:
    return values.view(1, -1, *[1] * (x.dim() - 2))
