"""CAMs of one trace: pytorch-grad-cam on a CNN, a ViT and a Swin, and linear heads in closed form."""

from __future__ import annotations

from typing import Any

import pytest
import pytorch_grad_cam as peer
import small_models
import torch
from architectures import session
from grad_cam_peer import KEYS, normalised, theirs
from numpy.testing import assert_allclose
from pytorch_grad_cam.utils.svd_on_activations import get_2d_projection_with_sign_correction
from small_models import TARGETS, close, visual
from torch import Tensor

from karat.explainers import cam
from karat.explainers.gradient import GradXAct
from karat.kernel.registry import registered
from karat.probe import Session
from tests.twins import cam_rules

PEERS = {
    cam.GradCam: peer.GradCAM,
    cam.GradCamPlusPlus: peer.GradCAMPlusPlus,
    cam.XGradCam: peer.XGradCAM,
    cam.LayerCam: peer.LayerCAM,
    cam.HiResCam: peer.HiResCAM,
}
EIGEN = {"eigen_cam": (cam.EigenCam, peer.EigenCAM), "eigen_grad_cam": (cam.EigenGradCam, peer.EigenGradCAM)}


def test_every_weighted_cam_has_a_peer() -> None:
    assert {cls for cls in registered("explainer").values() if issubclass(cls, cam.WeightedCam)} == set(PEERS)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("ours", PEERS, ids=lambda cls: cls.card.name)
def test_weighted_cams_equal_pytorch_grad_cams(key: str, ours: Any) -> None:
    assert_allclose(normalised(ours()(session(key))), theirs(key, PEERS[ours]), atol=1e-4)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("module", EIGEN)
def test_eigen_cams_equal_pytorch_grad_cams(key: str, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, kind = EIGEN[module]
    assert_allclose(normalised(ours(sign="svd")(session(key))), theirs(key, kind), atol=1e-4)
    # The peer has the fixed sign too, for another of its methods.
    monkeypatch.setattr(f"pytorch_grad_cam.{module}.get_2d_projection", get_2d_projection_with_sign_correction)
    assert_allclose(normalised(ours()(session(key))), theirs(key, kind), atol=1e-4)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("ours", [cam.GradCam, cam.LayerCam], ids=lambda cls: cls.card.name)
def test_eigen_smoothing_equals_pytorch_grad_cams(key: str, ours: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("base_cam", "layer_cam"):
        monkeypatch.setattr(f"pytorch_grad_cam.{module}.get_2d_projection", get_2d_projection_with_sign_correction)
    expected = theirs(key, PEERS[ours], {"eigen_smooth": True})
    assert_allclose(normalised(ours(eigen_smooth=True)(session(key))), expected, atol=1e-4)


def test_cams_of_a_linear_head_in_closed_form() -> None:
    features = Session(small_models.features(), small_models.samples(), TARGETS)
    module: Any = features.torch_model.module
    with torch.no_grad():
        maps = module.maps(features.inputs.pixels)
    head = module.head.weight.detach()[[int(target) for target in TARGETS]]
    places = small_models.SIDE**2
    slope = (head / places)[..., None, None]  # dy/dA, the same everywhere
    total = maps.sum((2, 3), keepdim=True)

    def cam_of(weights: Tensor) -> Tensor:
        return (weights * maps).sum(1).clamp(min=0)

    close(visual(cam.GradCam()(features)), cam_of(slope))
    close(visual(cam.GradCam(positive_gradients=True)(features)), cam_of(slope.clamp(min=0)))
    close(visual(cam.XGradCam()(features)), cam_of(slope))
    close(visual(cam.LayerCam()(features)), cam_of(slope.clamp(min=0)))
    close(visual(cam.HiResCam()(features)), cam_of(slope))
    alpha = slope**2 / (2 * slope**2 + total * slope**3 + 1e-6)
    close(visual(cam.GradCamPlusPlus()(features)), cam_of(places * alpha * slope.clamp(min=0)))
    score = (slope * maps).sum((1, 2, 3))[:, None, None, None]
    close(visual(cam.AblationCam()(features)), cam_of(total * slope / score.abs()))
    assert bool((score < 0).any())  # a class with a negative logit keeps its map
    close(visual(GradXAct("maps")(features)), (slope * maps).sum(1))


@pytest.mark.parametrize("key", KEYS)
def test_hirescam_equals_its_literal_twin(key: str) -> None:
    shared = session(key)
    maps = cam.HiResCam()(shared)
    trace = shared.trace(("vision.last",))
    for i, attribution in enumerate(maps):
        both = (trace.spatial("vision.last", kind)[i].detach().numpy() for kind in ("activations", "gradients"))
        assert_allclose(attribution.visual, cam_rules.hirescam(*both), rtol=1e-4, atol=1e-6)


def test_options_of_smoothing_are_named() -> None:
    """The second place is `positive_gradients`: nobody's smoothing may land there."""
    assert cam.GradCam("decoder.1", True) == cam.GradCam(layer="decoder.1", positive_gradients=True)
    with pytest.raises(TypeError, match="positional"):
        cam.LayerCam("decoder.1", True)  # type: ignore[misc]
