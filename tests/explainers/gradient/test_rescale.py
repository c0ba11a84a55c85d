"""DeepLIFT's Rescale rule: captum's where that is right, and differences that add up on ReLU CNNs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import architectures
import captum.attr
import numpy as np
import pytest
import torch
from small_models import close, cnn_session, visual

from karat.explainers.gradient import DeepLift
from karat.explainers.gradient.paths import Baseline


@pytest.mark.parametrize("baseline", ["zero", "white"])
def test_deeplift_equals_captums(baseline: Any) -> None:
    session = cnn_session()
    pixels = session.inputs.pixels
    empty = torch.zeros_like(pixels) if baseline == "zero" else torch.ones_like(pixels)
    theirs = captum.attr.DeepLift(session.torch_model.module).attribute(pixels, empty, target=torch.tensor([1, 3, 0]))
    close(visual(DeepLift(baseline=baseline)(session)), theirs.sum(1))


@pytest.mark.parametrize("baseline", ["zero", "blur"])
def test_deeplift_adds_up_on_a_relu_cnn(baseline: Any) -> None:
    """ResNet-18 as it is: each ReLU module called twice, overlapping max-pools after a ReLU, residual sums."""
    session = architectures.session("resnet")
    maps = visual(DeepLift(baseline=baseline)(session))
    empty = Baseline(baseline).pixels(session)
    with torch.no_grad():
        scores = [
            session.torch_model.readout(replace(session.inputs, pixels=pixels), session.targets)
            for pixels in (session.inputs.pixels, empty)
        ]
    np.testing.assert_allclose(maps.sum((1, 2)), scores[0] - scores[1], rtol=1e-4, atol=1e-4)
