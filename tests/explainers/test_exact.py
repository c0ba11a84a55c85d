"""Where the truth is known: linear models in closed form, sums that must add up, shifts that must carry over."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from karat.explainers import cam, gradient
from karat.explainers.gradient.baseline import noise
from karat.kernel.attribution import Attribution
from karat.kernel.sample import Sample
from karat.models.classifier import classifier
from karat.probe import Session
from tests.explainers import linear
from tests.explainers.architectures import model, samples, targets

TARGETS = ["1", "0", "2"]


def visual(found: list[Attribution]) -> Any:
    return np.stack([a.visual for a in found if a.visual is not None])


def close(found: Any, expected: Any) -> None:
    expected = np.asarray(expected)
    np.testing.assert_allclose(found, expected, atol=1e-5 * max(1.0, float(np.abs(expected).max())))


# ---- linear in pixels and words


def reader() -> tuple[Session, Tensor, Tensor, Tensor, Tensor]:
    """A session, its pixels and their weights (n, 3, H, W), embeddings and their weights (n, T, width)."""
    model = linear.Reader()
    session = Session(model, linear.samples(), TARGETS)  # type: ignore[arg-type]  # structural, with plain attributes
    classes = [int(t) for t in TARGETS]
    pixels = session.inputs.pixels
    seen = model.module.see.weight.detach()[classes].reshape(pixels.shape)
    tokens = session.inputs.tokens
    assert tokens is not None
    said = model.module.words(tokens).detach()
    return session, pixels, seen, said, model.module.read.weight.detach()[classes][:, None].expand_as(said)


def by_word(session: Session, tokens: Tensor) -> list[Any]:
    return [[float(tokens[i, a:b].sum()) for a, b in session.inputs.words[i]] for i in range(len(session.samples))]


def check(session: Session, found: list[Attribution], maps: Tensor, tokens: Tensor) -> None:
    close(visual(found), maps)
    for attribution, words in zip(found, by_word(session, tokens), strict=True):
        assert attribution.signed
        close(attribution.words, words)


def test_gradient_of_a_linear_model_is_its_weights() -> None:
    session, _, seen, _, read = reader()
    check(session, gradient.Gradient()(session), seen.sum(1), read.sum(-1))
    norms = gradient.GradientNorm()(session)
    close(visual(norms), seen.norm(dim=1))
    for attribution, words in zip(norms, by_word(session, read.norm(dim=-1)), strict=True):
        close(attribution.words, words)
    close(visual(gradient.SmoothGrad(samples=3)(session)), seen.sum(1))


def test_input_times_gradient_of_a_linear_model_is_its_terms() -> None:
    session, pixels, seen, said, read = reader()
    check(session, gradient.InputXGradient()(session), (pixels * seen).sum(1), (said * read).sum(-1))


@pytest.mark.parametrize("explainer", [gradient.IntegratedGradients(steps=3), gradient.DeepLift()])
@pytest.mark.parametrize(("baseline", "text"), [("zero", "zero"), ("black", "pad"), ("mean", "pad"), ("blur", "zero")])
def test_differences_to_a_baseline(explainer: Any, baseline: Any, text: Any) -> None:
    session, pixels, seen, said, read = reader()
    explainer = replace(explainer, baseline=baseline, text_baseline=text)
    if baseline == "mean":
        colours = [np.rint(s.image.mean((0, 1))).astype(np.uint8) for s in session.samples]
        empty = torch.stack([linear.to_pixels(c.reshape(1, 1, 3)) for c in colours])
    elif baseline == "blur":
        from PIL import Image, ImageFilter

        blurred = [Image.fromarray(s.image).filter(ImageFilter.GaussianBlur(30)) for s in session.samples]
        empty = torch.stack([linear.to_pixels(image) for image in blurred])
    else:
        empty = torch.zeros_like(pixels) - (baseline == "black") * 1.0
    module: Any = session.torch_model.module
    unsaid = module.words.weight.detach()[linear.PAD] * (text == "pad")
    keep = session.inputs.token_keep
    assert keep is not None
    tokens = ((said - unsaid) * read).sum(-1) * keep
    check(session, explainer(session), ((pixels - empty) * seen).sum(1), tokens)


def test_gradient_shap_of_a_linear_model_is_the_mean_difference() -> None:
    session, pixels, seen, said, read = reader()
    name = gradient.GradientShap.card.name
    empty = [noise(session, [(i, f"{name}/{k}/image") for k in range(5)]).mean(0) for i in range(3)]
    module: Any = session.torch_model.module
    tokens = ((said - module.words.weight.detach()[linear.PAD]) * read).sum(-1)
    found = gradient.GradientShap(samples=5, batch_size=4)(session)
    check(session, found, ((pixels - torch.stack(empty)) * seen).sum(1), tokens)


# ---- linear features under a linear head


def test_cams_of_a_linear_head() -> None:
    session = Session(linear.features(), linear.samples(), TARGETS)
    module: Any = session.torch_model.module
    with torch.no_grad():
        maps = module.maps(session.inputs.pixels)
    head = module.head.weight.detach()[[int(t) for t in TARGETS]]
    places = linear.SIDE**2
    slope = (head / places)[..., None, None]  # dy/dA, the same everywhere
    total = maps.sum((2, 3), keepdim=True)

    def cam_of(weights: Tensor) -> Tensor:
        return (weights * maps).sum(1).clamp(min=0)

    close(visual(cam.GradCam()(session)), cam_of(slope))
    close(visual(cam.GradCam(positive_gradients=True)(session)), cam_of(slope.clamp(min=0)))
    close(visual(cam.XGradCam()(session)), cam_of(slope))
    close(visual(cam.LayerCam()(session)), cam_of(slope.clamp(min=0)))
    alpha = slope**2 / (2 * slope**2 + total * slope**3 + 1e-6)
    close(visual(cam.GradCamPlusPlus()(session)), cam_of(places * alpha * slope.clamp(min=0)))
    score = (slope * maps).sum((1, 2, 3))[:, None, None, None]
    close(visual(cam.AblationCam()(session)), cam_of(total * slope / score))
    close(visual(gradient.GradXAct("maps")(session)), (slope * maps).sum(1))


def test_scorecam_of_a_linear_head() -> None:
    """Literally: every channel, scaled to [0, 1], multiplied in, and asked about alone."""
    session = Session(linear.features(), linear.samples(), TARGETS)
    module: Any = session.torch_model.module
    expected = []
    with torch.no_grad():
        for pixels, target in zip(session.inputs.pixels, TARGETS, strict=True):
            maps = module.maps(pixels[None])[0]
            scores = []
            for channel in maps:
                mask = (channel - channel.min()) / (channel.max() - channel.min())
                scores.append(module((pixels * mask)[None])[0, int(target)])
            expected.append((torch.stack(scores).softmax(0)[:, None, None] * maps).sum(0).clamp(min=0))
    found = cam.ScoreCam(batch_size=5)(session)
    close(visual(found), torch.stack(expected))
    assert [a.passes for a in found] == [1 + 4] * 3


def test_flat_channels_are_asked_about_once() -> None:
    built = linear.features()
    with torch.no_grad():
        built.module.get_submodule("maps").weight[1:3] = 0  # type: ignore[index]
    found = cam.ScoreCam()(Session(built, linear.samples(), TARGETS))
    assert [a.passes for a in found] == [1 + 3] * 3


# ---- parts that add up


STEPS = [("resnet", 100, 2e-2), ("vit", 50, 1e-3), ("gridnet", 300, 2e-2), ("llava", 200, 1e-2)]


@pytest.mark.parametrize(("key", "steps", "gap"), STEPS)
def test_integrated_gradients_add_up(key: str, steps: int, gap: float) -> None:
    """Visual and word parts together are y(x) - y(x'); ReLUs make kinks, so those models converge slowly."""
    session = Session(model(key), samples(key), targets(key))
    found = gradient.IntegratedGradients(steps=steps, batch_size=64)(session)
    full = session.inputs
    empty = replace(full, pixels=torch.zeros_like(full.pixels))
    if full.tokens is not None and full.token_keep is not None:
        pad = session.torch_model.neutral_token or 0
        empty = replace(empty, tokens=full.tokens.masked_fill(full.token_keep, pad))
    with torch.no_grad():
        ends = [session.torch_model.readout(inputs, session.targets) for inputs in (full, empty)]
    difference = (ends[0] - ends[1]).numpy()
    sums = [a.visual.sum() + (0 if a.words is None else a.words.sum()) for a in found if a.visual is not None]
    np.testing.assert_allclose(sums, difference, atol=gap * float(np.abs(difference).max()))


@pytest.mark.parametrize("baseline", ["zero", "blur"])
def test_deeplift_adds_up_on_a_relu_cnn(baseline: Any) -> None:
    """ResNet-18 as it is: each ReLU module called twice, overlapping max-pools after a ReLU, residual sums."""
    session = Session(model("resnet"), samples("resnet"), targets("resnet"))
    found = gradient.DeepLift(baseline=baseline)(session)
    empty = gradient.baseline.Baseline(baseline).pixels(session)
    with torch.no_grad():
        scores = [
            session.torch_model.readout(replace(session.inputs, pixels=pixels), session.targets)
            for pixels in (session.inputs.pixels, empty)
        ]
    np.testing.assert_allclose(visual(found).sum((1, 2)), scores[0] - scores[1], rtol=1e-4, atol=1e-4)


def test_full_gradients_add_up() -> None:
    """Srinivas and Fleuret 2019, Eq. 3: input and bias terms together are the score itself."""
    from karat.explainers.gradient.fullgrad import biases

    session = Session(model("resnet"), samples("resnet"), targets("resnet"))
    module: Any = session.torch_model.module
    held = biases(module)
    seen = session.trace(("pixels", *held), want=("gradients",))
    total = (session.inputs.pixels * seen.gradients["pixels"]).sum((1, 2, 3))
    for name, bias in held.items():
        total = total + (bias[None, :, None, None] * seen.gradients[name]).sum((1, 2, 3))
    total = total + module.fc.bias.detach()[["abcde".index(t) for t in session.targets]]
    torch.testing.assert_close(total, seen.scores, rtol=1e-4, atol=1e-4)


# ---- shifts


def ring(seed: int = 0) -> nn.Sequential:
    """Convolutions that wrap around, then a mean over places: shifting the input changes nothing but places."""
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1, padding_mode="circular"),
        nn.ReLU(),
        nn.Conv2d(6, 8, 3, padding=1, padding_mode="circular"),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 3),
    )


