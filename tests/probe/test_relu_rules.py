"""ReLUs that let gradients back by another rule, however they are spelt."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from karat.probe.relu_rules import PLAIN, ReluRules

SPELLINGS: dict[str, Callable[[Tensor], Tensor]] = {
    "function": functional.relu,
    "torch": torch.relu,
    "method": Tensor.relu,
    "in place": lambda x: (x * 1.0).relu_(),
    "module": torch.nn.ReLU(),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_rules_of_one_relu_by_hand(spelling: str) -> None:
    """y = sum of c relu(x): plain lets c back where x > 0, guided where c > 0 too, deconvnet where c > 0 alone."""
    x = torch.tensor([[2.0, 2.0, -2.0, -2.0]], requires_grad=True)
    c = torch.tensor([3.0, -3.0, 3.0, -3.0])
    with ReluRules() as rules:
        score = (SPELLINGS[spelling](x) * c).sum()
    assert score.item() == 2 * 3 - 2 * 3
    gradients = rules.gradients(score[None], x, [PLAIN, "guided", "deconvnet"])
    assert gradients[PLAIN].tolist() == [[3.0, -3.0, 0.0, 0.0]]
    assert gradients["guided"].tolist() == [[3.0, 0.0, 0.0, 0.0]]
    assert gradients["deconvnet"].tolist() == [[3.0, 0.0, 3.0, 0.0]]
    assert rules.met == 1


def test_outside_nothing_is_exchanged() -> None:
    with ReluRules() as rules:
        pass
    x = torch.tensor([-1.0, 1.0], requires_grad=True)
    [slope] = torch.autograd.grad((-functional.relu(x)).sum(), x)
    assert slope.tolist() == [0.0, -1.0]
    assert rules.met == 0
