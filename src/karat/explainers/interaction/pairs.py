"""Interaction indices of every patch with every word: MultiSHAP, Faith-Shap, weighted Banzhaf.

An index is one entry: a card, the question that estimates it, and the smallest budget of that. `PairIndex` has the
rest: an attribution over visual × word pairs, reduced to a map and to word scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Gt, Lt

from karat.explainers.coalitional import (
    Budget,
    Coalitional,
    Floats,
    ValueKind,
    all_fit,
    games,
    least_or_all,
    on_image,
    on_words,
    too_small,
)
from karat.explainers.interaction import estimators
from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.constraints import checked
from karat.probe.absence import CoalitionAbsence, TextAbsence
from karat.probe.coalitions import ModelGame
from karat.probe.evaluator import Question
from karat.probe.games import Estimate
from karat.probe.session import Session

Reduce = Literal["mean", "positive", "absolute"]
_card = partial(
    Card,
    kind="explainer",
    needs=frozenset({"text"}),
    gives=frozenset({"visual", "words", "pairs", "scalar"}),
    passes="budget",
)


@dataclass(frozen=True)
@checked
class PairIndex(Coalitional):
    """Parameters and course of every index of pairs.

    `budget`: coalitions per sample at most. `reduce`: how the pairs of a patch (of a word) become its score, by their
    "mean", the mean of their "positive" part (synergy) or of their "absolute" size. Others: `Coalitional`.
    """

    value: ValueKind = "auto"
    budget: Budget = 4096
    reduce: Reduce = "mean"
    card: ClassVar[Card]

    @property
    def passes(self) -> int:
        return self.budget

    def least_budget(self, n_visual: int, n_text: int) -> int:
        raise NotImplementedError

    def estimates(self, session: Session, games: list[ModelGame]) -> list[Estimate]:
        """Indices (n_visual, n_text) of every game; asked for together, each with the sample's own random stream."""
        questions = [self.question(game, session.rng(i, self.card.name)) for i, game in enumerate(games)]
        return session.ask(list(zip(games, questions, strict=True)))

    def question(self, game: ModelGame, rng: np.random.Generator) -> Question[Estimate]:
        raise NotImplementedError

    def refuses(self, n_visual: int, n_text: int) -> str | None:
        if not (n_visual and n_text):
            players = f"{n_visual} visual and {n_text} text players"
            return f"{self.card.name} needs an image and a question; a sample has {players}."
        return too_small(self.card.name, self.budget, self.least_budget(n_visual, n_text), n_visual, n_text)

    def __call__(self, session: Session) -> list[Attribution]:
        played = games(session, self)
        return [
            of_pairs(session, i, game, estimate, self.reduce)
            for i, (game, estimate) in enumerate(zip(played, self.estimates(session, played), strict=True))
        ]


@dataclass(frozen=True)
@checked
class MultiShap(PairIndex):
    """I_pt of all pairs from at most `budget` coalitions: exact where 2^n fits, else `estimator`.

    "switching" switches every pair over in a few drawn contexts, and needs 4 (1 + patches)(1 + words) passes or more;
    "regression" gets all pairs from unrelated coalitions, needs somewhat fewer, and is better where values are noise
    but far worse on networks, whose images bring much that a difference cancels. The scalar is the share of positive
    interactions. `variant` "released" lets patch k and word k come and go together, as the public code does, and gives
    no Shapley index. `reduce`: a patch's score is the "mean" of its pairs, of their "positive" part or of their
    "absolute" size, and a word's likewise.
    """

    absence: CoalitionAbsence = "grey"
    text_absence: TextAbsence = "delete"
    estimator: Literal["switching", "regression"] = "switching"
    variant: Literal["paper", "released"] = "paper"
    card: ClassVar[Card] = _card(
        "interaction/multishap",
        "which patch and which word matter together: the Shapley interaction index of every pair",
        citation="Wang & Wang 2026, MultiSHAP; gridvqax2026 A.3; fsyn2026 Eq. 2",
        departures="words rather than word pieces; all pairs from shared coalitions rather than a loop over pairs",
    )

    def least_budget(self, n_visual: int, n_text: int) -> int:
        if self.variant == "released":
            return estimators.least_released(n_visual, n_text)
        regression = self.estimator == "regression"
        least = (estimators.least_regressed if regression else estimators.least_switched)(n_visual, n_text)
        return least_or_all(n_visual + n_text, least)

    def question(self, game: ModelGame, rng: np.random.Generator) -> Question[Estimate]:
        if self.variant == "released":
            return estimators.released_pairs(game.n_visual, game.n_text, self.budget, rng)
        if all_fit(game.n, self.budget):
            return estimators.exact_pairs(game.n_visual, game.n_text)
        estimate = estimators.pair_regression if self.estimator == "regression" else estimators.switched
        return estimate(game.n_visual, game.n_text, self.budget, rng)


