"""DeepLIFT's Rescale rule on a batch whose first half is the input and whose second half is its reference."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from karat.probe.relu_rules import RELUS

_ELEMENTWISE = RELUS | {
    functional.relu6,
    functional.hardtanh,
    functional.leaky_relu,
    functional.elu,
    functional.selu,
    functional.gelu,
    functional.silu,
    functional.mish,
    functional.softplus,
    functional.hardswish,
    functional.hardsigmoid,
    functional.sigmoid,
    functional.tanh,
    torch.sigmoid,
    torch.tanh,
    Tensor.sigmoid,
    Tensor.tanh,
}
_MAX_POOLS = frozenset((functional.max_pool2d, torch.max_pool2d))
# Below this difference the quotient says nothing and the slope is used; captum has the same bound.
_CLOSE = 1e-6


@contextmanager
def rescaled(n: int) -> Iterator[None]:
    """Nonlinear calls on batches of 2n rows get DeepLIFT's multipliers. Gradients are only right for the first n."""
    with _Rescale(n):
        yield


class _Rescale(TorchFunctionMode):
    def __init__(self, n: int) -> None:
        super().__init__()
        self.n = n

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _ELEMENTWISE or func in _MAX_POOLS:
            x = args[0] if args else kwargs.pop("input")
            if x.shape[0] == 2 * self.n:
                if func in _MAX_POOLS:
                    return _MaxPool.apply(x, args[1:], kwargs)
                options = {key: value for key, value in kwargs.items() if key != "inplace"}
                return _Elementwise.apply(x, lambda z: _new(func)(z, *_no_inplace(func, args[1:]), **options))
            return func(x, *args[1:], **kwargs)
        return func(*args, **kwargs)


def _new(func: Any) -> Callable[..., Tensor]:
    """The form of a function that leaves its argument alone."""
    return torch.relu if func in RELUS else func


def _no_inplace(func: Any, rest: tuple[Any, ...]) -> tuple[Any, ...]:
    """Positional options, without the trailing `inplace` that some of these functions take."""
    if func in RELUS:
        return ()
    return tuple(value for value in rest if not isinstance(value, bool))


class _Elementwise(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, f: Callable[[Tensor], Tensor]) -> Tensor:
        ctx.f = f
        y = f(z)
        ctx.save_for_backward(z, y)
        return y

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, None]:
        z, y = ctx.saved_tensors
        (x, reference), (y_x, y_reference) = z.chunk(2), y.chunk(2)
        with torch.enable_grad():
            point = x.detach().requires_grad_()
            plain = torch.autograd.grad(ctx.f(point).sum(), point)[0]
        gap = x - reference
        near = gap.abs() < _CLOSE
        multiplier = torch.where(near, plain, (y_x - y_reference) / torch.where(near, 1.0, gap).to(gap.dtype))
        slope = slopes[0].chunk(2)[0] * multiplier
        return torch.cat([slope, torch.zeros_like(slope)]), None


class _MaxPool(torch.autograd.Function):
    """The difference of two maxima belongs to the place of the larger one: only there is it fully explained."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
        y, places = functional.max_pool2d(z, *args, **{**kwargs, "return_indices": True})
        ctx.save_for_backward(z, y, places)
        return y

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, None, None]:
        z, y, places = ctx.saved_tensors
        (x, reference), (y_x, y_reference), (at_x, at_reference) = z.chunk(2), y.chunk(2), places.chunk(2)
        place = torch.where(y_x >= y_reference, at_x, at_reference).flatten(2)
        gap = (x - reference).flatten(2).gather(2, place)
        near = gap.abs() < _CLOSE
        share = torch.where(near, 1.0, (y_x - y_reference).flatten(2) / torch.where(near, 1.0, gap).to(gap.dtype))
        slope = torch.zeros_like(x).flatten(2)
        slope.scatter_add_(2, place, slopes[0].chunk(2)[0].flatten(2) * share.to(gap.dtype))
        slope = slope.reshape(x.shape)
        return torch.cat([slope, torch.zeros_like(slope)]), None, None