SHIFTING = [
    gradient.Gradient(),
    gradient.GradientNorm(),
    gradient.InputXGradient(),
    gradient.IntegratedGradients(steps=8),
    gradient.GuidedBackprop(),
    gradient.Deconvnet(),
    gradient.DeepLift(),
    gradient.FullGrad(),
    gradient.GradXAct(),
    cam.GradCam(),
    cam.GradCamPlusPlus(),
    cam.XGradCam(),
    cam.LayerCam(),
    cam.EigenCam(),
    cam.EigenGradCam(),
    cam.GradCam(eigen_smooth=True),
    cam.ScoreCam(),
    cam.AblationCam(),
    cam.AblationCam(ratio=0.5),
]


@pytest.mark.parametrize("explainer", SHIFTING, ids=repr)
def test_shifting_the_input_shifts_the_map(explainer: Any) -> None:
    built = classifier(ring(), linear.to_pixels, name="ring", layer="3")
    image = np.random.default_rng(3).integers(0, 256, (12, 12, 3), dtype=np.uint8)
    for down, right in ((0, 5), (3, 0), (7, 4)):
        moved = np.roll(image, (down, right), (0, 1))
        here, there = explainer(Session(built, [Sample("a", image), Sample("b", moved)], ["1", "1"]))
        assert np.any(here.visual)
        close(there.visual, np.roll(here.visual, (down, right), (0, 1)))


