"""Operations whose forward is as usual and whose backward follows a rule of relevance propagation.

All rules are written for gradient × input: where the gradient of the rule is g, the relevance of a value x is x · g. So
a linear map, a sum and a residual connection need no rule: their plain gradient is the LRP-0 rule already.

The gamma rule is for linear maps and convolutions of vision layers, where outputs near zero are small differences of
large contributions; dividing by them shatters relevance. Contributions in the direction of the output weigh 1 + gamma,
so a layer amplifies at most (2 + gamma) / gamma times.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.grad import conv2d_input

from karat.explainers.to_attribution import wide

_NOTHING = 1e-10  # an input this small brings nothing; attnlrp's code adds as much to the divisor
_GUARD = 1e-6  # of all that comes in: an output below this share of its parts is rounding, not signal
Apply = Callable[[Tensor, Tensor], Tensor]  # (input, weight) -> output, or (gradient, weight) -> input gradient


@dataclass(eq=False)
class Tally:
    """What was lost at softmaxes, per sample (n,), and where a value stopped being a number (first met).

    `calls` counts how often each layer attended: towers that pack images into one sequence do so image by image.
    """

    n: int
    lost: Tensor = field(init=False)
    calls: dict[str, int] = field(default_factory=dict)
    turns: list[Tensor] = field(default_factory=list)  # what was lost in each backward pass, where there are several
    bad_values: str | None = None
    bad_relevance: str | None = None

    def __post_init__(self) -> None:
        self.lost = torch.zeros(self.n, dtype=torch.float64)

    def turn(self) -> None:
        """One backward pass of several is over."""
        self.turns.append(self.lost)
        self.lost = torch.zeros_like(self.lost)

    @property
    def by_row(self) -> Tensor:
        return torch.cat(self.turns) if self.turns else self.lost

    def call(self, layer: str) -> tuple[str, int]:
        """A name for one more call of a layer's attention."""
        number = self.calls.get(layer, 0)
        self.calls[layer] = number + 1
        return layer, number

    def lose(self, amount: Tensor, call: tuple[str, int]) -> None:
        """Add relevance (n · anything, ...) to what was lost; batch first, windows of a sample side by side.

        A call that is no batch is of one image, or of one window of it: calls of a layer are in the order of images.
        """
        total = amount.detach().double().cpu()
        if total.shape[0] % self.n == 0:
            self.lost += total.reshape(self.n, -1).sum(1)
        else:
            layer, number = call
            self.lost[number * self.n // self.calls[layer]] += total.sum()


class Scaled(torch.autograd.Function):
    """The value as it is, its gradient times `factor`: the share of a product that one of its two factors gets."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, None]:
        return slopes[0] * ctx.factor, None


class Counted(torch.autograd.Function):
    """The value as it is. Its relevance times `share` is added to what was lost, its gradient times `factor` goes on.

    The layer of `call` is named if a gradient that comes in is not finite.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float, share: float, tally: Tally, call: tuple[str, int]) -> Tensor:
        ctx.factor, ctx.share, ctx.tally, ctx.call = factor, share, tally, call
        if share:
            ctx.save_for_backward(x)
        if tally.bad_values is None and not _sound(x):
            tally.bad_values = call[0]
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, None, None, None, None]:
        slope = slopes[0]
        if ctx.tally.bad_relevance is None and not _sound(slope):
            ctx.tally.bad_relevance = ctx.call[0]
        if ctx.share:
            x = ctx.saved_tensors[0]
            ctx.tally.lose(ctx.share * torch.einsum("n...d,n...d->n", wide(x), wide(slope)), ctx.call)
        return slope if ctx.factor == 1 else slope * ctx.factor, None, None, None, None


