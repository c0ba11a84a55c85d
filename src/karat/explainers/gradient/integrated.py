"""Integrated gradients: the gradient, averaged over the straight path from a baseline to the input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from karat.explainers.gradient.baseline import Baseline, Text, Visual, embedded
from karat.explainers.placing import attributions, wide
from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.errors import BadInput
from karat.kernel.typing import Values
from karat.probe.session import Session

if TYPE_CHECKING:
    from torch import Tensor

Rule = Literal["gauss", "middle", "left", "right", "trapezoid"]


@dataclass(frozen=True)
class IntegratedGradients:
    """(x - x') · mean over the path of dy/dx, image and word embeddings walking together.

    Over all pixels and words it adds up to y(x) - y(x'), up to the error of `rule` with that many `steps`.
    `batch_size` is how many points of the path are in memory at once; results do not depend on it beyond rounding.
    """

    steps: int = 50
    baseline: Visual = "zero"
    text_baseline: Text = "pad"
    rule: Rule = "gauss"
    radius: float = 30.0
    batch_size: int = 16
    card: ClassVar[Card] = Card(
        "gradient/integrated_gradients",
        "the gradient along the way from nothing to the input: parts add up to the answer's score",
        "explainer",
        needs=frozenset({"gradients"}),
        gives=frozenset({"visual", "words"}),
        citation="Sundararajan et al. 2017, Axiomatic attribution for deep networks",
        departures='creg2026 takes 50 steps; fsyn2026 takes steps=5 with a Riemann rule and baseline="black"',
        passes="steps",
        extra="vision",
    )

    @property
    def passes(self) -> int:
        return self.steps

    def __call__(self, session: Session) -> list[Attribution]:
        from karat.explainers.gradient.path import integrate

        start = Baseline(self.baseline, self.text_baseline, self.radius)
        pixels, words = wide(session.inputs.pixels), embedded(session)
        empty, unsaid = wide(start.pixels(session)), start.words(session)
        slopes = integrate(session, (empty, unsaid), (pixels, words), *nodes(self.rule, self.steps), self.batch_size)
        maps = ((pixels - empty) * slopes.pixels).sum(1)
        return attributions(
            session, maps, _tokens(words, unsaid, slopes.words), space="pixel", signed=True, passes=self.steps
        )


def nodes(rule: Rule, steps: int) -> tuple[Values, Values]:
    """Places in [0, 1] and their weights, which add up to 1.

    >>> nodes("middle", 2)
    (array([0.25, 0.75]), array([0.5, 0.5]))
    """
    if steps < 1 or (rule == "trapezoid" and steps < 2):
        raise BadInput(f"integrated gradients with rule {rule!r} needs at least {1 + (rule == 'trapezoid')} steps.")
    if rule == "gauss":
        places, weights = np.polynomial.legendre.leggauss(steps)
        return (places + 1) / 2, weights / 2
    even = np.full(steps, 1 / steps)
    if rule == "trapezoid":
        even = np.full(steps, 1 / (steps - 1))
        even[[0, -1]] /= 2
        return np.linspace(0, 1, steps), even
    return (np.arange(steps) + {"left": 0.0, "middle": 0.5, "right": 1.0}[rule]) / steps, even


def _tokens(words: Tensor | None, unsaid: Tensor | None, slopes: Tensor | None) -> Tensor | None:
    if words is None or unsaid is None or slopes is None:
        return None
    return ((wide(words) - wide(unsaid)) * slopes).sum(-1)
