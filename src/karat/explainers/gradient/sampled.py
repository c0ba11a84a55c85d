"""Gradients averaged over random points: SmoothGrad (around the input) and GradientSHAP (between it and noise)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from karat.explainers.gradient.baseline import Baseline, Text, embedded, noise
from karat.explainers.gradient.looking import Channels, one_number
from karat.explainers.placing import attributions, wide
from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.probe.session import Session

if TYPE_CHECKING:
    from torch import Tensor

    from karat.explainers.gradient.points import Points, Slopes

_NEEDS = frozenset({"gradients"})


@dataclass(frozen=True)
class SmoothGrad:
    """The gradient, averaged over `samples` copies of the image with Gaussian noise; the text stays as it is.

    `noise` is the standard deviation as a share of the range of the image's own values.
    """

    samples: int = 50
    noise: float = 0.15
    channels: Channels = "sum"
    batch_size: int = 16
    card: ClassVar[Card] = Card(
        "gradient/smoothgrad",
        "the gradient, averaged over noisy copies of the image",
        "explainer",
        needs=_NEEDS,
        gives=frozenset({"visual"}),
        citation="Smilkov et al. 2017, SmoothGrad",
        passes="samples",
        extra="vision",
    )

    @property
    def passes(self) -> int:
        return self.samples

    def __call__(self, session: Session) -> list[Attribution]:
        import torch

        from karat.explainers.gradient.path import Sums
        from karat.explainers.gradient.points import Points, walk

        pixels = wide(session.inputs.pixels)
        spread = self.noise * (pixels.amax((1, 2, 3)) - pixels.amin((1, 2, 3)))
        sums = Sums(pixels, None)

        def make(rows: Tensor, steps: Tensor) -> Points:
            drawn = [
                session.rng(row, f"{self.card.name}/{step}").standard_normal(pixels.shape[1:], dtype=np.float32)
                for row, step in zip(rows.tolist(), steps.tolist(), strict=True)
            ]
            shaken = torch.from_numpy(np.stack(drawn)).to(pixels.device, pixels.dtype)
            return Points(pixels[rows] + shaken * spread[rows, None, None, None])

        def use(rows: Tensor, _: Tensor, found: Slopes) -> None:
            sums.add(rows, pixels.new_full((len(rows),), 1 / self.samples), found)

        walk(session, self.samples, self.batch_size, make, use)
        maps = one_number(sums.pixels, 1, self.channels)
        return attributions(session, maps, space="pixel", signed=self.channels == "sum", passes=self.samples)


@dataclass(frozen=True)
class GradientShap:
    """(x - x') · dy/dx at a random point between a noise image x' and x, averaged over `samples` draws of both.

    Words walk from the pad token (or zero) by the same random share.
    """

    samples: int = 20
    text_baseline: Text = "pad"
    batch_size: int = 16
    card: ClassVar[Card] = Card(
        "gradient/gradient_shap",
        "integrated gradients over random baselines and random points of the path: expected gradients",
        "explainer",
        needs=_NEEDS,
        gives=frozenset({"visual", "words"}),
        citation="Lundberg and Lee 2017, A unified approach; Erion et al. 2021, expected gradients",
        departures="baselines are uniform noise images: those of pixelrules2024 are not given",
        passes="samples",
        extra="vision",
    )

    @property
    def passes(self) -> int:
        return self.samples

    def __call__(self, session: Session) -> list[Attribution]:
        import torch

        from karat.explainers.gradient.points import Points, walk

        pixels, words = wide(session.inputs.pixels), embedded(session)
        unsaid = Baseline(text=self.text_baseline).words(session)
        maps = pixels.new_zeros(pixels[:, 0].shape)
        tokens = None if words is None else wide(words).new_zeros(words.shape[:2])
        gaps: dict[str, Tensor] = {}  # x - x' of the points in flight

        def make(rows: Tensor, steps: Tensor) -> Points:
            names = [(row, f"{self.card.name}/{step}") for row, step in zip(rows.tolist(), steps.tolist(), strict=True)]
            empty = wide(noise(session, [(row, f"{name}/image") for row, name in names]))
            share = torch.tensor([session.rng(*name).random() for name in names], device=pixels.device)
            gaps["pixels"] = pixels[rows] - empty
            shown = empty + gaps["pixels"] * share[:, None, None, None].to(pixels.dtype)
            if words is None or unsaid is None:
                return Points(shown)
            gaps["words"] = wide(words[rows]) - wide(unsaid[rows])
            return Points(shown, wide(unsaid[rows]) + gaps["words"] * share[:, None, None].to(gaps["words"].dtype))

        def use(rows: Tensor, _: Tensor, found: Slopes) -> None:
            maps.index_add_(0, rows, (gaps["pixels"] * found.pixels).sum(1) / self.samples)
            if tokens is not None and found.words is not None:
                tokens.index_add_(0, rows, (gaps["words"] * found.words).sum(-1) / self.samples)

        walk(session, self.samples, self.batch_size, make, use)
        return attributions(session, maps, tokens, space="pixel", signed=True, passes=self.samples)
