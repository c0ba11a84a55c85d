"""Shapley values of patches and words: exact where the budget allows, estimated with error bars where it does not.

They need nothing but scores; PixelSHAP and TokenSHAP need nothing but answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import sqrt
from typing import ClassVar, Literal

import numpy as np

from karat.explainers.coalitional import (
    Budget,
    Coalitional,
    Features,
    all_fit,
    explain_groups,
    games,
    least_of_groups,
    least_or_all,
    too_small,
)
from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.constraints import checked
from karat.kernel.sample import Sample
from karat.kernel.typing import Keep, Values
from karat.probe import estimators, exact
from karat.probe.absence import CoalitionAbsence, TextAbsence
from karat.probe.batcher import Batcher
from karat.probe.coalitions import ModelGame
from karat.probe.evaluator import Block, Evaluator, Question
from karat.probe.games import Estimate
from karat.probe.session import Session

Method = Callable[[int, int, np.random.Generator], Question[Estimate]]  # players, budget, rng
_card = partial(Card, kind="explainer", gives=frozenset({"visual", "words"}), passes="budget")


@dataclass(frozen=True)
@checked
class KernelShap(Coalitional):
    """Weighted least squares under the Shapley kernel, on `budget` coalitions at most.

    `features`: "jointly" plays patches and words in one game, whose values add up to v(all) - v(none); "apart" plays
    each modality under the whole of the other. `control` fits triples of the leading players too, which takes away most
    of the error on images; off, it is KernelSHAP in complementary pairs. Other parameters: `Coalitional`.

    Called with a `Session` of n samples it returns n attributions: a map of the players of the image, one score per
    word, and a standard error for each.

    Example:
        >>> import karat, numpy as np
        >>> def shares(images, texts):
        ...     return images.mean((1, 2))[:, :2] / 255
        >>> model = karat.models.blackbox(shares, answers=["red", "green"])
        >>> sample = karat.Sample("one", np.full((8, 8, 3), 100, np.uint8), text="which ?")
        >>> [attribution] = KernelShap(visual=(2, 2), absence="black")(karat.probe.Session(model, [sample], ["red"]))
        >>> print(attribution.visual.round(3).tolist(), abs(attribution.words).max().round(3))
        [[0.098, 0.098], [0.098, 0.098]] 0.0
    """

    budget: Budget = 2048
    features: Features = "jointly"
    control: bool = False
    card: ClassVar[Card] = _card(
        "shapley/kernel_shap",
        "Shapley values of patches and words by weighted least squares",
        citation="Lundberg & Lee 2017, A unified approach to interpreting model predictions; pixelrules2024",
        departures="coalitions in complementary pairs, by size, without repeats; no penalty; exact where 2^n <= budget",
    )

    @property
    def passes(self) -> int:
        return self.budget

    def refuses(self, n_visual: int, n_text: int) -> str | None:
        least = least_of_groups(n_visual, n_text, self.features, estimators.least_regression)
        return too_small(self.card.name, self.budget, least, n_visual, n_text)

    def __call__(self, session: Session) -> list[Attribution]:
        method = estimators.regression if self.control else estimators.kernelshap

        def estimator(_: ModelGame, group: range, budget: int, rng: np.random.Generator) -> Question[Estimate]:
            return exact_or(method, len(group), budget, rng)

        return explain_groups(session, games(session, self), self.features, self.budget, self.card.name, estimator)


@dataclass(frozen=True)
@checked
class Permutation(Coalitional):
    """Mean marginal contributions along random orders of the players, each with its reverse.

    `budget` and `features` as for `KernelShap`, other parameters: `Coalitional`.
    """

    budget: Budget = 2048
    features: Features = "jointly"
    card: ClassVar[Card] = _card(
        "shapley/permutation",
        "Shapley values of patches and words, feature by feature along random orders",
        citation="Castro et al. 2009, Polynomial calculation of the Shapley value based on sampling",
        departures="orders come with their reverse; exact where 2^n <= budget",
    )

    @property
    def passes(self) -> int:
        return self.budget

    def refuses(self, n_visual: int, n_text: int) -> str | None:
        least = least_of_groups(n_visual, n_text, self.features, _least_in_orders)
        return too_small(self.card.name, self.budget, least, n_visual, n_text)

    def __call__(self, session: Session) -> list[Attribution]:
        def estimator(_: ModelGame, group: range, budget: int, rng: np.random.Generator) -> Question[Estimate]:
            return exact_or(estimators.permutation, len(group), budget, rng)

        return explain_groups(session, games(session, self), self.features, self.budget, self.card.name, estimator)


@dataclass(frozen=True)
@checked
class PixelShapTokenShap(Coalitional):
    """Objects and words valued by how far the model's answer stays the same without them.

    Players are objects (`visual="objects"`; the background stays, or plays too with "objects_and_background") or
    patches, and words; apart, each under the whole of the other.
    `compare`: "answer" is the cosine of the word counts of two answers, the one given without some features and the
    one given with all; "probability" is what other explainers ask for. `variant`: "paper" gives Shapley values;
    "released" the mean value with a player less the mean without it, over every leave-one-out and random coalitions,
    shifted so that the least is 0 and scaled to add up to 1. Other parameters: `KernelShap`.
    """

    absence: CoalitionAbsence = "black"
    text_absence: TextAbsence = "delete"
    budget: Budget = 1000
    features: Features = "apart"
    compare: Literal["answer", "probability"] = "answer"
    variant: Literal["paper", "released"] = "paper"
    card: ClassVar[Card] = _card(
        "shapley/pixelshap_tokenshap",
        "objects (or patches) and words by how much of the model's own answer depends on them",
        citation="Goldshmidt & Horovicz 2024, TokenSHAP; Goldshmidt 2025, PixelSHAP; gridvqax2026 A.3",
        departures="plain word counts, not TF-IDF, whose weights depend on which coalitions were drawn (the same for "
        "answers of one word); masks are not dilated; answers are not sampled",
    )

    @property
    def passes(self) -> int:
        return self.budget

    def refuses(self, n_visual: int, n_text: int) -> str | None:
        by_players = _least_in_orders if self.variant == "paper" else int  # released: every leave-one-out
        least = least_of_groups(n_visual, n_text, self.features, by_players)
        return too_small(self.card.name, self.budget, least, n_visual, n_text)

    def __call__(self, session: Session) -> list[Attribution]:
        played = games(session, self)
        return explain_groups(
            session,
            played,
            self.features,
            self.budget,
            self.card.name,
            self._estimator,
            evaluator=answer_likeness(session, played) if self.compare == "answer" else None,
            signed=self.variant == "paper",
        )

    def _estimator(self, _: ModelGame, group: range, budget: int, rng: np.random.Generator) -> Question[Estimate]:
        n = len(group)
        if self.variant == "released":
            return released_shares(n, budget, rng)
        enough = budget >= estimators.least_regression(n)
        return exact_or(estimators.kernelshap if enough else estimators.permutation, n, budget, rng)


def exact_or(method: Method, n: int, budget: int, rng: np.random.Generator) -> Question[Estimate]:
    """Shapley values of n players: exact where all coalitions fit into the budget, else by the method."""
    if all_fit(n, budget):
        table = yield from exact.table(n)
        return Estimate(exact.shapley_values(table), np.zeros(n), 2**n, "exact")
    return (yield from method(n, budget, rng))


def _least_in_orders(n: int) -> int:
    return least_or_all(n, estimators.least_permutation(n))


def answer_likeness(session: Session, games: Sequence[ModelGame]) -> Evaluator:
    """An evaluator whose values are how alike the answer to an altered sample is to the session's target."""

    def values(blocks: Sequence[Block]) -> Values:
        samples: list[Sample] = []
        targets: list[tuple[str, int]] = []  # and how many altered samples in a row a value is the mean of
        for block in blocks:
            setting = games[block.game].setting
            altered = [one.altered(block.visual_keep, block.text_keep) for one in setting.each()]
            text = setting.target if isinstance(setting.target, str) else setting.target.text
            for draws in zip(*altered, strict=True):
                samples += draws
                targets.append((text, len(draws)))
        answers = iter(session.model.answer(samples))
        return np.array([np.mean([cosine(next(answers), text) for _ in range(draws)]) for text, draws in targets])

    shapes = [(game.n_visual, game.n_text) for game in games]
    return Evaluator(values, shapes, Batcher(session.batch_size, passes=session.cost.passes))


