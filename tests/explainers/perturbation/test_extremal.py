"""Extremal perturbations find a small part that is enough, with gradients and without."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from cell_worlds import white, world
from torch import Tensor, nn

from karat.explainers.perturbation import Extremal
from karat.kernel.errors import BadInput
from karat.kernel.sample import Sample
from karat.models.classifier import classifier
from karat.models.preprocessing import Preprocessing
from karat.probe import Session


def corner(bright: np.ndarray, words: list[set[str]]) -> np.ndarray:
    """Cells 0, 1 and 4 decide."""
    return 1 / (1 + np.exp(4 - 3 * bright[:, [0, 1, 4]].sum(axis=1)))


def test_search_by_sampling_needs_scores_only() -> None:
    model, function = world(corner)
    extremal = Extremal(areas=(3 / 16,), cells=4, budget=960, absence="black")
    attributions = extremal(Session(model, [white(i=0), white(i=1)], ["yes"] * 2))
    for attribution in attributions:
        assert set(np.argsort(-attribution.visual.ravel())[:3]) == {0, 1, 4}
        assert attribution.visual.sum() == pytest.approx(3)  # the area is held exactly
        assert attribution.passes == 960
        assert attribution.words is None
    assert len(set(function.inputs)) <= 2 * 960


class Corner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.tensor(3.0))

    def forward(self, pixels: Tensor) -> Tensor:
        bright = torch.nn.functional.avg_pool2d(pixels.mean(1), 4).flatten(1)
        score = self.gain * bright[:, [0, 1, 4]].sum(1) - 4
        return torch.stack([score, torch.zeros_like(score)], dim=1)


def test_search_by_gradient_holds_the_area_and_leaves_the_model_alone() -> None:
    model = classifier(Corner(), Preprocessing((16, 16), (0.0,) * 3, (1.0,) * 3), labels=["yes", "no"])
    samples = [Sample(f"w{i}", white().image) for i in range(2)]
    attributions = Extremal(areas=(3 / 16,), cells=4, steps=300, absence="black", rate=0.05)(
        Session(model, samples, ["yes"] * 2)
    )
    for attribution in attributions:
        assert set(np.argsort(-attribution.visual.ravel())[:3]) == {0, 1, 4}
        assert attribution.visual.sum() == pytest.approx(3, abs=0.3)
    assert model.module.gain.requires_grad
    assert model.module.gain.grad is None


def test_sizes_are_averaged() -> None:
    model, _ = world(corner)
    one = Extremal(areas=(1 / 16, 4 / 16), cells=4, budget=640, absence="black")(Session(model, [white()], ["yes"]))[0]
    assert one.visual.sum() == pytest.approx(2.5)


def test_a_budget_that_the_areas_use_up_is_refused() -> None:
    with pytest.raises(BadInput, match="2 areas need a budget of 128 or more; got 64"):
        Extremal(areas=(0.1, 0.2), budget=64)
    assert Extremal(areas=(0.1, 0.2), budget=64, search="gradient").passes == 1600
