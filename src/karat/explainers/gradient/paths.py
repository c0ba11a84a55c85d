"""Gradients at other inputs than the sample: on the way from a baseline, around the sample, or beside a reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Ge

from karat.explainers.gradient.single_pass import Channels, one_number
from karat.explainers.to_attribution import WORDS, attributions, reads_text, wide
from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.constraints import checked
from karat.kernel.errors import BadInput
from karat.kernel.typing import Values
from karat.models.structure import submodule
from karat.probe.absence import Absence
from karat.probe.session import Session

if TYPE_CHECKING:
    from torch import Tensor

    from karat.explainers.gradient.points import Points, Slopes

VisualBaseline = Literal["zero", "black", "grey", "white", "mean", "blur", "uniform"]
TextBaseline = Literal["pad", "zero"]
Rule = Literal["gauss", "middle", "left", "right", "trapezoid"]
Count = Annotated[int, Ge(1)]
Radius = Annotated[float, Ge(0)]
_card = partial(Card, kind="explainer", needs=frozenset({"gradients"}), extra="vision")
_with_words = partial(_card, gives=frozenset({"visual", "words"}))


@dataclass(frozen=True)
@checked
class IntegratedGradients:
    """(x - x') · mean over the path of dy/dx, image and word embeddings walking together.

    Over all pixels and words it adds up to y(x) - y(x'), up to the error of `rule` with that many `steps`.

    Args:
        steps: points of the path.
        baseline, text_baseline, radius: where the path starts, x'; see `Baseline`.
        rule: how the points lie and weigh; "gauss" is Gauss-Legendre.
        batch_size: points in memory at once; results do not depend on it beyond rounding.
    """

    steps: Count = 50
    baseline: VisualBaseline = "zero"
    text_baseline: TextBaseline = "pad"
    rule: Rule = "gauss"
    radius: Radius = 30.0
    batch_size: Count = 16
    card: ClassVar[Card] = _with_words(
        "gradient/integrated_gradients",
        "the gradient along the way from nothing to the input: parts add up to the answer's score",
        citation="Sundararajan et al. 2017, Axiomatic attribution for deep networks",
        departures='creg2026 takes 50 steps; fsyn2026 takes steps=5 with a Riemann rule and baseline="black"',
        passes="steps",
    )

    def __post_init__(self) -> None:
        if self.rule == "trapezoid" and self.steps < 2:
            raise BadInput(f"{self.card.name}: rule 'trapezoid' needs steps of 2 or more; got {self.steps}.")

    @property
    def passes(self) -> int:
        return self.steps

    def __call__(self, session: Session) -> list[Attribution]:
        from karat.explainers.gradient.points import integrate

        start = Baseline(self.baseline, self.text_baseline, self.radius)
        pixels, words = wide(session.inputs.pixels), embedded(session)
        empty, empty_words = wide(start.pixels(session)), start.words(session)
        places, weights = nodes(self.rule, self.steps)
        slopes = integrate(session, (empty, empty_words), (pixels, words), places, weights, self.batch_size)
        maps = ((pixels - empty) * slopes.pixels).sum(1)
        tokens = None
        if words is not None and empty_words is not None and slopes.words is not None:
            tokens = ((wide(words) - wide(empty_words)) * slopes.words).sum(-1)
        return attributions(session, maps, tokens, space="pixel", signed=True, passes=self.steps)


def nodes(rule: Rule, steps: int) -> tuple[Values, Values]:
    """Places in [0, 1] and their weights, which add up to 1.

    >>> nodes("middle", 2)
    (array([0.25, 0.75]), array([0.5, 0.5]))
    """
    if rule == "gauss":
        places, weights = np.polynomial.legendre.leggauss(steps)
        return (places + 1) / 2, weights / 2
    even = np.full(steps, 1 / steps)
    if rule == "trapezoid":
        even = np.full(steps, 1 / (steps - 1))
        even[[0, -1]] /= 2
        return np.linspace(0, 1, steps), even
    return (np.arange(steps) + {"left": 0.0, "middle": 0.5, "right": 1.0}[rule]) / steps, even


@dataclass(frozen=True)
@checked
class SmoothGrad:
    """The gradient, averaged over `samples` copies of the image with Gaussian noise; the text stays as it is.

    `noise` is the standard deviation as a share of the range of the image's own values. `channels` as for `Gradient`;
    `batch_size`: copies in memory at once.
    """

    samples: Count = 50
    noise: Annotated[float, Ge(0)] = 0.15
    channels: Channels = "sum"
    batch_size: Count = 16
    card: ClassVar[Card] = _card(
        "gradient/smoothgrad",
        "the gradient, averaged over noisy copies of the image",
        gives=frozenset({"visual"}),
        citation="Smilkov et al. 2017, SmoothGrad",
        passes="samples",
    )

    @property
    def passes(self) -> int:
        return self.samples

    def __call__(self, session: Session) -> list[Attribution]:
        import torch

        from karat.explainers.gradient.points import Points, Sums, walk

        pixels = wide(session.inputs.pixels)
        spread = self.noise * (pixels.amax((1, 2, 3)) - pixels.amin((1, 2, 3)))
        sums = Sums(pixels, None)

        def make(rows: Tensor, steps: Tensor) -> Points:
            drawn = [
                session.rng(row, f"{self.card.name}/{step}").standard_normal(pixels.shape[1:], dtype=np.float32)
                for row, step in zip(rows.tolist(), steps.tolist(), strict=True)
            ]
            noise = torch.from_numpy(np.stack(drawn)).to(pixels.device, pixels.dtype)
            return Points(pixels[rows] + noise * spread[rows, None, None, None])

        def use(rows: Tensor, _: Tensor, slopes: Slopes) -> None:
            sums.add(rows, pixels.new_full((len(rows),), 1 / self.samples), slopes)

        walk(session, self.samples, self.batch_size, make, use)
        maps = one_number(sums.pixels, 1, self.channels)
        return attributions(session, maps, space="pixel", signed=self.channels == "sum", passes=self.samples)


@dataclass(frozen=True)
@checked
class GradientShap:
    """(x - x') · dy/dx at a random point between a noise image x' and x, averaged over `samples` draws of both.

    Words walk from the pad token (or zero) by the same random share. `batch_size`: points in memory at once.
    """

    samples: Count = 20
    text_baseline: TextBaseline = "pad"
    batch_size: Count = 16
    card: ClassVar[Card] = _with_words(
        "gradient/gradient_shap",
        "integrated gradients over random baselines and random points of the path: expected gradients",
        citation="Lundberg and Lee 2017, A unified approach; Erion et al. 2021, expected gradients",
        departures="baselines are uniform noise images: those of pixelrules2024 are not given",
        passes="samples",
    )

    @property
    def passes(self) -> int:
        return self.samples

    def __call__(self, session: Session) -> list[Attribution]:
        import torch

        from karat.explainers.gradient.points import Points, walk

        pixels, words = wide(session.inputs.pixels), embedded(session)
        empty_words = Baseline(text=self.text_baseline).words(session)
        maps = pixels.new_zeros(pixels[:, 0].shape)
        tokens = None if words is None else wide(words).new_zeros(words.shape[:2])
        gaps: dict[str, Tensor] = {}  # x - x' of the points in flight

        def make(rows: Tensor, steps: Tensor) -> Points:
            names = [(row, f"{self.card.name}/{step}") for row, step in zip(rows.tolist(), steps.tolist(), strict=True)]
            empty = wide(noise_images(session, [(row, f"{name}/image") for row, name in names]))
            share = torch.tensor([session.rng(*name).random() for name in names], device=pixels.device)
            gaps["pixels"] = pixels[rows] - empty
            between = empty + gaps["pixels"] * share[:, None, None, None].to(pixels.dtype)
            if words is None or empty_words is None:
                return Points(between)
            start = wide(empty_words[rows])
            gaps["words"] = wide(words[rows]) - start
            return Points(between, start + gaps["words"] * share[:, None, None].to(gaps["words"].dtype))

        def use(rows: Tensor, _: Tensor, slopes: Slopes) -> None:
            maps.index_add_(0, rows, (gaps["pixels"] * slopes.pixels).sum(1) / self.samples)
            if tokens is not None and slopes.words is not None:
                tokens.index_add_(0, rows, (gaps["words"] * slopes.words).sum(-1) / self.samples)

        walk(session, self.samples, self.batch_size, make, use)
        return attributions(session, maps, tokens, space="pixel", signed=True, passes=self.samples)


@dataclass(frozen=True)
@checked
class DeepLift:
    """(x - x') · multiplier, where a nonlinearity f multiplies by (f(z) - f(z')) / (z - z').

    Input and reference run side by side. Parts add up to y(x) - y(x') exactly where all that is not linear is
    elementwise or a max-pool (ReLU CNNs). Products of activations (attention, norms of transformers) pass plain
    gradients, so there the parts do not add up. `baseline`, `text_baseline`, `radius` say what x' is: see `Baseline`.
    """

    baseline: VisualBaseline = "zero"
    text_baseline: TextBaseline = "pad"
    radius: Radius = 30.0
    passes: ClassVar[int] = 2
    card: ClassVar[Card] = _with_words(
        "gradient/deeplift",
        "how the difference to a reference input travels through the network",
        citation="Shrikumar et al. 2017, Learning important features through propagating activation differences",
        departures="Rescale rule; a max-pool credits the place of the larger maximum of the two",
        passes="2",
    )

    def __call__(self, session: Session) -> list[Attribution]:
        import torch

        from karat.explainers.gradient.points import Points, slopes_at
        from karat.explainers.gradient.rescale import rescaled

        reference = Baseline(self.baseline, self.text_baseline, self.radius)
        pixels, words = wide(session.inputs.pixels), embedded(session)
        empty, empty_words = wide(reference.pixels(session)), reference.words(session)
        n = len(session.samples)
        both_words = None if words is None or empty_words is None else torch.cat([words, empty_words])
        with rescaled(n):
            slopes = slopes_at(session, torch.arange(n).repeat(2), Points(torch.cat([pixels, empty]), both_words))
        maps = ((pixels - empty) * slopes.pixels[:n]).sum(1)
        tokens = None
        if words is not None and empty_words is not None and slopes.words is not None:
            tokens = ((wide(words) - wide(empty_words)) * slopes.words[:n]).sum(-1)
        return attributions(session, maps, tokens, space="pixel", signed=True, passes=self.passes)


# ---- baselines


@dataclass(frozen=True)
@checked
class Baseline:
    """An input that says nothing: where a path to the sample starts.

    `visual`: "zero" in the model's own units (after normalisation, so the mean colour for most models), or an image
    made from the sample: black, grey, white, its mean colour, blurred by `radius`, or uniform noise. `text`: embeddings
    of the pad token (fsyn2026 A.2), or zeros.
    """

    visual: VisualBaseline = "zero"
    text: TextBaseline = "pad"
    radius: Radius = 30.0

    def pixels(self, session: Session) -> Tensor:
        """(n, 3, H, W), as the model gets them."""
        if self.visual == "zero":
            return session.inputs.pixels.new_zeros(session.inputs.pixels.shape)
        if self.visual == "uniform":
            return noise_images(session, [(row, "baseline") for row in range(len(session.samples))])
        absence = Absence(visual=self.visual, radius=self.radius)
        samples = [replace(sample, image=absence.image_of(sample)) for sample in session.samples]
        return session.torch_model.encode(samples).pixels

    def words(self, session: Session) -> Tensor | None:
        """(n, T, width), equal to the embeddings themselves at padding; None for a model without text."""
        import torch

        full = embedded(session)
        if full is None:
            return None
        model, inputs = session.torch_model, session.inputs
        assert inputs.tokens is not None
        if self.text == "zero":
            empty = torch.zeros_like(full)
        elif model.neutral_token is None:
            raise BadInput(f"{model.name!r} has no pad token; use the text baseline 'zero'.")
        else:
            empty = _embed(session, torch.full_like(inputs.tokens, model.neutral_token))
        return empty if inputs.token_keep is None else torch.where(inputs.token_keep[..., None], empty, full)


def embedded(session: Session) -> Tensor | None:
    """(n, T, width) embeddings of `Inputs.tokens`; None for a model without text."""
    tokens = session.inputs.tokens
    return _embed(session, tokens) if tokens is not None and reads_text(session.torch_model) else None


def noise_images(session: Session, draws: Sequence[tuple[int, str]]) -> Tensor:
    """Encoded images of uniform noise, one for each (sample number, name of the sample's own random stream)."""
    samples = []
    for row, component in draws:
        sample = session.samples[row]
        drawn = session.rng(row, component).integers(0, 256, sample.image.shape, dtype=np.uint8)
        samples.append(replace(sample, image=drawn))
    return session.torch_model.encode(samples).pixels


def _embed(session: Session, tokens: Tensor) -> Tensor:
    import torch

    model = session.torch_model
    with torch.no_grad():
        embeddings: Tensor = submodule(model.module, model.layers[WORDS])(tokens)
    return embeddings
