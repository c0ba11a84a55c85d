"""The gamma rule against explicit shares: what it conserves, what it bounds, outputs that cancel."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from relevance_networks import CASES, Network, session_of
from torch import Tensor, nn

from karat.explainers.relevance import CpLrp
from karat.kernel.sample import Sample
from karat.models.classifier import classifier
from karat.models.preprocessing import Preprocessing
from karat.probe import Session
from tests.twins import relevance_rules as twin


@pytest.mark.parametrize("gamma", [0.05, 1.0])
def test_gamma_rule_equals_explicit_shares(gamma: float) -> None:
    """A linear map and a convolution of pixels, against contributions spelt out; then no bias, so all is conserved."""

    class Linear(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.one, self.two = nn.Linear(3 * 8 * 12, 6, bias=False), nn.Linear(6, 3, bias=False)
            self.double()

        def forward(self, pixels: Tensor) -> Tensor:
            return self.two(self.one(pixels.flatten(1)))

    network = Linear()
    session = session_of(network)
    inner = network.one(session.inputs.pixels.flatten(1)).detach().numpy()
    for i, attribution in enumerate(CpLrp(gammas=(0.0, gamma))(session)):
        target = int(session.targets[i])
        at_output = np.zeros((1, 3))
        at_output[0, target] = attribution.notes["score"]
        weights = [part.weight.detach().numpy().T for part in (network.one, network.two)]
        relevance = twin.gamma_linear(inner[i : i + 1], weights[1], at_output, gamma)
        pixels = session.inputs.pixels[i].flatten()[None].numpy()
        relevance = twin.gamma_linear(pixels, weights[0], relevance, gamma).reshape(3, 8, 12).sum(0)
        np.testing.assert_allclose(attribution.visual, relevance, rtol=1e-6, atol=1e-9)


def test_gamma_on_convolutions_conserves_and_bounds() -> None:
    network = Network(*CASES["layer norm, gelu"])
    for attribution in CpLrp(gammas=(0.25, 0.05))(session_of(network)):
        assert attribution.visual is not None
        assert attribution.visual.sum() == pytest.approx(attribution.notes["score"], rel=1e-6)
    plain, calm = CpLrp()(session_of(network))[0], CpLrp(gammas=(0.25, 0.05))(session_of(network))[0]
    assert np.abs(plain.visual - calm.visual).max() > 1e-3 * np.abs(plain.visual).max()


def test_gamma_survives_outputs_that_cancel() -> None:
    """Contributions that cancel exactly give an output of 0, by which plain shares would divide."""

    class Cancels(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 2, 4, 4, bias=False)
            with torch.no_grad():
                self.conv.weight.copy_(torch.tensor([1.0, -1.0, 0.0]).view(1, 3, 1, 1).expand_as(self.conv.weight))
            self.head = nn.Linear(12, 3)

        def forward(self, pixels: Tensor) -> Tensor:
            return self.head(self.conv(pixels).flatten(1))

    grey = Sample("grey", np.full((8, 12, 3), 90, dtype=np.uint8))
    model = classifier(Cancels(), Preprocessing((8, 12), mean=(0.5,) * 3, std=(0.5,) * 3))
    [attribution] = CpLrp(gammas=(0.25, 0.05))(Session(model, [grey], ["1"]))
    assert attribution.visual is not None
    assert np.isfinite(attribution.visual).all()
