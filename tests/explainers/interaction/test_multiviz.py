"""MultiViz against finite differences of the model itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from karat.explainers.interaction import MultiViz
from karat.kernel.sample import Sample
from karat.models.vlm import vlm
from karat.probe import Session, trace
from tests.models.tiny_llava import make_module, make_processor


@pytest.fixture(scope="module")
def session() -> Session:
    processor = make_processor()
    model = vlm(make_module(processor).double(), processor, name="tiny")
    rng = np.random.default_rng(0)
    texts = ["how many red circles?", "any blue squares left of red?"]
    samples = [Sample(f"s{i}", rng.integers(0, 256, (96, 96, 3), dtype=np.uint8), t) for i, t in enumerate(texts)]
    return Session(model, samples, ["yes", "2"])


def word_effects(session: Session, pixels: torch.Tensor) -> torch.Tensor:
    """(n, T): e · dy/de of every text token, by a plain first-order trace at these pixels."""
    inputs = replace(session.inputs, pixels=pixels)
    with trace(session.torch_model, inputs, session.targets, ["words"], attention_layers=()) as recorded:
        product = (recorded.activations["words"] * recorded.gradients["words"]).sum(-1)
    return (
        product
        if product.shape[1] == inputs.tokens.shape[1]
        else product[:, list(session.torch_model.layout(inputs).text)]
    )


def test_equals_finite_differences(session: Session) -> None:
    attributions = MultiViz()(session)
    pixels = session.inputs.pixels
    step = 1e-2  # the decoder normalises in float32, so smaller steps drown in its rounding
    spans = session.inputs.words
    for i, y, x in ((0, 10, 20), (1, 50, 77), (1, 3, 3)):
        total, each = 0.0, np.zeros(len(spans[i]))
        for channel in range(3):
            sides = []
            for sign in (1, -1):
                moved = pixels.clone()
                moved[i, channel, y, x] += sign * step
                effects = word_effects(session, moved)[i]
                sides.append(torch.stack([effects[a:b].sum() for a, b in spans[i]]))
            up, down = sides
            total += abs(float(up.abs().sum() - down.abs().sum())) / (2 * step)
            each += np.abs((up - down).numpy()) / (2 * step)
        assert attributions[i].visual[y, x] == pytest.approx(total, rel=0.03, abs=1e-5)
        np.testing.assert_allclose(attributions[i].pairs[y * 96 + x], each, rtol=0.05, atol=1e-5)


def test_words_are_the_size_of_their_effects(session: Session) -> None:
    attributions = MultiViz(pairs=False)(session)
    effects = word_effects(session, session.inputs.pixels)
    for i, spans in enumerate(session.inputs.words):
        expected = [abs(float(effects[i, a:b].sum())) for a, b in spans]
        np.testing.assert_allclose(attributions[i].words, expected, rtol=1e-5)
        assert attributions[i].pairs is None
        assert attributions[i].visual.shape == (96, 96)


def test_nothing_is_left_behind(session: Session) -> None:
    MultiViz()(session)
    assert all(parameter.grad is None for parameter in session.torch_model.module.parameters())
    assert not session.inputs.pixels.requires_grad
