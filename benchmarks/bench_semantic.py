"""SSS at three thresholds under the six single-pass CAMs, beside a plain pytorch-grad-cam and NumPy loop, in one run.

python benchmarks/bench_semantic.py                # 200 images, ResNet-18, 224 px: CPU seconds, scores compared first
python benchmarks/bench_semantic.py --images 24    # a quick look; the ratio hardly depends on the number
python benchmarks/bench_semantic.py --memory       # and peak memory for 40 and for 160 images

Images are drawn and encoded before the clock starts, for both; the peer has its masks drawn too.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import cv2
import numpy as np
import torch
import torchvision
from bench_cams import SIX, quiet
from pytorch_grad_cam.utils.model_targets import ClassifierOutputTarget
from side_by_side import compared, in_turns, median, resident, size

from karat.datasets.segmentation.scene import Scene, samples
from karat.kernel.sample import Sample
from karat.models.classifier import Classifier, classifier
from karat.models.preprocessing import Preprocessing
from karat.probe import Session
from karat.protocols.semantic import Semantic

THRESHOLDS = (0.0, 0.3, 0.6)
BATCH = 16
Batch = tuple[list[Sample], Any]  # and what the model makes of their images
LABELS = tuple(f"class {k}" for k in range(1000))


def scene(i: int) -> Scene:
    """Noise at 224 px with an ellipse for class i % 1000 and a strip of ignored pixels."""
    rng = np.random.default_rng(i)
    rows, columns = np.ogrid[:224, :224]
    centre, radius = rng.integers(60, 160, 2), rng.integers(30, 90, 2)
    inside = ((rows - centre[0]) / radius[0]) ** 2 + ((columns - centre[1]) / radius[1]) ** 2 < 1
    return Scene(f"{i}", rng.integers(0, 256, (224, 224, 3), dtype=np.uint8), {LABELS[i % 1000]: inside})


def model() -> Classifier:
    torch.manual_seed(0)
    return classifier(torchvision.models.resnet18(), Preprocessing((224, 224)), LABELS)


def batches(built: Classifier, n: int) -> Iterator[Batch]:
    for start in range(0, n, BATCH):
        batch = samples(scene, str, start, min(start + BATCH, n), each=1)
        yield batch, built.encode(batch)


def ours(built: Classifier, drawn: Iterable[Batch]) -> Any:
    """(explainers, n, thresholds), through the protocol as a run has it."""
    protocol = Semantic(0.6, scale="range", thresholds=THRESHOLDS)
    explainers = [explainer for explainer, _ in SIX]
    maps: list[list[Any]] = [[] for _ in explainers]
    for batch, inputs in drawn:
        session = Session(built, batch, protocol.targets(built, batch))
        session.__dict__["inputs"] = inputs
        session.expect(explainers)
        for explainer, parts in zip(explainers, maps, strict=True):
            detail = protocol.score(session, explainer(session))["sss"].detail
            assert detail is not None
            parts.append(detail[:, : len(THRESHOLDS)])
        session.close()
    return np.array([np.concatenate(parts) for parts in maps])


def theirs(built: Classifier, pixels: torch.Tensor, masks: list[Any]) -> Any:
    """What a careful person writes in an afternoon: image by image, method by method."""
    layer = built.module.get_submodule("layer4")
    scores = np.empty((len(SIX), len(masks), len(THRESHOLDS)))
    for k, (_, kind) in enumerate(SIX):
        with kind(built.module, [layer]) as method, quiet():
            for i, mask in enumerate(masks):
                heat = method(pixels[i : i + 1], [ClassifierOutputTarget(i % 1000)])[0]
                for t, threshold in enumerate(THRESHOLDS):
                    kept = np.where(heat >= threshold, heat, 0.0)
                    inside, outside, total = kept[mask].sum(), kept[~mask].sum(), kept.sum()
                    scores[k, i, t] = 1 - ((inside - outside) / total + 1) / 2 if total > 0 else np.nan
    return scores


def memory() -> None:
    """Peak resident memory of a fresh process, less that of one batch."""
    for n in size((40, 160), (4, 8)):
        command = [sys.executable, __file__, "--peak", str(n)]
        grown = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
        print(f"six CAMs and SSS at three thresholds on {n:3} images: {grown} MB above one batch of {BATCH}")


def peak(n: int) -> None:
    built = model()
    ours(built, batches(built, BATCH))  # which loads the libraries' own buffers too
    before = resident("VmHWM")
    ours(built, batches(built, n))
    print(round(resident("VmHWM") - before))


def main(n: int, turns: int) -> None:
    built = model()
    drawn = list(batches(built, n))
    pixels = torch.cat([inputs.pixels for _, inputs in drawn])
    masks = [sample.regions[0].mask(224, 224) for batch, _ in drawn for sample in batch]
    mine, slow_scores = ours(built, drawn), theirs(built, pixels, masks)
    assert (np.isnan(mine) == np.isnan(slow_scores)).all()  # maps without any mass have no score, on both sides
    off = np.abs(mine - slow_scores)
    apart, nearly_all = float(np.nanmax(off)), float(np.nanquantile(off, 0.99))
    assert nearly_all < 1e-5, f"scores differ by {nearly_all}"
    assert apart < 1e-3, f"scores differ by {apart}"  # a pixel whose value is the threshold, but for rounding
    taken = in_turns(lambda: ours(built, drawn), lambda: theirs(built, pixels, masks), rounds=turns, warm=True)
    fast, slow = map(median, taken)
    title = f"SSS of six CAMs at three thresholds, {n} images, ResNet-18"
    print(f"{title}: ours {fast:.1f} s, peer {slow:.1f} s, {slow / fast:.1f}×, scores within {nearly_all:.0e}")
    compared(title, "pytorch-grad-cam and NumPy", *taken,
             f"99 % of scores within {nearly_all:.0e}, all within {apart:.0e} (pixels at the threshold)")  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=int, default=size(200, 4))
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--peak", type=int, default=None, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    if arguments.peak:
        peak(arguments.peak)
    else:
        main(arguments.images, arguments.turns)
        if arguments.memory:
            memory()
