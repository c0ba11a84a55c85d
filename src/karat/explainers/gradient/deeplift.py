"""DeepLIFT with the Rescale rule: differences to a reference instead of slopes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from karat.explainers.gradient.baseline import Baseline, Text, Visual, embedded
from karat.explainers.placing import attributions, wide
from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.probe.session import Session


@dataclass(frozen=True)
class DeepLift:
    """(x - x') · multiplier, where a nonlinearity f multiplies by (f(z) - f(z')) / (z - z').

    Input and reference run side by side. Parts add up to y(x) - y(x') exactly where all that is not linear is
    elementwise or a max-pool (ReLU CNNs). Products of activations (attention, norms of transformers) pass plain
    gradients, so there the parts do not add up.
    """

    baseline: Visual = "zero"
    text_baseline: Text = "pad"
    radius: float = 30.0
    passes: ClassVar[int] = 2
    card: ClassVar[Card] = Card(
        "gradient/deeplift",
        "how the difference to a reference input travels through the network",
        "explainer",
        needs=frozenset({"gradients"}),
        gives=frozenset({"visual", "words"}),
        citation="Shrikumar et al. 2017, Learning important features through propagating activation differences",
        departures="Rescale rule; a max-pool credits the place of the larger maximum of the two",
        passes="2",
        extra="vision",
    )

    def __call__(self, session: Session) -> list[Attribution]:
        import torch

        from karat.explainers.gradient.points import Points, slopes
        from karat.explainers.gradient.rescale import rescaled

        start = Baseline(self.baseline, self.text_baseline, self.radius)
        pixels, words = wide(session.inputs.pixels), embedded(session)
        empty, unsaid = wide(start.pixels(session)), start.words(session)
        n = len(session.samples)
        said = None if words is None or unsaid is None else torch.cat([words, unsaid])
        both = torch.arange(n).repeat(2)
        with rescaled(n):
            found = slopes(session, both, Points(torch.cat([pixels, empty]), said))
        maps = ((pixels - empty) * found.pixels[:n]).sum(1)
        tokens = None
        if words is not None and unsaid is not None and found.words is not None:
            tokens = ((wide(words) - wide(unsaid)) * found.words[:n]).sum(-1)
        return attributions(session, maps, tokens, space="pixel", signed=True, passes=self.passes)
