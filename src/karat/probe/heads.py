"""`Heads`: the attention of one layer as what it is made of, so that no map need be kept.

A map is (heads, tokens, tokens), its making (heads, tokens, width). Maps of a long context are formed a few rows at a
time when somebody looks, and so are their gradients: with O = A V, dy/dA = dy/dO V^T.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from karat.kernel.errors import BadInput

Rows = slice | Tensor  # row numbers
_AT_ONCE = 2**21  # elements of a map that are formed together: 8 MB in float32


@dataclass(frozen=True, eq=False)
class Heads:
    """`value` (n, heads, K, width); `query` (n, heads, Q, width) and `key`, or the weights themselves where the module
    formed them (`given`, (n, heads, Q, K)). Fewer key and value heads than query heads are shared by groups.
    `output_gradient` (n, heads, Q, width) is the gradient of the score with respect to what the heads gave.
    """

    value: Tensor
    query: Tensor | None = None
    key: Tensor | None = None
    mask: Tensor | None = None  # True = may look, or a bias; broadcasts over (n, heads, Q, K)
    causal: bool = False
    scale: float | None = None
    given: Tensor | None = None
    output_gradient: Tensor | None = None

    def finished(self, output_gradient: Tensor | None, keep_graph: bool = False) -> Heads:
        """With the gradient, and without the graph unless it is to be kept."""
        if keep_graph:
            return replace(self, output_gradient=output_gradient)
        return replace(
            self,
            value=self.value.detach(),
            query=_detached(self.query),
            key=_detached(self.key),
            mask=_detached(self.mask),
            given=_detached(self.given),
            output_gradient=_detached(output_gradient),
        )

    @property
    def dtype(self) -> torch.dtype:
        """In which maps are formed."""
        return torch.float64 if self.value.dtype == torch.float64 else torch.float32

    @property
    def queries(self) -> int:
        tokens = self.given if self.given is not None else self.query
        assert tokens is not None
        return tokens.shape[-2]

    @property
    def count(self) -> int:
        """Query heads."""
        tokens = self.given if self.given is not None else self.query
        assert tokens is not None
        return tokens.shape[-3]

    def weights(self, rows: Rows = slice(None)) -> Tensor:
        """(n, heads, rows, K) the attention of some query rows, in float32 or wider."""
        if self.given is not None:
            return _wide(self.given[..., rows, :])
        assert self.query is not None
        assert self.key is not None
        scale = 1 / math.sqrt(self.query.shape[-1]) if self.scale is None else self.scale
        scores = (_wide(self.query[..., rows, :]) * scale) @ self._shared(self.key).transpose(-2, -1)
        allowed = self.mask
        if self.causal:
            at = torch.arange(self.queries, device=scores.device)[rows]  # the first query sees the first key
            allowed = torch.arange(scores.shape[-1], device=scores.device) <= at[:, None]
        elif allowed is not None and allowed.shape[-2] > 1:
            allowed = allowed[..., rows, :]
        if allowed is None:
            return scores.softmax(-1)
        scores = scores.masked_fill(~allowed, -math.inf) if allowed.dtype == torch.bool else scores + allowed
        # A row that may attend to nothing gets zeros, as the fused kernel gives, not NaN.
        return scores.softmax(-1).masked_fill((scores == -math.inf).all(-1, keepdim=True), 0.0)

    def slopes(self, rows: Rows = slice(None)) -> Tensor:
        """(n, heads, rows, K) the gradient of the score with respect to `weights(rows)`."""
        if self.output_gradient is None:
            raise BadInput("this trace kept no gradients of attention: ask for `head_gradients`.")
        return _wide(self.output_gradient[..., rows, :]) @ self.values.transpose(-2, -1)

    @property
    def values(self) -> Tensor:
        """(n, heads, K, width), shared ones repeated, in float32 or wider."""
        return self._shared(self.value)

    def runs(self, rows: Tensor) -> Iterator[Tensor]:
        """Row numbers in runs that are small enough to form at once."""
        return iter(rows.split(max(1, _AT_ONCE // max(1, self.value.shape[0] * self.count * self.value.shape[-2]))))

    def _shared(self, tensor: Tensor) -> Tensor:
        repeats = self.count // tensor.shape[-3] if tensor.ndim >= 4 else 1
        tensor = _wide(tensor)
        return tensor if repeats == 1 else tensor.repeat_interleave(repeats, -3)


def _detached(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.detach()


def _wide(tensor: Tensor) -> Tensor:
    return tensor if tensor.element_size() >= 4 else tensor.float()
