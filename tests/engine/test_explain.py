"""`karat.explain`: one map of one sample; by default of a method that says something about the model."""

from __future__ import annotations

import numpy as np
import pytest

import karat
from karat.engine.explain import DEFAULT
from karat.kernel.card import CAPABILITIES
from karat.kernel.errors import CapabilityMissing
from karat.kernel.registry import find
from karat.models.blackbox import blackbox


def corner(images: np.ndarray, texts: list[str]) -> list[dict[str, float]]:
    return [{"yes": p, "no": 1 - p} for p in images[:, :8, :8].mean((1, 2, 3)) / 255]


def test_the_default_is_no_control_and_needs_only_scores() -> None:
    card = find("explainer", DEFAULT).card
    assert not card.is_control
    assert card.needs <= {"scores"} <= set(CAPABILITIES)


def test_the_default_shows_what_the_answer_rests_on() -> None:
    image = np.full((32, 32, 3), 250, np.uint8)
    attribution = karat.explain(blackbox(corner), karat.Sample("one", image), absence="black")
    assert attribution.visual is not None
    h, w = attribution.visual.shape
    assert attribution.visual[: h // 4, : w // 4].mean() > 4 * np.abs(attribution.visual[h // 2 :, w // 2 :]).mean()


def test_what_a_model_cannot_serve_is_refused_before_work() -> None:
    with pytest.raises(CapabilityMissing, match="cam/gradcam"):
        karat.explain(blackbox(corner), karat.Sample("one", np.zeros((8, 8, 3), np.uint8)), "cam/gradcam")
