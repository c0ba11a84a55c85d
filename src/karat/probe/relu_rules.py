"""`ReluRules`: one forward pass whose ReLUs, however they are spelled, let gradients back by several rules in turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

PLAIN = ""  # the rule of ReLUs as they are
RELUS = frozenset((functional.relu, torch.relu, torch.relu_, Tensor.relu, Tensor.relu_))


class ReluRules(TorchFunctionMode):
    """Run the forward pass inside. Calls are exchanged rather than modules, so functional and repeated ReLUs count too
    and nothing is edited. Rules are those of `Request.relu`; the forward values and the plain gradient stay the same.
    """

    def __init__(self) -> None:
        super().__init__()
        self.met = 0
        self.rule = PLAIN

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in RELUS:
            self.met += 1
            return _Relu.apply(args[0] if args else (kwargs or {})["input"], self)
        return func(*args, **(kwargs or {}))

    def gradients(self, scores: Tensor, of: Tensor, rules: Sequence[str]) -> dict[str, Tensor]:
        """One backward pass per rule through the graph that the forward pass left, which is let go with the last."""
        gradients = {}
        for place, self.rule in enumerate(rules, 1):
            gradients[self.rule] = torch.autograd.grad(scores.sum(), of, retain_graph=place < len(rules))[0]
        return gradients


class _Relu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, by: ReluRules) -> Tensor:
        y = x.clamp(min=0)
        ctx.save_for_backward(y)
        ctx.by = by
        return y

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, None]:
        slope, rule = slopes[0], ctx.by.rule
        if rule == "deconvnet":
            return slope.clamp(min=0), None
        slope = torch.ops.aten.threshold_backward(slope, ctx.saved_tensors[0], 0)  # what a plain ReLU lets back
        return (slope.clamp_(min=0) if rule else slope), None
