"""Shapley values of patches and words: exact where the budget allows, estimated with error bars where it does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from karat.explainers.asking import Asking, Features, among, attribution, games, parts
from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.probe import estimators, exact
from karat.probe.coalitions import ModelGame
from karat.probe.evaluator import Question
from karat.probe.games import Estimate
from karat.probe.session import Session

Estimator = Callable[[int, int, np.random.Generator], Question[Estimate]]
_BOTH = frozenset({"visual", "words"})


@dataclass(frozen=True)
class KernelShap(Asking):
    """Weighted least squares under the Shapley kernel, on `budget` coalitions at most.

    `features`: "jointly" plays patches and words in one game, whose values add up to v(all) - v(none); "apart" plays
    each modality under the whole of the other. `control` fits triples of the leading players too, which takes away most
    of the error on images; off, it is KernelSHAP in complementary pairs.
    """

    budget: int = 2048
    features: Features = "jointly"
    control: bool = False
    card: ClassVar[Card] = Card(
        "shapley/kernel_shap",
        "Shapley values of patches and words by weighted least squares",
        "explainer",
        gives=_BOTH,
        citation="Lundberg & Lee 2017, A unified approach to interpreting model predictions; pixelrules2024",
        departures="coalitions in complementary pairs, by size, without repeats; no penalty; exact where 2^n <= budget",
        passes="budget",
    )

    @property
    def passes(self) -> int:
        return self.budget

    def __call__(self, session: Session) -> list[Attribution]:
        method = estimators.regression if self.control else estimators.kernelshap
        return shared_out(session, games(session, self), self.features, self.budget, method, self.card.name)


@dataclass(frozen=True)
class Permutation(Asking):
    """Mean marginal contributions along random orders of the players, each with its reverse."""

    budget: int = 2048
    features: Features = "jointly"
    card: ClassVar[Card] = Card(
        "shapley/permutation",
        "Shapley values of patches and words, feature by feature along random orders",
        "explainer",
        gives=_BOTH,
        citation="Castro et al. 2009, Polynomial calculation of the Shapley value based on sampling",
        departures="orders come with their reverse; exact where 2^n <= budget",
        passes="budget",
    )

    @property
    def passes(self) -> int:
        return self.budget

    def __call__(self, session: Session) -> list[Attribution]:
        asked = games(session, self)
        return shared_out(session, asked, self.features, self.budget, estimators.permutation, self.card.name)


def shared_out(
    session: Session, asked: list[ModelGame], features: Features, budget: int, method: Estimator, name: str
) -> list[Attribution]:
    """Shapley values of every game, all asked for together; `budget` is per sample, shared by the parts evenly."""
    plans = [(i, part) for i, game in enumerate(asked) for part in parts(game, features)]
    questions = []
    for i, part in plans:
        share = budget // len(parts(asked[i], features))
        question = best(len(part), share, session.rng(i, f"{name}/{part.start}"), method)
        questions.append((asked[i], among(part, asked[i].n, question)))
    scores = [np.full(game.n, np.nan) for game in asked]
    errors = [np.zeros(game.n) for game in asked]
    passes = [0] * len(asked)
    for (i, part), estimate in zip(plans, session.ask(questions), strict=True):
        scores[i][part], errors[i][part] = estimate.values, estimate.standard_error
        passes[i] += estimate.passes
    return [attribution(session, i, game, scores[i], errors[i], passes=passes[i]) for i, game in enumerate(asked)]


def best(n: int, budget: int, rng: np.random.Generator, method: Estimator) -> Question[Estimate]:
    """Exact where all coalitions fit into the budget."""
    if n <= exact.MOST_PLAYERS and 2**n <= budget:
        table = yield from exact.table(n)
        return Estimate(exact.shapley_values(table), np.zeros(n), 2**n, "exact")
    return (yield from method(n, budget, rng))
