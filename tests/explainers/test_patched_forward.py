"""A part of a model that gives another output for the while: what hooks get, and what is left afterwards."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from karat.explainers.patched_forward import patched_forward


class Pair(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, str]:
        return x + 1, "rest"


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Identity(), Pair()

    def forward(self, x: Tensor) -> Tensor:
        output, rest = self.two(self.one(x))
        assert rest == "rest"
        return output


def test_hooks_get_the_changed_output() -> None:
    network, outputs = Network(), []
    network.one.register_forward_hook(lambda _, __, output: outputs.append(output))
    with patched_forward(network, "one", lambda output: output * 10):
        assert network(torch.tensor(2.0)) == 21
    assert outputs == [torch.tensor(20.0)]


def test_of_a_tuple_the_first_is_changed() -> None:
    network = Network()
    with patched_forward(network, "two", lambda output: -output):
        assert network(torch.tensor(2.0)) == -3


@pytest.mark.parametrize("own", [False, True])
def test_forward_is_put_back_whatever_happens(own: bool) -> None:
    network: Any = Network()
    if own:
        network.one.forward = lambda x: x + 5
    before = dict(network.one.__dict__)
    with pytest.raises(RuntimeError, match="stop"), patched_forward(network, "one", lambda output: output):
        raise RuntimeError("stop")
    assert network.one.__dict__ == before
