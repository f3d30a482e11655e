"""PyTorch's five kernels of synchronised batch norm, under their names, for CPUs.

PyTorch has them for GPUs only, where alone trainers use them. Importing this module puts formulas
in their place, in this process. Statistics of half precision are FP32.
"""

import torch
from torch import Tensor


def batch_norm_stats(x: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Mean and inverse deviation per channel."""
    variance, mean = torch.var_mean(_wide(x), _but_channels(x), correction=0)
    return mean, (variance + eps).rsqrt()


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
    """Combine all ranks' statistics; update the running ones."""
    samples = counts.to(means.dtype).sum()
    shares = (counts / samples).unsqueeze(1)
    mean = (means * shares).sum(0)
    variance = ((invstds**-2 - eps + (means - mean) ** 2) * shares).sum(0)
    running_mean.lerp_(mean, momentum)
    running_var.lerp_(variance * (samples / (samples - 1)), momentum)
    return mean, (variance + eps).rsqrt()


def batch_norm_elemt(
    x: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, invstd: Tensor, _: float
) -> Tensor:
    """The normalised `x`."""
    away = (_wide(x) - _column(mean, x)) * _column(invstd * weight, x)
    return (away + _column(bias, x)).to(x.dtype)


def batch_norm_backward_reduce(
    gradient: Tensor, x: Tensor, mean: Tensor, invstd: Tensor, weight: Tensor, *_: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the gradient's sums, plain and weighted by distance, and the parameters' gradients."""
    wide, but_channels = _wide(gradient), _but_channels(x)
    total = wide.sum(but_channels)
    by_distance = (wide * (_wide(x) - _column(mean, x))).sum(but_channels)
    return total, by_distance, (by_distance * invstd).to(weight.dtype), total.to(weight.dtype)


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


for kernel in (
    batch_norm_stats,
    batch_norm_gather_stats_with_counts,
    batch_norm_elemt,
    batch_norm_backward_reduce,
    batch_norm_backward_elemt,
):
    setattr(torch, kernel.__name__, kernel)
