"""What mixes places of an image inside a model, switched off for a while, so that a token shows its own place alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

_MEANS = frozenset((torch.mean, Tensor.mean))


@contextmanager
def silenced(module: nn.Module, names: Sequence[str]) -> Iterator[None]:
    """These parts (attention) give zeros."""

    def nothing(_: nn.Module, __: Any, output: Any) -> Any:
        if isinstance(output, tuple | list):
            return type(output)([torch.zeros_like(output[0]), *output[1:]])
        return torch.zeros_like(output)

    with ExitStack() as stack:
        for name in names:
            stack.callback(module.get_submodule(name).register_forward_hook(nothing).remove)
        yield


class OwnTiles(TorchFunctionMode):
    """Convolutions that reach over their neighbours see their own tile only, and a mean over a whole map (as in squeeze
    and excitation) is each place's own value.

    A convolution of stride s that keeps the proportions of its map has the tile [s·i, s·(i + 1)) for its output i: of
    its kernel, these taps are left.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is functional.conv2d and not kwargs and len(args) == 7:
            return func(*_own_tile(*args))
        if func in _MEANS and args and args[0].ndim == 4:
            named = dict(zip(("dim", "keepdim"), args[1:], strict=False)) | kwargs
            axes = named.get("dim")
            if named.get("keepdim") and isinstance(axes, tuple | list) and {axis % 4 for axis in axes} == {2, 3}:
                return args[0]
        return func(*args, **kwargs)


def _own_tile(
    maps: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, dilation: Any, n: int
) -> Any:
    """The arguments of a convolution that leaves each output its own tile; its own where that is not defined."""
    as_it_is = maps, weight, bias, stride, padding, dilation, n
    steps, gaps = _pair(stride), _pair(dilation)
    kernel, sizes = weight.shape[-2:], maps.shape[-2:]
    edges = tuple((k - 1) // 2 for k in kernel) if padding == "same" else _pair(padding)
    for k, s, p, gap, size in zip(kernel, steps, edges, gaps, sizes, strict=True):
        even = gap == 1 and p + s <= k and size % s == 0 and (size + 2 * p - k) // s + 1 == size // s
        if not even:
            return as_it_is
    (top, left), (down, across) = edges, steps
    # What is left is as strong as the whole was, or little would come through many layers.
    taps = weight[..., top : top + down, left : left + across] * (kernel.numel() / (down * across)) ** 0.5
    return maps, taps, bias, stride, 0, dilation, n


def _pair(value: Any) -> tuple[int, ...]:
    return (value, value) if isinstance(value, int) else tuple(value) if not isinstance(value, str) else (0, 0)
