"""PyTorch's CUDA operators that need more than a stub runtime.

Results of cuDNN and cuBLAS have the right shape, type and layout, and no values; their arguments
are recorded. The few operators whose values trainers branch on (whether batches are equal, how long
to go on) compute them where tensors are small, by PyTorch's own kernels for CPUs.
"""

import collections
import ctypes
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

SEEN: dict[str, set[Any]] = collections.defaultdict(set)
"""Arguments of convolutions and matrix products: name → values."""
SMALL = 1 << 18
"""Elements of the largest tensors whose values are computed."""
COMPUTED = ("all", "cat", "div_.Tensor", "eq.Scalar", "fill_.Scalar", "mul.Tensor")
_LIBRARY = torch.library.Library("aten", "IMPL")


def replaces(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Put a function in the place of the operator's kernel for CUDA."""

    def put(kernel: Callable[..., Any]) -> Callable[..., Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the kernel that was there before
            _LIBRARY.impl(name, kernel, "CUDA")
        return kernel

    return put


# -- convolutions ---------------------------------------------------------------------------------


def _types(*tensors: Tensor) -> set[str]:
    return {str(tensor.dtype).removeprefix("torch.") for tensor in tensors}


def _layouts(*images: Tensor) -> set[str]:
    """Return memory layouts; a single pixel or channel has none."""
    orders = {
        (image.is_contiguous(), image.is_contiguous(memory_format=torch.channels_last))
        for image in images
    }
    names = {(True, False): "NCHW", (False, True): "NHWC", (False, False): "neither"}
    return {names[order] for order in orders if order in names}


def _images(
    x: Tensor, weight: Tensor, stride: Any, padding: Any, dilation: Any, groups: int
) -> Tensor:
    """Return a convolution's result, in the layout of its input."""
    options = (None, stride, padding, dilation, False, [0, 0], groups)
    shape = torch.ops.aten.convolution(x.to("meta"), weight.to("meta"), *options).shape
    last = _layouts(x) == {"NHWC"}
    layout = torch.channels_last if last else torch.contiguous_format
    return torch.empty(shape, dtype=x.dtype, device=x.device, memory_format=layout)


@replaces("cudnn_convolution")
def _convolution(
    x: Tensor,
    weight: Tensor,
    padding: Any,
    stride: Any,
    dilation: Any,
    groups: int,
    benchmark: bool,
    _: bool,
    tf32: bool,
) -> Tensor:
    SEEN["convolution types"] |= _types(x, weight)
    SEEN["layouts"] |= _layouts(x, weight)
    SEEN["benchmark"].add(benchmark)
    SEEN["convolution tf32"].add(tf32)
    return _images(x, weight, stride, padding, dilation, groups)


@replaces("_conv_depthwise2d")
def _depthwise_convolution(
    x: Tensor, weight: Tensor, _: Any, bias: Tensor | None, stride: Any, padding: Any, dilation: Any
) -> Tensor:
    """PyTorch's own kernel, where it takes none of cuDNN's."""
    SEEN["convolution types"] |= _types(x, weight)
    SEEN["layouts"] |= _layouts(x, weight)
    return _images(x, weight, stride, padding, dilation, x.shape[1])


@replaces("convolution_backward")
def _convolution_backward(
    gradient: Tensor, x: Tensor, weight: Tensor, biases: Any, *given: Any
) -> tuple[Tensor | None, ...]:
    SEEN["convolution types"] |= _types(gradient, x, weight)
    of_x, of_weight, of_bias = given[-1]
    return (
        torch.empty_like(x) if of_x else None,
        torch.empty_like(weight) if of_weight else None,
        weight.new_empty(biases) if of_bias else None,
    )


# -- batch norm -----------------------------------------------------------------------------------


@replaces("cudnn_batch_norm")
def _batch_norm(x: Tensor, weight: Tensor, *_: Any) -> tuple[Tensor, ...]:
    reserved = x.new_empty(0, dtype=torch.uint8)
    return torch.empty_like(x), torch.empty_like(weight), torch.empty_like(weight), reserved


@replaces("cudnn_batch_norm_backward")
def _batch_norm_backward(x: Tensor, _: Tensor, weight: Tensor, *__: Any) -> tuple[Tensor, ...]:
    return torch.empty_like(x), torch.empty_like(weight), torch.empty_like(weight)


# -- products of matrices -------------------------------------------------------------------------


@replaces("mm")
def _product(a: Tensor, b: Tensor) -> Tensor:
    SEEN["product types"] |= _types(a, b)
    SEEN["product tf32"].add(torch.backends.cuda.matmul.allow_tf32)
    return a.new_empty(a.shape[0], b.shape[1])


@replaces("addmm")
def _product_and_sum(_: Tensor, a: Tensor, b: Tensor, **__: Any) -> Tensor:
    return _product(a, b)


# -- what trainers decide by ----------------------------------------------------------------------


def _on_host(tensor: Tensor) -> Tensor:
    """Return a CPU tensor on the stub's device memory, which is host memory."""
    if not tensor.is_cuda:
        return tensor
    if tensor.numel() == 0:
        return torch.empty(tensor.shape, dtype=tensor.dtype)
    length = 1 + sum(
        (size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
    )
    memory = (ctypes.c_char * (length * tensor.element_size())).from_address(tensor.data_ptr())
    flat = torch.frombuffer(memory, dtype=tensor.dtype)
    return flat.as_strided(tensor.shape, tensor.stride())


def _without_values(tensor: Tensor) -> Tensor:
    return tensor.to("meta")


def _compute(name: str) -> None:
    operator, _, overload = name.partition(".")
    call = getattr(getattr(torch.ops.aten, operator), overload or "default")

    @replaces(name)
    def computed(*given: Any, **named: Any) -> Any:
        leaves = pytree.tree_leaves(given)
        small = all(leaf.numel() <= SMALL for leaf in leaves if isinstance(leaf, Tensor))
        moved = pytree.tree_map_only(Tensor, _on_host if small else _without_values, given)
        values = call(*moved, **named)
        if operator.endswith("_"):
            return given[0]
        strides, dtype = values.stride(), values.dtype
        result = torch.empty_strided(values.size(), strides, dtype=dtype, device="cuda")
        if small:
            _on_host(result).copy_(values)
        return result


for _name in COMPUTED:
    _compute(_name)
