"""CAMs against pytorch-grad-cam: equal maps on a CNN, a ViT and a Swin, after its own normalisation."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import pytest
import pytorch_grad_cam as peer
import torch
from pytorch_grad_cam.ablation_layer import AblationLayer, AblationLayerVit
from pytorch_grad_cam.utils.model_targets import ClassifierOutputTarget
from pytorch_grad_cam.utils.reshape_transforms import swinT_reshape_transform, vit_reshape_transform
from pytorch_grad_cam.utils.svd_on_activations import get_2d_projection_with_sign_correction
from torch import Tensor

from karat.explainers import cam
from karat.kernel.attribution import Attribution
from karat.probe import Session
from tests.explainers.architectures import SIDE, model, samples, targets

KEYS = ("resnet", "vit", "swin")
SINGLE = {
    cam.GradCam: peer.GradCAM,
    cam.GradCamPlusPlus: peer.GradCAMPlusPlus,
    cam.XGradCam: peer.XGradCAM,
    cam.LayerCam: peer.LayerCAM,
}
Maps = npt.NDArray[np.floating[Any]]


def session(key: str, n: int = 3) -> Session:
    return Session(model(key), samples(key, n), targets(key, n))


# Channels are asked about one by one: the CNN's second stage has 128 of 8×8, its last 512 of 2×2.
STAGE = {"resnet": "layer2", "vit": "vision.last", "swin": "vision.last"}


def normalised(found: Sequence[Attribution]) -> Maps:
    """Scaled to [0, 1], resized to the input, scaled again: what the peer does to its maps."""

    def scale(one: Maps) -> Maps:
        one = one - one.min()
        return one / (one.max() + 1e-7)

    maps = [a.visual for a in found]
    return np.stack([scale(cv2.resize(scale(m.astype(np.float32)), (SIDE, SIDE))) for m in maps if m is not None])


def reshape(key: str) -> Any:
    if key == "resnet":
        return None
    if key == "vit":
        return lambda tokens: vit_reshape_transform(tokens, SIDE // 16, SIDE // 16)
    return lambda tokens: swinT_reshape_transform(tokens, SIDE // 32, SIDE // 32)


def theirs(
    key: str, kind: Any, call: dict[str, Any] | None = None, layer_name: str = "vision.last", n: int = 3, **options: Any
) -> Maps:
    built = model(key)
    asked = session(key, n)
    layer = built.module.get_submodule(built.layers.get(layer_name, layer_name))
    classes = [ClassifierOutputTarget("abcde".index(t) if key == "resnet" else int(t)) for t in asked.targets]
    with kind(built.module, [layer], reshape_transform=reshape(key), **options) as method:
        smooth = {"aug_smooth": False, "eigen_smooth": False, **(call or {})}
        return np.asarray(method(asked.inputs.pixels, classes, **smooth))


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("ours", SINGLE, ids=lambda c: c.card.name)
def test_weighted_cams(key: str, ours: Any) -> None:
    np.testing.assert_allclose(normalised(ours()(session(key))), theirs(key, SINGLE[ours]), atol=1e-4)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("name", ["eigen", "eigengrad"])
def test_eigen_cams(key: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, kind, module = {
        "eigen": (cam.EigenCam, peer.EigenCAM, "eigen_cam"),
        "eigengrad": (cam.EigenGradCam, peer.EigenGradCAM, "eigen_grad_cam"),
    }[name]
    np.testing.assert_allclose(normalised(ours(sign="svd")(session(key))), theirs(key, kind), atol=1e-4)
    # The peer has the fixed sign too, for another of its methods.
    monkeypatch.setattr(f"pytorch_grad_cam.{module}.get_2d_projection", get_2d_projection_with_sign_correction)
    np.testing.assert_allclose(normalised(ours()(session(key))), theirs(key, kind), atol=1e-4)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("ours", [cam.GradCam, cam.LayerCam], ids=lambda c: c.card.name)
def test_eigen_smoothing(key: str, ours: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("base_cam", "layer_cam"):
        monkeypatch.setattr(f"pytorch_grad_cam.{module}.get_2d_projection", get_2d_projection_with_sign_correction)
    expected = theirs(key, SINGLE[ours], {"eigen_smooth": True})
    np.testing.assert_allclose(normalised(ours(eigen_smooth=True)(session(key))), expected, atol=1e-4)


@pytest.mark.parametrize("key", KEYS)
def test_augmentation_smoothing(key: str) -> None:
    found = cam.GradCam(aug_smooth=True)(session(key))
    assert found[0].passes == cam.GradCam(aug_smooth=True).passes == 6
    ours = np.stack([a.visual for a in found if a.visual is not None])
    np.testing.assert_allclose(ours, theirs(key, peer.GradCAM, {"aug_smooth": True}), atol=1e-4)


@pytest.mark.parametrize("key", KEYS)
def test_scorecam(key: str) -> None:
    found = cam.ScoreCam(layer=STAGE[key])(session(key, 2))
    np.testing.assert_allclose(normalised(found), theirs(key, peer.ScoreCAM, layer_name=STAGE[key], n=2), atol=1e-4)


@pytest.mark.parametrize("ratio", [1.0, 0.1])
@pytest.mark.parametrize("key", KEYS)
def test_ablationcam(key: str, ratio: float, monkeypatch: pytest.MonkeyPatch) -> None:
    # Many channels lie wholly on what stands out. The peer breaks such ties by an unstable sort.
    monkeypatch.setattr("pytorch_grad_cam.ablation_layer.np.argsort", partial(np.argsort, kind="stable"))
    layer = AblationLayer() if key == "resnet" else AblationLayerVit()
    expected = theirs(
        key, peer.AblationCAM, layer_name=STAGE[key], n=2, ablation_layer=layer, ratio_channels_to_ablate=ratio
    )
    found = cam.AblationCam(STAGE[key], ratio=ratio, variant="released")(session(key, 2))
    np.testing.assert_allclose(normalised(found), expected, atol=1e-4)


class Zeroing(AblationLayerVit):
    """The peer's layer with the paper's definition: an absent channel is 0."""

    def __call__(self, x: Tensor) -> Tensor:
        output: Tensor = self.activations.clone()
        for i in range(output.size(0)):
            output[i, ..., self.indices[i]] = 0
        return output


@pytest.mark.parametrize("key", ["vit", "swin"])
def test_ablationcam_of_the_paper(key: str) -> None:
    expected = theirs(key, peer.AblationCAM, ablation_layer=Zeroing())
    np.testing.assert_allclose(normalised(cam.AblationCam()(session(key))), expected, atol=1e-4)


def test_fullgrad() -> None:
    from karat.explainers.gradient import FullGrad

    asked = session("resnet")
    classes = [ClassifierOutputTarget("abcde".index(t)) for t in asked.targets]
    with peer.FullGrad(model("resnet").module, []) as method:
        expected = method(asked.inputs.pixels.clone(), classes)
    maps = np.stack([a.visual for a in FullGrad()(asked) if a.visual is not None])
    low, high = maps.min((1, 2), keepdims=True), maps.max((1, 2), keepdims=True)
    np.testing.assert_allclose((maps - low) / (high - low), expected, atol=1e-4)


def test_peer_left_no_trace() -> None:
    """The peer writes gradients into parameters and puts layers back by assignment; later tests share the models."""
    for key in KEYS:
        model(key).module.zero_grad(set_to_none=True)
        assert not any(isinstance(part, AblationLayer) for part in model(key).module.modules())
        assert torch.is_grad_enabled()
