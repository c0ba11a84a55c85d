"""SSS at three thresholds under the six single-pass CAMs, beside a plain pytorch-grad-cam and NumPy loop, in one run.

python benchmarks/bench_semantic.py                # 200 images, ResNet-18, 224 px: CPU seconds, scores compared first
python benchmarks/bench_semantic.py --images 24    # a quick look; the ratio hardly depends on the number
python benchmarks/bench_semantic.py --memory       # peak memory for 40 and for 160 images
"""

from __future__ import annotations

import argparse
import contextlib
import io
import resource
import subprocess
import sys
from dataclasses import replace
from typing import Any

import cv2
import numpy as np
import pytorch_grad_cam as peer
import torch
import torchvision
from pytorch_grad_cam.utils.model_targets import ClassifierOutputTarget
from side_by_side import compared, in_turns, median, size

from assay.datasets.segmentation.scene import Scene, samples
from assay.explainers import cam
from assay.kernel.sample import Sample
from assay.models.classifier import Classifier, classifier
from assay.models.preprocessing import Preprocessing
from assay.probe import Session
from assay.protocols.semantic import Semantic

THRESHOLDS = (0.0, 0.3, 0.6)
BATCH = 16
SIX = [
    (cam.GradCam(), peer.GradCAM),
    (cam.GradCamPlusPlus(), peer.GradCAMPlusPlus),
    (cam.XGradCam(), peer.XGradCAM),
    (cam.LayerCam(), peer.LayerCAM),
    (cam.EigenCam(), peer.EigenCAM),
    (cam.EigenGradCam(), peer.EigenGradCAM),
]
# Compared with the sign that LAPACK gives, as the peer has it; timed as they are by default.
COMPARED = [replace(explainer, sign="svd") if hasattr(explainer, "sign") else explainer for explainer, _ in SIX]
LABELS = tuple(f"class {k}" for k in range(1000))


def scene(i: int) -> Scene:
    """Noise at 224 px with an ellipse for class i % 1000 and a strip of ignored pixels."""
    rng = np.random.default_rng(i)
    rows, columns = np.ogrid[:224, :224]
    centre, radius = rng.integers(60, 160, 2), rng.integers(30, 90, 2)
    inside = ((rows - centre[0]) / radius[0]) ** 2 + ((columns - centre[1]) / radius[1]) ** 2 < 1
    return Scene(f"{i}", rng.integers(0, 256, (224, 224, 3), dtype=np.uint8), {LABELS[i % 1000]: inside})


def images(start: int, stop: int) -> list[Sample]:
    return samples(scene, str, start, stop, each=1)


def model() -> Classifier:
    torch.manual_seed(0)
    return classifier(torchvision.models.resnet18(), Preprocessing((224, 224)), LABELS)


def ours(built: Classifier, n: int, explainers: list[Any]) -> Any:
    """(explainers, n, thresholds), through the protocol as a run has it."""
    protocol = Semantic(0.6, scale="range", thresholds=THRESHOLDS)
    found: list[list[Any]] = [[] for _ in explainers]
    for start in range(0, n, BATCH):
        batch = images(start, min(start + BATCH, n))
        session = Session(built, batch, protocol.targets(built, batch))
        session.expect(explainers)
        for explainer, parts in zip(explainers, found, strict=True):
            detail = protocol.score(session, explainer(session))["sss"].detail
            assert detail is not None
            parts.append(detail[:, : len(THRESHOLDS)])
        session.close()
    return np.array([np.concatenate(parts) for parts in found])


def theirs(built: Classifier, n: int) -> Any:
    """What a careful person writes in an afternoon: image by image, method by method."""
    layer = built.module.get_submodule("layer4")
    scores = np.empty((len(SIX), n, len(THRESHOLDS)))
    for k, (_, kind) in enumerate(SIX):
        with kind(built.module, [layer]) as method, contextlib.redirect_stderr(io.StringIO()):
            for i in range(n):
                [sample] = images(i, i + 1)
                pixels = built.encode([sample]).pixels
                shown = method(pixels, [ClassifierOutputTarget(i % 1000)])[0]
                mask = sample.regions[0].mask(224, 224)
                for t, threshold in enumerate(THRESHOLDS):
                    kept = np.where(shown >= threshold, shown, 0.0)
                    inside, outside, total = kept[mask].sum(), kept[~mask].sum(), kept.sum()
                    scores[k, i, t] = 1 - ((inside - outside) / total + 1) / 2 if total > 0 else np.nan
    return scores


def memory() -> None:
    """Peak resident memory of a fresh process, less what it holds before."""
    for n in (40, 160):
        command = [sys.executable, __file__, "--peak", str(n)]
        grown = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
        print(f"six CAMs and SSS at three thresholds on {n:3} images: {grown} MB above the start")


def peak(n: int) -> None:
    built = model()
    ours(built, BATCH, COMPARED[:1])  # the libraries' own buffers
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ours(built, n, [explainer for explainer, _ in SIX])
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)


def main(n: int) -> None:
    built = model()
    slow_scores = theirs(built, n)
    same = ours(built, n, COMPARED)
    assert (np.isnan(same) == np.isnan(slow_scores)).all()  # maps without any mass have no score, on both sides
    apart = float(np.nanmax(np.abs(same - slow_scores)))
    assert apart < 1e-4, f"scores differ by {apart}"
    taken = in_turns(lambda: ours(built, n, [explainer for explainer, _ in SIX]), lambda: theirs(built, n), rounds=1)
    fast, slow = map(median, taken)
    title = f"SSS of six CAMs at three thresholds, {n} images, ResNet-18"
    print(f"{title}: ours {fast:.1f} s, peer {slow:.1f} s, {slow / fast:.1f}×, scores within {apart:.0e}")
    compared(title, "pytorch-grad-cam and NumPy", *taken, f"scores within {apart:.0e}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=int, default=size(200, 4))
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--peak", type=int, default=None, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    if arguments.peak:
        peak(arguments.peak)
    elif arguments.memory:
        memory()
    else:
        main(arguments.images)
