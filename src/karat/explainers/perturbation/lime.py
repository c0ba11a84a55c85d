"""LIME: a linear model around the sample, over superpixels and words, jointly or apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from karat.explainers.asking import Asking, Features, among, attribution, game_of, parts, players
from karat.explainers.perturbation.surrogate import Fit, Sizes, closeness, neighbours, ridge
from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.sample import Sample
from karat.kernel.typing import Image
from karat.probe.absence import Absence
from karat.probe.coalitions import ModelGame
from karat.probe.evaluator import Question
from karat.probe.players import Labels, visual_players
from karat.probe.session import Session

SEGMENTS = "segments"  # a absent state that only LIME has: every player in its own mean colour


@dataclass(frozen=True)
class Lime(Asking):
    """Ridge regression on `budget` coalitions, weighed by how close they are to the whole sample.

    `features`: "apart" (image under the whole question, words under the whole image, half of the budget each),
    "jointly" (one model of both), "image" or "text". `absence`: "segments" paints absent superpixels in their own mean
    colour, as LIME does; or any absent state.
    """

    visual: str | tuple[int, int] = "superpixels"
    absence: str = SEGMENTS
    text_absence: str = "auto"
    budget: int = 1000
    features: Features = "apart"
    width: float = 0.25
    penalty: float = 1.0
    card: ClassVar[Card] = Card(
        "perturbation/lime",
        "a linear model of the answer around this sample, over superpixels and words",
        "explainer",
        gives=frozenset({"visual", "words"}),
        citation="Ribeiro et al. 2016, Why should I trust you?; pixelrules2024",
        departures="SLIC segments rather than quickshift; coalitions are drawn without repeats",
        passes="budget",
        extra="vision",
    )

    @property
    def passes(self) -> int:
        return self.budget

    def __call__(self, session: Session) -> list[Attribution]:
        asked = [lime_game(session, i, self) for i in range(len(session.samples))]
        plans = [(i, part) for i, game in enumerate(asked) for part in parts(game, self.features)]
        questions = []
        for i, part in plans:
            game = asked[i]
            budget = self.budget // len(parts(game, self.features))
            sizes: Sizes = "even" if part.start >= game.n_visual else "halves"
            rng = session.rng(i, f"{self.card.name}/{part.start}")
            questions.append((game, among(part, game.n, self.explained(len(part), budget, rng, sizes))))
        scores = [np.full(game.n, np.nan) for game in asked]
        errors = [np.zeros(game.n) for game in asked]
        passes = [0] * len(asked)
        for (i, part), (fit, made) in zip(plans, session.ask(questions), strict=True):
            scores[i][part], errors[i][part] = fit
            passes[i] += made
        return [attribution(session, i, game, scores[i], errors[i], passes=passes[i]) for i, game in enumerate(asked)]

    def explained(self, n: int, budget: int, rng: np.random.Generator, sizes: Sizes) -> Question[tuple[Fit, int]]:
        keep = neighbours(n, budget, rng, sizes)
        values = yield keep
        return ridge(keep, values, closeness(keep, self.width), self.penalty), len(keep)


def lime_game(session: Session, i: int, asking: Asking) -> ModelGame:
    """The game of sample i with LIME's own absent state where that is asked for."""
    sample = session.samples[i]
    if asking.absence != SEGMENTS:
        return game_of(session, i, asking)
    visual = players(session, i, asking.visual)
    grid = session.torch_model.layout(session.inputs).grid if visual == "patches" else None
    seen = visual_players(visual, sample, grid)
    labels = seen.labels_of(*sample.size)
    absence = Absence("given", asking.text_absence, image=mean_colours(sample, labels))
    return game_of(session, i, asking, visual=visual if seen.grid is not None else labels, absence=absence)


def mean_colours(sample: Sample, labels: Labels) -> Image:
    """The image with every player in its mean colour; pixels of nobody (-1) stay."""
    flat, image = labels.ravel() + 1, sample.image.reshape(-1, 3)
    count = np.maximum(np.bincount(flat), 1)
    means = np.stack([np.bincount(flat, image[:, channel]) / count for channel in range(3)], axis=1)
    painted = np.where(flat[:, None] > 0, np.rint(means[flat]), image)
    return painted.astype(np.uint8).reshape(sample.image.shape)
