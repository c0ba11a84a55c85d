"""The gradient family against captum, where it has the method, on CNNs and a ViT."""

from __future__ import annotations

from typing import Any

import captum.attr
import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor, nn

from karat.explainers import gradient
from karat.explainers.gradient.integrated import nodes
from karat.kernel.sample import Sample
from karat.models.classifier import Classifier, classifier
from karat.probe import Session
from tests.explainers.architectures import model, samples, targets

Maps = npt.NDArray[np.floating[Any]]


class Cnn(nn.Module):
    """Every ReLU is a module of its own, max-pools neither overlap nor follow a ReLU: so captum's DeepLIFT needs it.

    (Where they do, its hooks miss the pool's rule, or keep one gradient of overlapping windows. See `test_exact.py`.)
    """

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.Conv2d(8, 12, 3, padding=1),
            nn.MaxPool2d(2),
            nn.Conv2d(12, 16, 3, padding=1, stride=2),
            nn.ReLU(inplace=True),
            nn.Flatten(),
            nn.Linear(16 * 16, 24),
            nn.Tanh(),
            nn.Linear(24, 5),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)


@pytest.fixture(scope="module")
def cnn() -> Classifier:
    torch.manual_seed(0)
    module = Cnn()
    with torch.no_grad():
        module.body[1].running_mean.normal_(std=0.2)
    return classifier(module, pixels_of, name="cnn")


def pixels_of(image: Any) -> Tensor:
    return torch.from_numpy(np.array(image)).permute(2, 0, 1).float() / 127.5 - 1


def asked(cnn: Classifier) -> Session:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (3, 16, 16, 3), dtype=np.uint8)
    return Session(cnn, [Sample(f"s{i}", image) for i, image in enumerate(images)], ["1", "3", "0"])


def session(which: str, cnn: Classifier) -> tuple[Session, Tensor]:
    if which == "cnn":
        return asked(cnn), torch.tensor([1, 3, 0])
    return Session(model(which), samples(which), targets(which)), torch.tensor([1, 3, 0])


def visual(explainer: Any, session: Session) -> Maps:
    return np.stack([a.visual for a in explainer(session)])


def close(ours: Maps, theirs: Tensor) -> None:
    expected = theirs.detach().numpy()
    np.testing.assert_allclose(ours, expected, atol=1e-5 * max(1.0, float(np.abs(expected).max())))


@pytest.mark.parametrize("which", ["cnn", "vit", "resnet"])
def test_single_pass(which: str, cnn: Classifier) -> None:
    one, classes = session(which, cnn)
    pixels, module = one.inputs.pixels, one.torch_model.module
    slope = captum.attr.Saliency(module).attribute(pixels, classes, abs=False)
    close(visual(gradient.Gradient(), one), slope.sum(1))
    close(visual(gradient.Gradient("max"), one), slope.abs().amax(1))
    close(visual(gradient.GradientNorm(), one), slope.norm(dim=1))
    close(visual(gradient.InputXGradient(), one), captum.attr.InputXGradient(module).attribute(pixels, classes).sum(1))
    assert one.cost.traces == 1


@pytest.mark.parametrize("which", ["cnn", "resnet"])
def test_rules_at_relus(which: str, cnn: Classifier) -> None:
    one, classes = session(which, cnn)
    pixels, module = one.inputs.pixels, one.torch_model.module
    guided = captum.attr.GuidedBackprop(module).attribute(pixels, classes)
    close(visual(gradient.GuidedBackprop(), one), guided.sum(1))
    close(visual(gradient.Deconvnet(), one), captum.attr.Deconvolution(module).attribute(pixels, classes).sum(1))


@pytest.mark.parametrize("which", ["cnn", "resnet"])
def test_rules_share_one_forward(which: str, cnn: Classifier) -> None:
    together, _ = session(which, cnn)
    asked = [gradient.Gradient(), gradient.GuidedBackprop(), gradient.Deconvnet()]
    together.expect(asked)
    for explainer in asked:
        alone, _ = session(which, cnn)
        np.testing.assert_allclose(visual(explainer, together), visual(explainer, alone), rtol=1e-6, atol=1e-9)
    assert (together.cost.traces, together.cost.backwards) == (1, 3)


def test_guided_backprop_without_relus(cnn: Classifier) -> None:
    one, _ = session("vit", cnn)
    np.testing.assert_array_equal(
        visual(gradient.GuidedBackprop(require_relu=False), one), visual(gradient.Gradient(), one)
    )


RULES = {
    "gauss": "gausslegendre",
    "middle": "riemann_middle",
    "left": "riemann_left",
    "right": "riemann_right",
    "trapezoid": "riemann_trapezoid",
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("which", ["cnn", "vit"])
def test_integrated_gradients(which: str, rule: Any, cnn: Classifier) -> None:
    one, classes = session(which, cnn)
    theirs = captum.attr.IntegratedGradients(one.torch_model.module).attribute(
        one.inputs.pixels, target=classes, n_steps=7, method=RULES[rule]
    )
    if rule == "trapezoid":  # captum's weights add up to 6/7
        theirs = theirs * 7 / 6
    close(visual(gradient.IntegratedGradients(steps=7, rule=rule, batch_size=4), one), theirs.sum(1))


@pytest.mark.parametrize("rule", RULES)
def test_rules_integrate_a_line_exactly_or_nearly(rule: Any) -> None:
    places, weights = nodes(rule, 200)
    assert weights.sum() == pytest.approx(1)
    assert (weights * places**2).sum() == pytest.approx(1 / 3, abs=1e-2 if rule in ("left", "right") else 1e-4)


@pytest.mark.parametrize("baseline", ["zero", "white"])
def test_deeplift(baseline: Any, cnn: Classifier) -> None:
    one, classes = session("cnn", cnn)
    pixels = one.inputs.pixels
    empty = torch.zeros_like(pixels) if baseline == "zero" else torch.ones_like(pixels)
    theirs = captum.attr.DeepLift(one.torch_model.module).attribute(pixels, empty, target=classes)
    close(visual(gradient.DeepLift(baseline=baseline), one), theirs.sum(1))


def test_gradient_shap_is_expected_gradients(cnn: Classifier) -> None:
    """Captum on the same baselines and far more draws: equal within the spread of ours."""
    from karat.explainers.gradient.baseline import noise

    one, classes = session("cnn", cnn)
    few = gradient.GradientShap(samples=64)
    draws = [visual(few, Session(one.model, one.samples, one.targets, seed=seed)) for seed in range(12)]
    mean, error = np.mean(draws, axis=0), np.std(draws, axis=0, ddof=1) / np.sqrt(len(draws))
    theirs = []
    torch.manual_seed(0)
    for i in range(3):
        empty = noise(one, [(i, f"peer/{k}") for k in range(256)])
        found = captum.attr.GradientShap(one.torch_model.module).attribute(
            one.inputs.pixels[i : i + 1], empty, n_samples=2048, target=classes[i : i + 1]
        )
        theirs.append(found.sum(1)[0].detach().numpy())
    apart = (mean - np.stack(theirs)) / np.maximum(error, 1e-12)
    assert np.sqrt((apart**2).mean()) < 2.0
    assert np.corrcoef(mean.ravel(), np.stack(theirs).ravel())[0, 1] > 0.9
