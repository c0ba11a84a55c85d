"""While `relu_rule` is entered, every ReLU, however it is spelled, lets gradients back by another rule."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from assay.kernel.errors import BadInput

RELUS = frozenset((functional.relu, torch.relu, torch.relu_, Tensor.relu, Tensor.relu_))


@contextmanager
def relu_rule(guided: bool, required: bool = True) -> Iterator[None]:
    """`guided`: a gradient must be positive and meet a positive input; otherwise it must only be positive."""
    mode = _Rule(guided)
    with mode:
        yield
    if required and not mode.met:
        raise BadInput(
            "this model has no ReLU, so guided backpropagation and the deconvnet do not differ from the gradient; "
            "use gradient/gradient."
        )


class _Rule(TorchFunctionMode):
    """Calls are exchanged rather than modules, so functional and repeated ReLUs count too and nothing is edited."""

    def __init__(self, guided: bool) -> None:
        super().__init__()
        self.guided = guided
        self.met = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in RELUS:
            self.met += 1
            return _Relu.apply(args[0] if args else (kwargs or {})["input"], self.guided)
        return func(*args, **(kwargs or {}))


class _Relu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, guided: bool) -> Tensor:
        y = x.clamp(min=0)
        if guided:
            ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, None]:
        slope = slopes[0].clamp(min=0)
        if ctx.saved_tensors:
            slope = slope * (ctx.saved_tensors[0] > 0)
        return slope, None
