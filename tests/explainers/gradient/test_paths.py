"""Integrated, sampled and expected gradients: closed forms, captum, parts that add up, baselines."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import architectures
import captum.attr
import numpy as np
import pytest
import torch
from PIL import Image, ImageFilter
from small_models import close, cnn_session, linear, to_pixels, visual

from karat.explainers.gradient import DeepLift, GradientShap, IntegratedGradients
from karat.explainers.gradient.paths import nodes, noise_images
from karat.kernel.errors import BadInput
from karat.probe import Session

CLASSES = torch.tensor([1, 3, 0])


@pytest.mark.parametrize("explainer", [IntegratedGradients(steps=3), DeepLift()])
@pytest.mark.parametrize(("baseline", "text"), [("zero", "zero"), ("black", "pad"), ("mean", "pad"), ("blur", "zero")])
def test_a_linear_model_gives_differences_to_its_baseline(explainer: Any, baseline: Any, text: Any) -> None:
    given = linear()
    explainer = replace(explainer, baseline=baseline, text_baseline=text)
    samples = given.session.samples
    if baseline == "mean":
        colours = [np.rint(sample.image.mean((0, 1))).astype(np.uint8) for sample in samples]
        empty = torch.stack([to_pixels(colour.reshape(1, 1, 3)) for colour in colours])
    elif baseline == "blur":
        blurred = [Image.fromarray(sample.image).filter(ImageFilter.GaussianBlur(30)) for sample in samples]
        empty = torch.stack([to_pixels(image) for image in blurred])
    else:
        empty = torch.zeros_like(given.pixels) - (baseline == "black") * 1.0
    keep = given.session.inputs.token_keep
    assert keep is not None
    words = ((given.embeddings - given.pad * (text == "pad")) * given.word_weights).sum(-1) * keep
    given.check(explainer(given.session), ((given.pixels - empty) * given.pixel_weights).sum(1), words)


def test_gradient_shap_of_a_linear_model_is_the_mean_difference() -> None:
    given = linear()
    name = GradientShap.card.name
    draws = [[(i, f"{name}/{k}/image") for k in range(5)] for i in range(3)]
    empty = torch.stack([noise_images(given.session, each).mean(0) for each in draws])
    words = ((given.embeddings - given.pad) * given.word_weights).sum(-1)
    attributions = GradientShap(samples=5, batch_size=4)(given.session)
    given.check(attributions, ((given.pixels - empty) * given.pixel_weights).sum(1), words)


# ---- captum


RULES = {
    "gauss": "gausslegendre",
    "middle": "riemann_middle",
    "left": "riemann_left",
    "right": "riemann_right",
    "trapezoid": "riemann_trapezoid",
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("key", ["cnn", "vit"])
def test_integrated_gradients_equal_captums(key: str, rule: Any) -> None:
    session = cnn_session() if key == "cnn" else architectures.session(key)
    theirs = captum.attr.IntegratedGradients(session.torch_model.module).attribute(
        session.inputs.pixels, target=CLASSES, n_steps=7, method=RULES[rule]
    )
    if rule == "trapezoid":  # captum's weights add up to 6/7
        theirs = theirs * 7 / 6
    ours = IntegratedGradients(steps=7, rule=rule, batch_size=4)(session)
    close(visual(ours), theirs.sum(1))


@pytest.mark.parametrize("rule", RULES)
def test_rules_integrate_a_parabola_exactly_or_nearly(rule: Any) -> None:
    places, weights = nodes(rule, 200)
    assert weights.sum() == pytest.approx(1)
    assert (weights * places**2).sum() == pytest.approx(1 / 3, abs=1e-2 if rule in ("left", "right") else 1e-4)


def test_a_trapezoid_has_two_ends() -> None:
    with pytest.raises(BadInput, match="'trapezoid' needs steps of 2 or more; got 1"):
        IntegratedGradients(steps=1, rule="trapezoid")


def test_gradient_shap_is_expected_gradients() -> None:
    """Captum on the same baselines and far more draws: equal within the spread of ours."""
    session = cnn_session()
    few = GradientShap(samples=64)
    draws = [visual(few(Session(session.model, session.samples, session.targets, seed=seed))) for seed in range(12)]
    mean, error = np.mean(draws, axis=0), np.std(draws, axis=0, ddof=1) / np.sqrt(len(draws))
    theirs = []
    torch.manual_seed(0)
    for i in range(3):
        empty = noise_images(session, [(i, f"peer/{k}") for k in range(256)])
        expected = captum.attr.GradientShap(session.torch_model.module).attribute(
            session.inputs.pixels[i : i + 1], empty, n_samples=2048, target=CLASSES[i : i + 1]
        )
        theirs.append(expected.sum(1)[0].detach().numpy())
    apart = (mean - np.stack(theirs)) / np.maximum(error, 1e-12)
    assert np.sqrt((apart**2).mean()) < 2.0
    assert np.corrcoef(mean.ravel(), np.stack(theirs).ravel())[0, 1] > 0.9


# ---- parts that add up


@pytest.mark.parametrize(
    ("key", "steps", "gap"), [("resnet", 100, 2e-2), ("vit", 50, 1e-3), ("gridnet", 300, 2e-2), ("llava", 200, 1e-2)]
)
def test_integrated_gradients_add_up(key: str, steps: int, gap: float) -> None:
    """Visual and word parts together are y(x) - y(x'); ReLUs make kinks, so those models converge slowly."""
    session = architectures.session(key)
    attributions = IntegratedGradients(steps=steps, batch_size=64)(session)
    full = session.inputs
    empty = replace(full, pixels=torch.zeros_like(full.pixels))
    if full.tokens is not None and full.token_keep is not None:
        pad = session.torch_model.neutral_token or 0
        empty = replace(empty, tokens=full.tokens.masked_fill(full.token_keep, pad))
    with torch.no_grad():
        ends = [session.torch_model.readout(inputs, session.targets) for inputs in (full, empty)]
    difference = (ends[0] - ends[1]).numpy()
    sums = [each.visual.sum() + (0 if each.words is None else each.words.sum()) for each in attributions]
    np.testing.assert_allclose(sums, difference, atol=gap * float(np.abs(difference).max()))
