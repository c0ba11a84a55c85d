"""CAMs beside pytorch-grad-cam's, on the same models and inputs, CPU seconds in one run. Results are compared first.

python benchmarks/bench_cams.py              # six single-pass CAMs, ResNet-18 and ViT-tiny, 224 px, batch 16
python benchmarks/bench_cams.py --asking     # ScoreCAM and AblationCAM too: minutes
python benchmarks/bench_cams.py --memory     # integrated gradients: peak memory against batch size and steps
"""

from __future__ import annotations

import argparse
import contextlib
import io
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import pytorch_grad_cam as peer
import timm
import torch
import torchvision
from pytorch_grad_cam.ablation_layer import AblationLayer, AblationLayerVit
from pytorch_grad_cam.utils.model_targets import ClassifierOutputTarget
from pytorch_grad_cam.utils.reshape_transforms import vit_reshape_transform
from pytorch_grad_cam.utils.svd_on_activations import get_2d_projection_with_sign_correction
from side_by_side import compared, in_turns, median, resident, size

from karat.explainers import cam
from karat.explainers.gradient import IntegratedGradients
from karat.kernel.sample import Sample
from karat.models.classifier import Classifier, classifier
from karat.models.preprocessing import Preprocessing
from karat.probe import Session


class EigenCAM(peer.EigenCAM):
    """The peer's, with the rule for the sign that it offers and that is ours by default."""

    def get_cam_image(self, *arguments: Any) -> Any:
        _, _, _, activations, *_ = arguments
        return get_2d_projection_with_sign_correction(activations)


class EigenGradCAM(peer.EigenGradCAM):
    def get_cam_image(self, *arguments: Any) -> Any:
        _, _, _, activations, gradients, *_ = arguments
        return get_2d_projection_with_sign_correction(gradients * activations)


SIX: list[tuple[Any, Any]] = [
    (cam.GradCam(), peer.GradCAM),
    (cam.GradCamPlusPlus(), peer.GradCAMPlusPlus),
    (cam.XGradCam(), peer.XGradCAM),
    (cam.LayerCam(), peer.LayerCAM),
    (cam.EigenCam(), EigenCAM),
    (cam.EigenGradCam(), EigenGradCAM),
]


def models() -> dict[str, Classifier]:
    torch.manual_seed(0)
    resnet = torchvision.models.resnet18()
    vit = timm.create_model("vit_tiny_patch16_224")
    torch.nn.init.normal_(vit.head.weight)
    return {
        name: classifier(module, Preprocessing((224, 224)), name=name)
        for name, module in (("ResNet-18", resnet), ("ViT-tiny", vit))
    }


def images(n: int) -> list[Sample]:
    rng = np.random.default_rng(0)
    return [Sample(f"s{i}", rng.integers(0, 256, (224, 224, 3), dtype=np.uint8)) for i in range(n)]


def resized(maps: list[Any]) -> Any:
    """The peer's own last steps, so that both sides end with the same arrays."""
    done = []
    for heat in maps:
        for wanted in (None, (224, 224)):
            heat = heat if wanted is None else cv2.resize(np.float32(heat), wanted)
            heat = heat - heat.min()
            heat = heat / (heat.max() + 1e-7)
        done.append(heat)
    return np.stack(done)


def ours(model: Classifier, n: int, explainers: list[Any]) -> list[Any]:
    session = Session(model, images(n), ["1"] * n)
    session.expect(explainers)
    return [resized([attribution.visual for attribution in explainer(session)]) for explainer in explainers]


def theirs(model: Classifier, n: int, kinds: list[tuple[Any, dict[str, Any]]]) -> list[Any]:
    pixels = model.encode(images(n)).pixels
    layer = model.module.get_submodule(model.layers["vision.last"])
    reshape = vit_reshape_transform if model.name == "ViT-tiny" else None
    maps = []
    for kind, options in kinds:
        with kind(model.module, [layer], reshape_transform=reshape, **options) as method, quiet():
            maps.append(method(pixels, [ClassifierOutputTarget(1)] * n, aug_smooth=False, eigen_smooth=False))
    return maps


@contextlib.contextmanager
def quiet() -> Any:
    with contextlib.redirect_stderr(io.StringIO()):
        yield


def compare(name: str, mine: Callable[[], list[Any]], peers: Callable[[], list[Any]], rounds: int) -> None:
    apart = max(float(np.abs(a - b).max()) for a, b in zip(mine(), peers(), strict=True))
    assert apart < 1e-3, f"{name}: maps differ by {apart}"
    taken = in_turns(mine, peers, rounds=rounds, warm=True)
    fast, slow = map(median, taken)
    print(f"{name:42} ours {fast:7.2f} s   peer {slow:7.2f} s   {slow / fast:6.1f}×   maps within {apart:.0e}")
    compared(name, "pytorch-grad-cam", *taken, f"maps within {apart:.0e}")


def single_pass(built: dict[str, Classifier]) -> None:
    n = size(16, 2)
    for name, model in built.items():
        compare(
            f"six single-pass CAMs, {name}, batch {n}",
            lambda model=model: ours(model, n, [explainer for explainer, _ in SIX]),
            lambda model=model: theirs(model, n, [(kind, {}) for _, kind in SIX]),
            rounds=3,
        )
        [bare] = in_turns(lambda model=model: Session(model, images(n), ["1"] * n).trace(("vision.last",)), rounds=3)
        print(f"{'  of which encoding and the one trace':42}      {median(bare):7.2f} s")


def asking(built: dict[str, Classifier]) -> None:
    for name, model in built.items():
        layer = AblationLayerVit() if name == "ViT-tiny" else AblationLayer()
        pairs = [
            ("ScoreCAM", cam.ScoreCam(), (peer.ScoreCAM, {})),
            ("AblationCAM", cam.AblationCam(variant="released"), (peer.AblationCAM, {"ablation_layer": layer})),
        ]
        for title, explainer, kind in pairs:
            compare(
                f"{title}, {name}, one image",
                lambda model=model, explainer=explainer: ours(model, 1, [explainer]),
                lambda model=model, kind=kind: theirs(model, 1, [kind]),
                rounds=1,
            )


def memory() -> None:
    """Peak resident memory of a fresh process, less what it holds before the explainer is called."""
    for batch, steps in size(((4, 20), (4, 60), (16, 20), (16, 60)), ((4, 2),)):
        command = [sys.executable, __file__, "--peak", str(batch), str(steps)]
        grown = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
        print(f"integrated gradients, ResNet-18, 8 images, {steps:3} steps, batch_size {batch:2}: {grown} MB")


def peak(batch: int, steps: int) -> None:
    session = Session(models()["ResNet-18"], images(8), ["1"] * 8)
    session.model.answer(session.samples[:1])  # the libraries' own buffers
    assert len(session.inputs.pixels) == 8
    before = resident("VmHWM")
    IntegratedGradients(steps=steps, batch_size=batch)(session)
    print(round(resident("VmHWM") - before))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--asking", action="store_true")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--peak", type=int, nargs=2, default=None, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    if arguments.peak:
        peak(*arguments.peak)
    else:
        built = models()
        single_pass(built)
        if arguments.asking:
            asking(built)
        if arguments.memory:
            memory()