@dataclass(frozen=True)
class FaithShap(PairIndex):
    """The Faithful Shapley interaction index of order 2: the pairs of the best quadratic model under Shapley's kernel.

    Samples are asked one after the other (shapiq drives), each in full batches and from the session's memory. `reduce`
    as for `MultiShap`.
    """

    card: ClassVar[Card] = _card(
        "interaction/faith_shap",
        "patches and words that matter together, by the best quadratic model of the answer",
        citation="Tsai et al. 2023, Faith-Shap; Muschalik et al. 2024, shapiq",
        extra="shapley",
    )

    def least_budget(self, n_visual: int, n_text: int) -> int:
        return least_or_all(n_visual + n_text, estimators.least_faithful(n_visual + n_text))

    def estimates(self, session: Session, games: list[ModelGame]) -> list[Estimate]:
        streams = [session.rng(i, self.card.name) for i in range(len(games))]
        return [estimators.faith_shap(game, self.budget, rng) for game, rng in zip(games, streams, strict=True)]


@dataclass(frozen=True)
@checked
class WeightedBanzhaf(PairIndex):
    """E[Delta_ij(S)] where every other player is in S with probability `share`, by least squares on such coalitions.

    Under that product measure the features of a quadratic model are orthogonal, so its pair coefficients are the index.
    `reduce` as for `MultiShap`.
    """

    share: Annotated[float, Gt(0), Lt(1)] = 0.5
    card: ClassVar[Card] = _card(
        "interaction/weighted_banzhaf",
        "patches and words that matter together, averaged over random contexts of a chosen size",
        citation="Marichal & Mathonet 2011, Weighted Banzhaf power and interaction indexes",
        departures="not through shapiq, whose Banzhaf index knows share = 0.5 only; equal to it there",
    )

    def least_budget(self, n_visual: int, n_text: int) -> int:
        return least_or_all(n_visual + n_text, estimators.least_banzhaf(n_visual, n_text))

    def question(self, game: ModelGame, rng: np.random.Generator) -> Question[Estimate]:
        return estimators.banzhaf_pairs(game.n_visual, game.n_text, self.budget, self.share, rng)


def reduced(indices: Floats, axis: int, rule: Reduce) -> Floats:
    """The mean over the other modality: of the values, of their positive part (synergy), or of their size."""
    if rule == "positive":
        indices = np.maximum(indices, 0)
    elif rule == "absolute":
        indices = np.abs(indices)
    return np.asarray(indices.mean(axis=axis))


def synergy_share(indices: Floats) -> float:
    """Sum of the positive interactions over the sum of all sizes; 0 where there is no interaction at all."""
    total = float(np.abs(indices).sum())
    return float(np.maximum(indices, 0).sum()) / total if total else 0.0


def of_pairs(session: Session, i: int, game: ModelGame, estimate: Estimate, rule: Reduce) -> Attribution:
    """An attribution with pairs (h*w, words) from indices (n_visual, n_text); its map and words follow by `rule`."""
    words, indices = len(session.samples[i].words), estimate.values

    def over_cells_and_words(matrix: Floats) -> Floats:
        spread = np.stack([on_words(game, row, words) for row in matrix])
        cells = on_image(session, i, game, spread)[0]
        return cells.reshape(-1, words)

    visual, space = on_image(session, i, game, reduced(indices, 1, rule))
    return Attribution(
        visual,
        on_words(game, reduced(indices, 0, rule), words),
        over_cells_and_words(indices),
        scalar=synergy_share(indices),
        space=space,
        signed=rule == "mean",
        passes=estimate.passes,
        standard_error=over_cells_and_words(estimate.standard_error),
    )
