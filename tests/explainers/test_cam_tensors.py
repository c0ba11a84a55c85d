"""What CAMs run the model again for: views, masked images, ablated channels; pytorch-grad-cam and literal loops."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import pytorch_grad_cam as peer
import small_models
import torch
from architectures import model, session
from grad_cam_peer import KEYS, normalised, theirs
from pytorch_grad_cam.ablation_layer import AblationLayer, AblationLayerVit
from small_models import TARGETS, close, visual
from torch import Tensor

from karat.explainers.cam import LEAST, NEGATIVE, VIEWS, AblationCam, GradCam, ScoreCam
from karat.explainers.cam_tensors import FACTORS
from karat.probe import Session

# Channels are asked about one by one: the CNN's second stage has 128 of 8×8, its last 512 of 2×2.
STAGE = {"resnet": "layer2", "vit": "vision.last", "swin": "vision.last"}


@pytest.mark.parametrize("key", KEYS)
def test_augmentation_smoothing_equals_pytorch_grad_cams(key: str) -> None:
    attributions = GradCam(aug_smooth=True)(session(key))
    assert attributions[0].passes == GradCam(aug_smooth=True).passes == VIEWS == 2 * len(FACTORS)
    np.testing.assert_allclose(visual(attributions), theirs(key, peer.GradCAM, {"aug_smooth": True}), atol=1e-4)


@pytest.mark.parametrize("key", KEYS)
def test_scorecam_equals_pytorch_grad_cams(key: str) -> None:
    ours = ScoreCam(layer=STAGE[key])(session(key, 2))
    np.testing.assert_allclose(normalised(ours), theirs(key, peer.ScoreCAM, layer_name=STAGE[key], n=2), atol=1e-4)


def test_no_masked_batch_is_larger_than_asked_for() -> None:
    sizes: list[int] = []
    shared = session("vit")
    shared.trace(("vision.last",))
    handle = model("vit").module.register_forward_pre_hook(lambda _, args: sizes.append(len(args[0])))
    try:
        attributions = ScoreCam(batch_size=4)(shared)
    finally:
        handle.remove()
    assert max(sizes) == 4
    assert sum(sizes) == sum(attribution.passes - 1 for attribution in attributions)


@pytest.mark.parametrize("ratio", [1.0, 0.1])
@pytest.mark.parametrize("key", KEYS)
def test_released_ablationcam_equals_pytorch_grad_cams(key: str, ratio: float, monkeypatch: pytest.MonkeyPatch) -> None:
    # Many channels lie wholly on what stands out. The peer breaks such ties by an unstable sort.
    monkeypatch.setattr("pytorch_grad_cam.ablation_layer.np.argsort", partial(np.argsort, kind="stable"))
    layer = AblationLayer() if key == "resnet" else AblationLayerVit()
    expected = theirs(
        key, peer.AblationCAM, layer_name=STAGE[key], n=2, ablation_layer=layer, ratio_channels_to_ablate=ratio
    )
    ours = AblationCam(STAGE[key], ratio=ratio, variant="released")(session(key, 2))
    np.testing.assert_allclose(normalised(ours), expected, atol=1e-4)


class Zeroing(AblationLayerVit):
    """The peer's layer with the paper's definition: an absent channel is 0."""

    def __call__(self, x: Tensor) -> Tensor:
        output: Tensor = self.activations.clone()
        for i in range(output.size(0)):
            output[i, ..., self.indices[i]] = 0
        return output


class BySize(peer.AblationCAM):
    """The peer's weights, divided by |y| where it divides by y."""

    def get_cam_weights(self, pixels: Tensor, layer: Any, targets: Any, activations: Any, grads: Any) -> Any:
        with torch.no_grad():
            scores = [float(target(output)) for target, output in zip(targets, self.model(pixels), strict=True)]
        weights = super().get_cam_weights(pixels, layer, targets, activations, grads)
        return weights * np.sign(scores)[:, None]


@pytest.mark.parametrize("key", ["vit", "swin"])
def test_ablationcam_of_the_paper_sets_channels_to_zero(key: str) -> None:
    expected = theirs(key, BySize, ablation_layer=Zeroing())
    np.testing.assert_allclose(normalised(AblationCam()(session(key))), expected, atol=1e-4)


def test_the_map_of_a_class_is_the_same_whatever_the_level_of_its_logit() -> None:
    """Every logit lower by 20: the falls are the same, so the best cells must stay the best."""
    shared = session("vit")
    before = visual(AblationCam()(shared))
    bias: Any = model("vit").module.get_submodule("head").bias
    with torch.no_grad():
        bias -= 20.0
    try:
        after = visual(AblationCam()(session("vit")))
    finally:
        with torch.no_grad():
            bias += 20.0
    for one, other in zip(before, after, strict=True):
        np.testing.assert_allclose(one / one.max(), other / other.max(), atol=1e-3)


def test_cams_say_how_signed_their_layer_is() -> None:
    for key, signed in (("resnet", False), ("vit", True)):
        notes = GradCam()(session(key))[0].notes
        assert (notes[NEGATIVE] > 0.3) == signed
        assert (notes[LEAST] < -0.4) == signed


def test_scorecam_equals_its_literal_twin() -> None:
    """Every channel, scaled to [0, 1], multiplied in, and asked about alone."""
    features = Session(small_models.features(), small_models.samples(), TARGETS)
    module: Any = features.torch_model.module
    expected = []
    with torch.no_grad():
        for pixels, target in zip(features.inputs.pixels, TARGETS, strict=True):
            maps = module.maps(pixels[None])[0]
            scores = []
            for channel in maps:
                mask = (channel - channel.min()) / (channel.max() - channel.min())
                scores.append(module((pixels * mask)[None])[0, int(target)])
            expected.append((torch.stack(scores).softmax(0)[:, None, None] * maps).sum(0).clamp(min=0))
    attributions = ScoreCam(batch_size=5)(features)
    close(visual(attributions), torch.stack(expected))
    assert [attribution.passes for attribution in attributions] == [1 + 4] * 3


def test_flat_channels_are_asked_about_once() -> None:
    built = small_models.features()
    with torch.no_grad():
        built.module.get_submodule("maps").weight[1:3] = 0  # type: ignore[index]
    attributions = ScoreCam()(Session(built, small_models.samples(), TARGETS))
    assert [attribution.passes for attribution in attributions] == [1 + 3] * 3


def test_the_peer_left_no_layers_behind() -> None:
    """It puts ablated layers back by assignment; later tests share the models."""
    for key in KEYS:
        assert not any(isinstance(part, AblationLayer) for part in model(key).module.modules())
        assert all(parameter.grad is None for parameter in model(key).module.parameters())
    assert torch.is_grad_enabled()
