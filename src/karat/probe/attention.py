"""Attention maps of any torch module, fused kernels included: the kernel's call is answered by plain arithmetic.

While `AttentionWatch` is entered, calls to scaled-dot-product attention inside a watched module are computed as
softmax(q k^T) v, and the softmax itself is kept, inside the graph, so that gradients with respect to it exist. Nothing
of the model is edited, so there is nothing to forget to undo; layers that nobody asked for keep their fused kernel, and
so do those of which only `Heads` (queries, keys, values) are wanted.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack

from karat.kernel.errors import BadInput
from karat.models.structure import submodule

QueryRows = slice | Tensor  # row numbers

_AT_ONCE = 2**21  # elements of a map that are formed together: 8 MB in float32
_SDPA = functional.scaled_dot_product_attention
_MULTI_HEAD = functional.multi_head_attention_forward
_MULTI_HEAD_SIGNATURE = inspect.signature(_MULTI_HEAD)
_SOFTMAX = frozenset((torch.softmax, torch.special.softmax, Tensor.softmax, functional.softmax))
_PRODUCT = frozenset((torch.matmul, torch.bmm, Tensor.matmul, Tensor.bmm, Tensor.__matmul__))
# Implementations of transformers whose arithmetic goes through the functions above.
_VISIBLE = frozenset(("eager", "sdpa", None))


@dataclass(frozen=True, eq=False)
class Heads:
    """The attention of one layer as what it is made of, so that no map need be kept: a map is (heads, tokens, tokens),
    its making (heads, tokens, width). Maps of a long context are formed a few rows at a time when they are needed, and
    so are their gradients: with O = A V, dy/dA = dy/dO V^T.

    `value` (n, heads, K, width); `query` (n, heads, Q, width) and `key`, or the weights themselves where the module
    formed them (`formed`, (n, heads, Q, K)). Fewer key and value heads than query heads are shared by groups.
    `output_gradient` (n, heads, Q, width) is the gradient of the score with respect to what the heads gave.
    """

    value: Tensor
    query: Tensor | None = None
    key: Tensor | None = None
    mask: Tensor | None = None  # True = may look, or a bias; broadcasts over (n, heads, Q, K)
    causal: bool = False
    scale: float | None = None
    formed: Tensor | None = None
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
            formed=_detached(self.formed),
            output_gradient=_detached(output_gradient),
        )

    @property
    def dtype(self) -> torch.dtype:
        """In which maps are formed."""
        return torch.float64 if self.value.dtype == torch.float64 else torch.float32

    @property
    def queries(self) -> int:
        tokens = self.formed if self.formed is not None else self.query
        assert tokens is not None
        return tokens.shape[-2]

    @property
    def count(self) -> int:
        """Query heads."""
        tokens = self.formed if self.formed is not None else self.query
        assert tokens is not None
        return tokens.shape[-3]

    def weights(self, rows: QueryRows = slice(None)) -> Tensor:
        """(n, heads, rows, K) the attention of some query rows, in float32 or wider."""
        if self.formed is not None:
            return _wide(self.formed[..., rows, :])
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

    def slopes(self, rows: QueryRows = slice(None)) -> Tensor:
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


class AttentionWatch(TorchFunctionMode):
    """Records the softmax of each module in `names`: `maps[name]` is (n, heads, queries, keys).

    Of each module in `heads` it keeps what attention is made of, `heads[name]`, and what it gave, `outputs[name]`
    (n, heads, queries, width); a fused kernel is asked as it is. A module that spells attention out is taken to end
    with the product of weights and values. Windowed attention keeps the shape its module computes with (Swin: n ×
    windows first; Hiera: windows third).
    """

    def __init__(
        self,
        module: nn.Module,
        names: Sequence[str],
        differentiable: bool = False,
        heads: Sequence[str] = (),
        fused: bool = True,
        again: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__()
        self.maps: dict[str, Tensor] = {}
        self.heads: dict[str, Heads] = {}
        self.outputs: dict[str, Tensor] = {}
        self._module = module
        self._parts = {name: submodule(module, name) for name in (*names, *heads)}
        self._whole, self._factored = frozenset(names), frozenset(heads)
        self._softmax: dict[str, torch.Size] = {}
        self._differentiable = differentiable
        self._fused = fused  # fused kernels have no second derivative
        self._again = again  # a checkpointed layer is being run for the second time: nothing is kept of it
        self._inside: list[str] = []
        self._undo: list[Callable[[], None]] = []

    def __enter__(self) -> AttentionWatch:
        self._hide_nothing()
        for name, part in self._parts.items():
            entered = part.register_forward_pre_hook(lambda *_, name=name: self._inside.append(name))
            left = part.register_forward_hook(lambda *_, name=name: self._leave(name), always_call=True)
            self._undo += [entered.remove, left.remove]
        super().__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        super().__exit__(kind, error, at)
        while self._undo:
            self._undo.pop()()
        silent = sorted((self._whole - set(self.maps)) | (self._factored - set(self.heads)))
        if kind is None and silent:
            raise BadInput(
                f"no attention map was computed in {', '.join(silent)} ({type(self._parts[silent[0]]).__name__}): "
                "name the modules that call softmax or scaled_dot_product_attention themselves."
            )

    @contextmanager
    def watching_here(self) -> Iterator[None]:
        """Watches in this thread too, for a backward pass that runs in another than the one that entered."""
        if any(mode is self for mode in _get_current_function_mode_stack()):
            yield
            return
        super().__enter__()
        try:
            yield
        finally:
            super().__exit__(None, None, None)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self._inside:
            if func is _SDPA:
                return self._attend(*args, **kwargs)
            if func is _MULTI_HEAD:
                return self._multi_head(args, kwargs)
            if func in _SOFTMAX:
                return self._keep_softmax(func(*args, **kwargs), args, kwargs)
            if func in _PRODUCT:
                return self._keep_product(func(*args, **kwargs), *args, **kwargs)
        return func(*args, **kwargs)

    def _attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        """(..., heads, queries, width). Dropout is left out: traces run in evaluation mode."""
        name = self._inside[-1]
        heads = Heads(value, query, key, attn_mask, is_causal, scale)
        if self._fused and name in self._factored - self._whole:
            out = _SDPA(query, key, value, attn_mask, 0.0, is_causal, scale=scale, enable_gqa=enable_gqa)
            return self._keep_heads(heads, out)
        out = self._spelt_out(query, key, value, attn_mask, is_causal, scale, enable_gqa)
        return self._keep_heads(heads, out) if name in self._factored else out

    def _spelt_out(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None,
        is_causal: bool,
        scale: float | None,
        enable_gqa: bool,
    ) -> Tensor:
        if enable_gqa:
            repeats = query.shape[-3] // key.shape[-3]
            key, value = key.repeat_interleave(repeats, -3), value.repeat_interleave(repeats, -3)
        scores = (query * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)) @ key.transpose(-2, -1)
        if is_causal:
            attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        if attn_mask is None:
            return self._keep(scores.softmax(-1)) @ value
        scores = scores.masked_fill(~attn_mask, -math.inf) if attn_mask.dtype == torch.bool else scores + attn_mask
        # A row that may attend to nothing gets zeros, as the fused kernel gives, not NaN.
        blind = (scores == -math.inf).all(-1, keepdim=True)
        return self._keep(scores.masked_fill(blind, 0.0).softmax(-1).masked_fill(blind, 0.0)) @ value

    def _multi_head(self, args: Any, kwargs: Any) -> tuple[Tensor, Tensor | None]:
        """torch's own multi-head attention: its inner kernel is a module global, so that is what is exchanged."""
        call = _MULTI_HEAD_SIGNATURE.bind(*args, **kwargs)
        call.apply_defaults()
        wanted, averaged = call.arguments["need_weights"], call.arguments["average_attn_weights"]
        call.arguments["need_weights"] = False
        functional.scaled_dot_product_attention = self._attend  # restored below
        try:
            out, _ = _MULTI_HEAD(*call.args, **call.kwargs)
        finally:
            functional.scaled_dot_product_attention = _SDPA
        if not wanted:
            return out, None
        name = self._inside[-1]
        maps = self.maps[name] if name in self.maps else self.heads[name].weights()
        return out, maps.mean(1) if averaged else maps

    def _keep_softmax(self, weights: Tensor, args: Any, kwargs: Any) -> Tensor:
        dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
        if weights.ndim < 3 or dim not in (-1, weights.ndim - 1):
            return weights
        self._softmax[self._inside[-1]] = weights.shape
        return self._keep(weights) if self._inside[-1] in self._whole else weights

    def _keep_product(self, out: Tensor, left: Tensor, right: Tensor) -> Tensor:
        """weights @ values, if it is that: of the same shape as the softmax, or the last product where there is none
        (attention that adds up instead of averaging has no softmax)."""
        name = self._inside[-1]
        if name not in self._factored or left.ndim < 3 or self._softmax.get(name, left.shape) != left.shape:
            return out
        return self._keep_heads(Heads(right, formed=left), out)

    def _keep_heads(self, heads: Heads, out: Tensor) -> Tensor:
        if self._differentiable and not out.requires_grad:
            out.requires_grad_()
        if not self._again():
            name = self._inside[-1]
            self.heads[name], self.outputs[name] = heads, out
        return out

    def _keep(self, weights: Tensor) -> Tensor:
        name = self._inside[-1]
        if name in self.maps and not self._again():
            raise BadInput(
                f"{name} ({type(self._parts[name]).__name__}) computed more than one softmax in a forward; which is its"
                " attention map is unclear. Trace its inner modules, or give `attention_layers` without it."
            )
        if self._differentiable and not weights.requires_grad:
            weights.requires_grad_()
        self.maps.setdefault(name, weights)
        return weights

    def _leave(self, name: str) -> None:
        if self._inside and self._inside[-1] == name:
            self._inside.pop()

    def _hide_nothing(self) -> None:
        """transformers' flash and flex kernels bypass torch's functions: switch such models for the while."""
        config = getattr(self._module, "config", None)
        used = getattr(config, "_attn_implementation", None)
        if used in _VISIBLE or not hasattr(self._module, "set_attn_implementation"):
            return
        switch: Any = self._module.set_attn_implementation
        switch("eager" if self._whole else "sdpa")
        self._undo.append(lambda: switch(used))


def _detached(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.detach()


def _wide(tensor: Tensor) -> Tensor:
    return tensor if tensor.element_size() >= 4 else tensor.float()