@pytest.mark.parametrize("key", ["llava", "gridnet"])
def test_contrast_equals_its_literal_twin(key: str) -> None:
    """creg2026 Eq. 7-9 with τ differentiated as one number, sample by sample, layer by layer."""
    from karat.explainers.gradient.activation import block_names

    candidates = ("yes", "no", "1", "2", "3")
    built, wanted = model(key), targets(key)
    wanted = ["yes", "2", "2"] if key == "llava" else wanted
    found = gradient.ContrastiveGradXAct(candidates=candidates)(Session(built, samples(key), wanted))
    for i, sample in enumerate(samples(key)):
        inputs = built.encode([sample])
        inputs.pixels.requires_grad_()
        with torch.no_grad():
            scores = {c: float(built.readout(inputs, [c])) for c in candidates}
        ranked = sorted(candidates, key=lambda c: -scores[c])
        rival = ranked[0] if ranked[0] != wanted[i] else ranked[1]
        blocks = block_names(built)
        maps = []
        for k in (-2, -3, -4, -5):
            if -k > len(blocks):
                continue
            states: list[Tensor] = []
            keep = built.module.get_submodule(blocks[k]).register_forward_hook(
                lambda _, __, out, states=states: states.append(out[0] if isinstance(out, tuple) else out)
            )
            tau = built.readout(inputs, [wanted[i]]) - built.readout(inputs, [rival])
            keep.remove()
            slopes = torch.autograd.grad(tau.sum(), states)
            # h is the same in both passes, so the gradient of τ with respect to it is the sum of the two.
            maps.append((states[0] * (slopes[0] + slopes[1])).sum(-1).abs()[0].detach())
        layout = built.layout(inputs)
        weights = torch.stack([m[list(layout.visual)].max() for m in maps]).softmax(0)
        relevance = (weights[:, None] * torch.stack(maps)).sum(0)
        close(found[i].visual, relevance[list(layout.visual)].reshape(layout.grid))
        tokens = relevance[list(layout.text)]
        close(found[i].words, [float(tokens[a:b].sum()) for a, b in inputs.words[0]])