def cosine(a: str, b: str) -> float:
    """Of the word counts of two answers.

    >>> cosine("two red circles", "two"), cosine("Yes", "no")
    (0.5773502691896258, 0.0)
    """
    left, right = Counter(a.lower().split()), Counter(b.lower().split())
    dot = sum(count * right[word] for word, count in left.items())
    size = sqrt(sum(c * c for c in left.values()) * sum(c * c for c in right.values()))
    return dot / size if size else float(left == right)


def released_shares(n: int, budget: int, rng: np.random.Generator) -> Question[Estimate]:
    """As published code does it: with minus without, no Shapley weights, shifted and scaled. Not a Shapley value."""
    drawn: dict[bytes, None] = {row.tobytes(): None for row in ~np.eye(n, dtype=np.bool_)}
    while len(drawn) < min(budget, 2**n):
        drawn.update((row.tobytes(), None) for row in rng.random((min(budget, 2**n) - len(drawn), n)) < 0.5)
    keep: Keep = np.frombuffer(b"".join(drawn), dtype=np.bool_).reshape(-1, n)
    values = yield keep
    present, absent = keep.sum(axis=0), (~keep).sum(axis=0)
    mean = values @ keep / np.maximum(present, 1) - values @ ~keep / np.maximum(absent, 1)
    shifted = mean - mean.min()
    total = shifted.sum() or 1.0
    centred = values - values.mean()
    variance = centred**2 @ keep / np.maximum(present, 1) ** 2 + centred**2 @ ~keep / np.maximum(absent, 1) ** 2
    error = np.sqrt(variance)
    return Estimate(shifted / total, error / total, len(keep), "released")
