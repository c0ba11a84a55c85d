"""Carrying out a trace: passes made, where the graph starts, what has no gradient, what is refused."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import pytest
import torch
from probe_worlds import small_cnn
from torch import Tensor, nn

from karat.kernel.errors import BadInput
from karat.probe import trace


@pytest.fixture
def pixels() -> Tensor:
    return torch.rand(3, 3, 12, 12, generator=torch.Generator().manual_seed(1))


def test_one_forward_and_no_more_than_asked(pixels: Tensor) -> None:
    module = small_cnn().eval()
    runs = []
    module.register_forward_hook(lambda *_: runs.append(1))
    with trace(module, pixels, [0, 1, 2], layers=["stem", "body"], want={"activations"}) as recording:
        assert list(recording.activations) == ["stem", "body"]
        assert len(recording.gradients) == len(recording.attention) == recording.backwards == 0
    assert len(runs) == 1
    with pytest.raises(BadInput, match="holds nothing"):
        recording.activations["body"]


class Explodes(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        raise RuntimeError("the backward pass went past the earliest recorded layer")


class Mined(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return Explodes.apply(x)


def test_backward_stops_at_the_earliest_recorded_layer(pixels: Tensor) -> None:
    module = nn.Sequential(OrderedDict(first=nn.Conv2d(3, 3, 1), mine=Mined(), rest=small_cnn()))
    with trace(module, pixels, [0, 1, 2], layers=["rest.body"]) as recording:
        assert recording.gradients["rest.body"].abs().sum() > 0
    with (
        pytest.raises(RuntimeError, match="earliest"),
        trace(module, pixels, [0, 1, 2], layers=["first"]),
    ):
        pass


def test_a_layer_that_the_score_ignores_has_zero_gradient(pixels: Tensor) -> None:
    class Branches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.unused = nn.Conv2d(3, 2, 1), nn.Conv2d(3, 2, 1)

        def forward(self, x: Tensor) -> Tensor:
            self.unused(x)
            return self.used(x).mean((2, 3))

    with trace(Branches(), pixels, [0, 1, 0], layers=["used", "unused"]) as recording:
        assert recording.gradients["used"].abs().sum() > 0
        assert recording.gradients["unused"].abs().sum() == 0


def test_unknown_want_and_bad_scores(pixels: Tensor) -> None:
    with pytest.raises(BadInput, match="can record activations"), trace(small_cnn(), pixels, [0], want={"weights"}):
        pass
    with (
        pytest.raises(BadInput, match=r"one score per sample.*\(3, 5\)"),
        trace(small_cnn(), pixels, lambda logits: logits, layers=["body"]),
    ):
        pass
    with (
        pytest.raises(BadInput, match="do not depend"),
        trace(small_cnn(), pixels, lambda logits: logits.detach().sum(1), layers=["body"]),
    ):
        pass
