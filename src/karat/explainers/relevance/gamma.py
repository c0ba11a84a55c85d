"""The gamma rule for linear maps and convolutions: contributions in the direction of the output weigh 1 + gamma.

Vision layers have outputs near zero that are small differences of large contributions; dividing by them shatters
relevance. Gamma bounds it: a layer amplifies at most (2 + gamma) / gamma times.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.grad import conv2d_input

from karat.explainers.relevance.backward import wide

_GUARD = 1e-6  # of all that comes in: an output below this share of its parts is rounding, not signal
Apply = Callable[[Tensor, Tensor], Tensor]  # (input, weight) -> output, or (gradient, weight) -> input gradient


def linear(x: Tensor, weight: Tensor, bias: Tensor | None, gamma: float) -> Tensor:
    def backwards(slope: Tensor, w: Tensor) -> Tensor:
        return slope @ w

    found: Tensor = Gamma.apply(x, weight, bias, gamma, functional.linear, backwards, -1)
    return found


def conv2d(x: Tensor, weight: Tensor, bias: Tensor | None, gamma: float, options: dict[str, Any]) -> Tensor:
    """`options` are those of torch's conv2d: stride, padding, dilation, groups."""

    def forwards(z: Tensor, w: Tensor) -> Tensor:
        return functional.conv2d(z, w, None, **options)

    def backwards(slope: Tensor, w: Tensor) -> Tensor:
        found: Tensor = conv2d_input(x.shape, w, slope, **options)
        return found

    found: Tensor = Gamma.apply(x, weight, bias, gamma, forwards, backwards, 1)
    return found


class Gamma(torch.autograd.Function):
    """R_j = Σ_k (c_jk + γ c_jk^±) / Σ_j (c_jk + γ c_jk^±) R_k, c_jk = x_j w_jk, ± the sign of the output k.

    The bias is one more contribution. Works in float32 or wider, and divides by no less than `_GUARD` of Σ_j |c_jk|.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        gamma: float,
        forwards: Apply,
        backwards: Apply,
        at: int,
    ) -> Tensor:
        ctx.save_for_backward(x, weight, bias)
        ctx.gamma, ctx.forwards, ctx.backwards, ctx.at = gamma, forwards, backwards, at
        y = forwards(x, weight)
        return y if bias is None else y + _along(bias, y, at)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, None, None, None, None, None, None]:
        x, weight = wide(ctx.saved_tensors[0]), wide(ctx.saved_tensors[1])
        bias, gamma = ctx.saved_tensors[2], ctx.gamma
        high, low = weight.clamp(min=0), weight.clamp(max=0)
        above, below = x.clamp(min=0), x.clamp(max=0)
        raised = ctx.forwards(above, high) + ctx.forwards(below, low)  # Σ of positive contributions
        lowered = ctx.forwards(above, low) + ctx.forwards(below, high)
        if bias is not None:
            shift = _along(wide(bias), raised, ctx.at)
            raised, lowered = raised + shift.clamp(min=0), lowered + shift.clamp(max=0)
        output = raised + lowered
        positive = output >= 0
        divisor = output + gamma * torch.where(positive, raised, lowered)
        floor = _GUARD * (raised - lowered)
        divisor = torch.where(positive, torch.maximum(divisor, floor), torch.minimum(divisor, -floor))
        empty = divisor == 0
        share = torch.where(empty, 0.0, output * wide(slopes[0]) / torch.where(empty, 1.0, divisor))
        up, down = share * positive, share * ~positive
        slope = ctx.backwards(share, weight)
        with_sign = ctx.backwards(up, high) + ctx.backwards(down, low)  # for x > 0
        against = ctx.backwards(up, low) + ctx.backwards(down, high)  # for x < 0
        slope = slope + gamma * torch.where(x > 0, with_sign, torch.where(x < 0, against, 0.0))
        return slope.to(slopes[0].dtype), None, None, None, None, None, None


def _along(bias: Tensor, output: Tensor, axis: int) -> Tensor:
    """A bias shaped to add to an output whose channels are on `axis`."""
    return bias if axis == -1 else bias.reshape(-1, *[1] * (output.ndim - 1 - axis))
