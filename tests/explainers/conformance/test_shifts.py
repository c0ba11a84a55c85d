"""Shifting the input shifts the map: every gradient and CAM on a network that wraps around."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import small_models

from karat.explainers.cam import AblationCam, GradCam
from karat.explainers.gradient import ContrastiveGradXAct, GradientShap, IntegratedGradients, SmoothGrad
from karat.kernel.registry import registered
from karat.kernel.sample import Sample
from karat.models.classifier import classifier
from karat.probe import Session

NOISY_OR_ATTENDING = (SmoothGrad, GradientShap, ContrastiveGradXAct)  # noise stays where it is; a CNN has no attention
EXPLAINERS: list[Any] = [
    *(
        cls()
        for name, cls in registered("explainer").items()
        if name.startswith(("gradient/", "cam/")) and cls not in NOISY_OR_ATTENDING
    ),
    IntegratedGradients(steps=8),
    GradCam(eigen_smooth=True),
    AblationCam(ratio=0.5),
]


@pytest.mark.parametrize("explainer", EXPLAINERS, ids=repr)
def test_shifting_the_input_shifts_the_map(explainer: Any) -> None:
    built = classifier(small_models.ring(), small_models.to_pixels, name="ring", layer="3")
    image = np.random.default_rng(3).integers(0, 256, (12, 12, 3), dtype=np.uint8)
    for down, right in ((0, 5), (3, 0), (7, 4)):
        moved = np.roll(image, (down, right), (0, 1))
        here, there = explainer(Session(built, [Sample("a", image), Sample("b", moved)], ["1", "1"]))
        assert np.any(here.visual)
        small_models.close(there.visual, np.roll(here.visual, (down, right), (0, 1)))
