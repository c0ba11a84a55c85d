"""Shapley ground truth and single-pass explainers beside captum's, on the shipped classifier, in one run.

    python benchmarks/bench_pixel.py [--images 100] [--repeats 5]

Truth: forward passes until the root mean square of the standard errors of the 25 pixels is 0.01, image by image. Ours
are counted. Captum's permutation sampling draws orders one after the other, so its standard error is s / sqrt(orders)
and the orders needed follow from s, which is taken from a first stretch of orders; passes an order are counted on
captum itself. Explainers: CPU seconds, in turns, the median; maps are compared first.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import captum.attr as peer
import numpy as np
import torch
from side_by_side import compared, in_turns, median, size

from karat.datasets.shortcut import ShortcutDataset
from karat.explainers.cam import GradCam
from karat.explainers.control_planted import patch_game, patch_shapley
from karat.explainers.gradient import Deconvnet, Gradient, GuidedBackprop, InputXGradient
from karat.models import load_model
from karat.models.pixelnet.dominance import answers
from karat.probe import estimators
from karat.probe.session import Session
from karat.probe.trials import Effort

ERROR, ORDERS = 0.01, 24
SHARED = ("Gradient", "IxG", "Grad-CAM")


def decided(model: Any, count: int) -> Session:
    """A session over images that the shortcut decides."""
    samples: list[Any] = []
    data = ShortcutDataset(n=10 * count)
    for start in range(0, len(data), 50):
        batch = data.load(start, start + 50)
        samples += [s for s, yes in zip(batch, answers(model, batch).dominant(), strict=True) if yes]
        if len(samples) >= count:
            break
    return Session(model, samples[:count])


class Counted(torch.nn.Module):
    """The probability of one class of images that keep only some pixels of the patch; rows are counted."""

    def __init__(self, session: Session, i: int) -> None:
        super().__init__()
        self.game, self.rows = patch_game(session, i), 0

    def forward(self, keep: torch.Tensor) -> torch.Tensor:
        self.rows += len(keep)
        return torch.from_numpy(self.game.value(keep.detach().numpy() > 0.5)).float()


def truth(session: Session) -> None:
    everyone = range(len(session.samples))
    d = patch_game(session, 0).n

    counted = Counted(session, 0)
    at = time.process_time()
    theirs_first = peer.ShapleyValueSampling(counted).attribute(torch.ones(1, d), n_samples=ORDERS)[0].numpy()
    per_order = counted.rows / ORDERS
    print(
        f"captum: {per_order:.1f} passes an order of {d} pixels ({time.process_time() - at:.1f} s for {ORDERS} orders)"
    )

    budget = 2 + ORDERS * (d - 1)
    plain = session.ask(
        [(patch_game(session, i), estimators.permutation(d, budget, session.rng(i, "bench"), antithetic=False))
         for i in everyone]
    )  # fmt: skip
    apart = (theirs_first - plain[0].values) / (np.sqrt(2) * plain[0].standard_error + 1e-9)
    assert np.sqrt((apart**2).mean()) < 2, "captum and our plain permutations disagree beyond their errors"
    rms = np.array([np.sqrt((each.standard_error**2).mean()) for each in plain])
    theirs = np.maximum(ORDERS * (rms / ERROR) ** 2, 2) * per_order

    truths = patch_shapley(session, everyone, Effort(error=ERROR))
    ours = np.array([truths[i].passes for i in everyone])
    errors = np.array([truths[i].error for i in everyone])
    away = np.concatenate([(truths[i].values - plain[i].values)
                           / np.sqrt(truths[i].standard_error**2 + plain[i].standard_error**2 + 1e-12)
                           for i in everyone])  # fmt: skip
    assert np.sqrt((away**2).mean()) < 1.5, "the two estimates disagree beyond their errors"
    print(
        f"{len(ours)} images of {d} pixels at a standard error of {ERROR}: ours {ours.mean():.0f} passes an image "
        f"(reached {errors.mean():.4f}, at most {errors.max():.4f}), captum's orders {theirs.mean():.0f}; "
        f"ratio {theirs.sum() / ours.sum():.2f} (asked for: 3)"
    )
    compared(
        f"Shapley values of {d} pixels, {len(ours)} images, passes at a standard error of {ERROR}", "captum",
        float(ours.sum()), float(theirs.sum()),
        "within the errors of both; captum itself on one image", "3×",
    )  # fmt: skip


def explainers(model: Any, session: Session, repeats: int) -> None:
    samples, targets = session.samples, session.targets
    pixels = model.encode(samples).pixels
    classes = torch.tensor([model.labels.index(target) for target in targets])
    layer = model.module.get_submodule(model.layers["vision.last"])
    ours: dict[str, Any] = {
        "Gradient": Gradient(), "IxG": InputXGradient(), "Grad-CAM": GradCam(), "GBP": GuidedBackprop(),
        "Deconvnet": Deconvnet(),
    }  # fmt: skip
    theirs: dict[str, Callable[[], Any]] = {
        "Gradient": lambda: peer.Saliency(model.module).attribute(pixels.clone(), classes, abs=False).sum(1),
        "IxG": lambda: peer.InputXGradient(model.module).attribute(pixels.clone(), classes).sum(1),
        "Grad-CAM": lambda: peer.LayerGradCam(model.module, layer).attribute(
            pixels.clone(), classes, relu_attributions=True
        )[:, 0],
        "GBP": lambda: peer.GuidedBackprop(model.module).attribute(pixels.clone(), classes).sum(1),
        "Deconvnet": lambda: peer.Deconvolution(model.module).attribute(pixels.clone(), classes).sum(1),
    }

    def together(names: tuple[str, ...]) -> dict[str, Any]:
        fresh = Session(model, samples, targets)
        chosen = [ours[name] for name in names]
        fresh.expect(chosen)
        return {name: np.stack([each.visual for each in ours[name](fresh)]) for name in names}

    for name, maps in together(tuple(ours)).items():
        other = theirs[name]().detach().numpy()
        scale = np.abs(other).max(axis=(1, 2), keepdims=True)
        mine = maps / np.maximum(np.abs(maps).max(axis=(1, 2), keepdims=True), 1e-12)
        assert np.abs(mine - other / np.maximum(scale, 1e-12)).max() < 1e-3, f"{name}: maps differ"
    for names in (SHARED, tuple(ours)):
        mine, captums = in_turns(
            lambda names=names: together(names), lambda names=names: [theirs[name]() for name in names], rounds=repeats
        )
        print(f"{', '.join(names)}: {median(mine):.3f} s together, {median(captums):.3f} s one by one through captum; "
              f"ratio {median(captums) / median(mine):.2f} (asked for: 2)")  # fmt: skip
        compared(f"{', '.join(names)} on {len(samples)} images", "captum", mine, captums, "maps within 1e-3", "2×")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=size(100, 6))
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    model: Any = load_model("pixelnet.cnn")
    session = decided(model, options.images)
    explainers(model, session, options.repeats)
    truth(session)


if __name__ == "__main__":
    main()
