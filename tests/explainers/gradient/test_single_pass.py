"""Gradients of one pass: closed forms of linear models, captum, and full gradients that add up."""

from __future__ import annotations

from typing import Any

import architectures
import captum.attr
import numpy as np
import pytest
import pytorch_grad_cam as peer
import torch
from pytorch_grad_cam.utils.model_targets import ClassifierOutputTarget
from small_models import close, cnn_session, linear, visual

from karat.explainers.gradient import (
    Deconvnet,
    FullGrad,
    Gradient,
    GradientNorm,
    GuidedBackprop,
    InputXGradient,
    SmoothGrad,
)
from karat.explainers.gradient.single_pass import biases
from karat.probe import Session

CLASSES = torch.tensor([1, 3, 0])


def session_of(key: str) -> Session:
    return cnn_session() if key == "cnn" else architectures.session(key)


def test_gradient_of_a_linear_model_is_its_weights() -> None:
    given = linear()
    given.check(Gradient()(given.session), given.pixel_weights.sum(1), given.word_weights.sum(-1))
    norms = given.pixel_weights.norm(dim=1), given.word_weights.norm(dim=-1)
    given.check(GradientNorm()(given.session), *norms, signed=False)
    close(visual(SmoothGrad(samples=3)(given.session)), given.pixel_weights.sum(1))


def test_input_times_gradient_of_a_linear_model_is_its_terms() -> None:
    given = linear()
    terms = (given.pixels * given.pixel_weights).sum(1), (given.embeddings * given.word_weights).sum(-1)
    given.check(InputXGradient()(given.session), *terms)


# ---- captum


@pytest.mark.parametrize("key", ["cnn", "vit", "resnet"])
def test_input_gradients_equal_captums(key: str) -> None:
    session = session_of(key)
    pixels, module = session.inputs.pixels, session.torch_model.module
    slope = captum.attr.Saliency(module).attribute(pixels, CLASSES, abs=False)
    close(visual(Gradient()(session)), slope.sum(1))
    close(visual(Gradient("max")(session)), slope.abs().amax(1))
    close(visual(GradientNorm()(session)), slope.norm(dim=1))
    product = captum.attr.InputXGradient(module).attribute(pixels, CLASSES)
    close(visual(InputXGradient()(session)), product.sum(1))
    assert session.cost.traces == 1


@pytest.mark.parametrize("key", ["cnn", "resnet"])
def test_rules_at_relus_equal_captums(key: str) -> None:
    session = session_of(key)
    pixels, module = session.inputs.pixels, session.torch_model.module
    guided = captum.attr.GuidedBackprop(module).attribute(pixels, CLASSES)
    close(visual(GuidedBackprop()(session)), guided.sum(1))
    deconvolved = captum.attr.Deconvolution(module).attribute(pixels, CLASSES)
    close(visual(Deconvnet()(session)), deconvolved.sum(1))


@pytest.mark.parametrize("key", ["cnn", "resnet"])
def test_rules_at_relus_share_one_forward(key: str) -> None:
    together = session_of(key)
    explainers: list[Any] = [Gradient(), GuidedBackprop(), Deconvnet()]
    together.expect(explainers)
    for explainer in explainers:
        alone = explainer(session_of(key))
        np.testing.assert_allclose(visual(explainer(together)), visual(alone), rtol=1e-6, atol=1e-9)
    assert (together.cost.traces, together.cost.backwards) == (1, 3)


def test_guided_backprop_without_relus_is_the_gradient() -> None:
    session = session_of("vit")
    plain = visual(Gradient()(session))
    np.testing.assert_array_equal(visual(GuidedBackprop(require_relu=False)(session)), plain)


# ---- full gradients


def test_full_gradients_add_up() -> None:
    """Srinivas and Fleuret 2019, Eq. 3: input and bias terms together are the score itself."""
    session = architectures.session("resnet")
    module: Any = session.torch_model.module
    by_layer = biases(module)
    trace = session.trace(("pixels", *by_layer), want=("gradients",))
    total = (session.inputs.pixels * trace.gradients["pixels"]).sum((1, 2, 3))
    for name, bias in by_layer.items():
        total = total + (bias[None, :, None, None] * trace.gradients[name]).sum((1, 2, 3))
    total = total + module.fc.bias.detach()[["abcde".index(target) for target in session.targets]]
    torch.testing.assert_close(total, trace.scores, rtol=1e-4, atol=1e-4)


def test_fullgrad_equals_pytorch_grad_cams() -> None:
    session = architectures.session("resnet")
    classes = [ClassifierOutputTarget("abcde".index(target)) for target in session.targets]
    with peer.FullGrad(session.torch_model.module, []) as method:
        expected = method(session.inputs.pixels.clone(), classes)
    session.torch_model.module.zero_grad(set_to_none=True)  # the peer writes gradients into parameters
    maps = visual(FullGrad()(session))
    low, high = maps.min((1, 2), keepdims=True), maps.max((1, 2), keepdims=True)
    np.testing.assert_allclose((maps - low) / (high - low), expected, atol=1e-4)