class Identity(torch.autograd.Function):
    """y = f(x), each value by itself: all relevance goes through, so the gradient is y / x.

    Functions that are 0 at 0 (`tame`) have a quotient everywhere but at 0; for others tiny inputs must be left out.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, tame: bool) -> Tensor:
        ratio = wide(y) / wide(x)
        if tame:
            ratio.nan_to_num_(0.0)
        else:
            ratio.masked_fill_(wide(x).abs() < _NOTHING, 0.0)  # in float16 the bound itself would be 0
        ctx.save_for_backward(ratio)
        return y.view_as(y)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, None, None]:
        # In half precision the quotient may overflow where its product with the gradient does not.
        return (slopes[0] * ctx.saved_tensors[0]).to(slopes[0].dtype), None, None


class LayerNorm(torch.autograd.Function):
    """(x - mean) / deviation · w + b with the deviation held fixed: what is left is linear."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, shape: list[int], weight: Tensor | None, bias: Tensor | None, eps: float
    ) -> Tensor:
        y, _, inverse = torch.native_layer_norm(x, shape, weight, bias, eps)
        ctx.save_for_backward(inverse, weight)
        ctx.axes = tuple(range(-len(shape), 0))
        return y

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, None, None, None, None]:
        inverse, weight = ctx.saved_tensors
        slope = slopes[0] if weight is None else slopes[0] * weight
        slope = (slope - slope.mean(ctx.axes, keepdim=True)) * inverse
        return slope.to(slopes[0].dtype), None, None, None, None


class Softmax(torch.autograd.Function):
    """Attention weights, plain gradient (a first-order expansion), which loses relevance: how much is counted.

    With s = softmax(x) and g the gradient at s, relevance Σ s g arrives and Σ x dx goes on. dx sums to 0 over a row, so
    x may be replaced by log s, which differs from it by a constant.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, s: Tensor, tally: Tally, call: tuple[str, int]) -> Tensor:
        ctx.save_for_backward(s)
        ctx.dtype, ctx.tally, ctx.call = x.dtype, tally, call
        return s.view_as(s)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, None, None, None]:
        s, g = wide(ctx.saved_tensors[0]), wide(slopes[0])
        arriving = s * g
        total = arriving.sum(-1, keepdim=True)
        dx = arriving - s * total
        passed = (dx * torch.where(s > 0, s, 1.0).log()).sum(-1, keepdim=True)
        ctx.tally.lose(total - passed, ctx.call)
        return dx.to(ctx.dtype), None, None, None


def halves(x: Tensor) -> Tensor:
    """The uniform rule: each of two factors gets half of a product's relevance."""
    scaled: Tensor = Scaled.apply(x, 0.5)
    return scaled


def normalised(x: Tensor, p: float, dim: int, eps: float) -> Tensor:
    """x / |x| with the length held fixed, as in norms."""
    return x / x.detach().norm(p, dim, keepdim=True).clamp_min(eps)


def _sound(tensor: Tensor) -> bool:
    """Whether all values are finite, in one pass: a sum is not if one of its terms is not."""
    return bool(tensor.sum(dtype=wide(tensor[:0]).dtype).isfinite()) or bool(tensor.isfinite().all())


# ---- the gamma rule


def gamma_linear(x: Tensor, weight: Tensor, bias: Tensor | None, gamma: float) -> Tensor:
    def backwards(slope: Tensor, w: Tensor) -> Tensor:
        return slope @ w

    y: Tensor = Gamma.apply(x, weight, bias, gamma, functional.linear, backwards, -1)
    return y


def gamma_conv2d(x: Tensor, weight: Tensor, bias: Tensor | None, gamma: float, options: dict[str, Any]) -> Tensor:
    """`options` are those of torch's conv2d: stride, padding, dilation, groups."""

    def forwards(z: Tensor, w: Tensor) -> Tensor:
        return functional.conv2d(z, w, None, **options)

    def backwards(slope: Tensor, w: Tensor) -> Tensor:
        slopes: Tensor = conv2d_input(x.shape, w, slope, **options)
        return slopes

    y: Tensor = Gamma.apply(x, weight, bias, gamma, forwards, backwards, 1)
    return y


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
