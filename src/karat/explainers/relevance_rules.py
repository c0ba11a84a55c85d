"""While `Propagation` is entered, a model's backward carries relevance instead of gradients. Nothing of it is edited.

Calls are exchanged rather than modules, so one set of rules serves timm, torchvision, transformers (CLIP, Llama, Qwen2
and what is built like them) and our own networks, however they spell their layers:

- norms: the deviation is held fixed (layer_norm, rms_norm, and any norm written with rsqrt);
- activations: the identity rule, all relevance goes through;
- products of two values that both come from the input: the uniform rule, half to each;
- attention: softmax(q k^T) v is two products and a softmax. attnlrp expands the softmax to first order; cplrp holds the
  weights fixed, so that v has all the relevance.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from karat.explainers.relevance_backward import (
    Counted,
    Identity,
    LayerNorm,
    Scaled,
    Softmax,
    Tally,
    gamma_conv2d,
    gamma_linear,
    halves,
    normalised,
)
from karat.explainers.to_attribution import wide
from karat.models.structure import attention_modules, submodule

_SDPA = functional.scaled_dot_product_attention
_MULTI_HEAD = functional.multi_head_attention_forward
_MULTI_HEAD_SIGNATURE = inspect.signature(_MULTI_HEAD)
_SIGMOID = (torch.sigmoid, Tensor.sigmoid, functional.sigmoid)
_ELEMENTWISE = (
    *_SIGMOID, torch.tanh, Tensor.tanh, functional.tanh, torch.relu, Tensor.relu, functional.relu, functional.gelu,
    functional.silu, functional.mish, functional.elu, functional.selu, functional.celu, functional.leaky_relu,
    functional.softplus, functional.hardswish, functional.hardtanh, functional.relu6, functional.hardsigmoid,
)  # fmt: skip
_NOT_ZERO_AT_ZERO = (*_SIGMOID, functional.softplus, functional.hardsigmoid)
_SOFTMAX = (torch.softmax, torch.special.softmax, Tensor.softmax, functional.softmax)
_PRODUCT = (torch.matmul, torch.bmm, torch.mul, Tensor.matmul, Tensor.bmm, Tensor.mul, Tensor.__matmul__)


class Propagation(TorchFunctionMode):
    """`hold_attention` is cplrp, its absence attnlrp. `gammas` (convolutions, linear maps) hold inside `vision`, or
    everywhere if it is None. `n` is the batch size; `tally` says afterwards what was lost.
    """

    def __init__(
        self,
        module: nn.Module,
        n: int,
        hold_attention: bool,
        gammas: tuple[float, float] | None = None,
        vision: str | None = None,
    ) -> None:
        super().__init__()
        self.tally = Tally(n)
        self._module, self._vision, self._gammas, self._hold = module, vision, gammas, hold_attention
        self._attending: list[str] = []
        self._in_vision = vision is None
        self._undo: list[Callable[[], None]] = []
        self._rules: dict[Any, Callable[..., Any]] = {
            **dict.fromkeys(_ELEMENTWISE, self._activation),
            **dict.fromkeys(_SOFTMAX, self._softmax),
            **dict.fromkeys(_PRODUCT, self._product),
            **dict.fromkeys((torch.div, Tensor.div, Tensor.__truediv__), self._quotient),
            **dict.fromkeys((functional.layer_norm, torch.layer_norm), self._layer_norm),
            **dict.fromkeys((functional.rms_norm, torch.rms_norm), self._rms_norm),
            **dict.fromkeys((torch.rsqrt, Tensor.rsqrt), lambda f, *a, **k: f(*a, **k).detach()),
            functional.normalize: self._normalize,
            torch.einsum: self._einsum,
            _SDPA: lambda _, *a, **k: self._attend(*a, **k),
            _MULTI_HEAD: lambda _, *a, **k: self._multi_head(a, k),
        }
        if gammas is not None:
            self._rules |= {
                functional.linear: self._linear,
                torch.conv2d: self._conv2d,
                functional.conv2d: self._conv2d,
                torch.conv3d: self._conv3d,
                functional.conv3d: self._conv3d,
            }

    def __enter__(self) -> Propagation:
        for name in attention_modules(self._module):
            self._hook(submodule(self._module, name), partial(self._attending.append, name), self._attending.pop)
        if self._vision is not None:
            tower = submodule(self._module, self._vision)
            self._hook(tower, partial(self._enter_vision, True), partial(self._enter_vision, False))
        super().__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        super().__exit__(kind, error, at)
        while self._undo:
            self._undo.pop()()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        rule = self._rules.get(func)
        if rule is None or not torch.is_grad_enabled():
            return func(*args, **(kwargs or {}))
        return rule(func, *args, **(kwargs or {}))

    def _hook(self, part: nn.Module, enter: Callable[[], object], leave: Callable[[], object]) -> None:
        entered = part.register_forward_pre_hook(lambda *_: _done(enter()))
        left = part.register_forward_hook(lambda *_: _done(leave()), always_call=True)
        self._undo += [entered.remove, left.remove]

    def _enter_vision(self, inside: bool) -> None:
        self._in_vision = inside

    def _activation(self, func: Any, input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if not input.requires_grad:
            return func(input, *args, **kwargs)
        with torch.no_grad():
            y = func(input, *args, **{key: value for key, value in kwargs.items() if key != "inplace"})
        if self._attending and self._hold and func in _SIGMOID:
            return y  # attention that adds up: its weights are sigmoids
        ruled: Tensor = Identity.apply(input, y, func not in _NOT_ZERO_AT_ZERO)
        return ruled

    def _softmax(self, func: Any, input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        dim = kwargs.get("dim", args[0] if args else None)
        if not (self._attending and input.requires_grad and input.ndim >= 3 and dim in (-1, input.ndim - 1)):
            return func(input, *args, **kwargs)
        with torch.no_grad():
            s: Tensor = func(input, *args, **kwargs)
        return s if self._hold else Softmax.apply(input, s, self.tally, self.tally.call(self._attending[-1]))

    def _product(self, func: Any, left: Any, right: Any, **kwargs: Any) -> Tensor:
        if _both(left, right):
            left, right = halves(left), halves(right)
        product: Tensor = func(left, right, **kwargs)
        return self._watched(product) if self._attending and func not in (torch.mul, Tensor.mul) else product

    def _einsum(self, func: Any, equation: str, *operands: Tensor) -> Tensor:
        return (
            func(equation, *map(halves, operands))
            if len(operands) == 2 and _both(*operands)
            else func(equation, *operands)
        )

    def _quotient(self, func: Any, left: Any, right: Any, **kwargs: Any) -> Tensor:
        return func(left, right.detach() if _both(left, right) else right, **kwargs)

    def _layer_norm(
        self,
        _: Any,
        input: Tensor,
        shape: Any,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        eps: float = 1e-5,
        cudnn: bool = True,
    ) -> Tensor:
        y: Tensor = LayerNorm.apply(input, list(shape), weight, bias, eps)
        return y

    def _rms_norm(self, func: Any, input: Tensor, shape: Any, weight: Tensor | None = None, eps: Any = None) -> Tensor:
        limit = torch.finfo(input.dtype).eps if eps is None else eps
        axes = tuple(range(-len(shape), 0))
        with torch.no_grad():
            inverse = (wide(input).square().mean(axes, keepdim=True) + limit).rsqrt().to(input.dtype)
        return input * inverse if weight is None else input * inverse * weight

    def _normalize(
        self, _: Any, input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: None = None
    ) -> Tensor:
        return normalised(input, p, dim, eps)

    def _linear(self, func: Any, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        if not (self._in_vision and input.requires_grad and self._gammas and self._gammas[1]):
            return func(input, weight, bias)
        return gamma_linear(input, weight, bias, self._gammas[1])

    def _conv2d(
        self,
        func: Any,
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:
        if not (self._in_vision and input.requires_grad and self._gammas and self._gammas[0]):
            return func(input, weight, bias, stride, padding, dilation, groups)
        options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        return gamma_conv2d(input, weight, bias, self._gammas[0], options)

    def _conv3d(self, func: Any, input: Tensor, weight: Tensor, bias: Tensor | None = None, *rest: Any) -> Tensor:
        """One patch at a time, as towers for images and films embed them: a linear map of the whole patch."""
        whole = input.shape[1:] == weight.shape[1:]
        if not (whole and self._in_vision and input.requires_grad and self._gammas and self._gammas[0]):
            return func(input, weight, bias, *rest)
        flat = gamma_linear(input.flatten(1), weight.flatten(1), bias, self._gammas[0])
        return flat.reshape(*flat.shape, 1, 1, 1)

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """The kernel stays fused. Uniform rule twice: half of a head's relevance to v, a quarter each to q and k.

        At the softmax half of Σ o·do arrives and half of Σ q·dq goes on, so what is lost needs no map.
        """
        if not any(tensor.requires_grad for tensor in (query, key, value)):
            return _SDPA(query, key, value, *args, **kwargs)
        if self._hold:
            return self._watched(_SDPA(query.detach(), key.detach(), value, *args, **kwargs))
        at = self.tally.call(self._attending[-1] if self._attending else "attention")
        query = Counted.apply(query, 0.25, -0.5, self.tally, at)
        out = _SDPA(query, Scaled.apply(key, 0.25), halves(value), *args, **kwargs)
        counted: Tensor = Counted.apply(out, 1, 0.5, self.tally, at)
        return counted

    def _multi_head(self, args: Any, kwargs: Any) -> tuple[Tensor, None]:
        """torch's own multi-head attention: its inner kernel is a module global, so that is what is exchanged."""
        call = _MULTI_HEAD_SIGNATURE.bind(*args, **kwargs)
        call.apply_defaults()
        call.arguments["need_weights"] = False  # its values are never used: they would only feed a hook
        functional.scaled_dot_product_attention = self._attend  # restored below
        try:
            out, _ = _MULTI_HEAD(*call.args, **call.kwargs)
        finally:
            functional.scaled_dot_product_attention = _SDPA
        return out, None

    def _watched(self, out: Tensor) -> Tensor:
        at = self._attending[-1] if self._attending else "attention"
        watched: Tensor = Counted.apply(out, 1, 0.0, self.tally, (at, 0))  # nothing is lost here
        return watched


def _both(left: Any, right: Any) -> bool:
    return isinstance(left, Tensor) and isinstance(right, Tensor) and left.requires_grad and right.requires_grad


def _done(_: object) -> None:
    """Hooks that return something would replace what they hook."""
