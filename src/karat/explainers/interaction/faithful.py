"""Two other interaction indices: Faith-Shap through shapiq, and the weighted Banzhaf index."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from karat.explainers.asking import Asking, ValueKind, games
from karat.explainers.interaction.multishap import with_both
from karat.explainers.interaction.reducing import Reduce, of_pairs
from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.errors import BadInput, ExtraMissing
from karat.probe import exact
from karat.probe.coalitions import ModelGame
from karat.probe.evaluator import Question
from karat.probe.games import Estimate, Game, small_sample
from karat.probe.session import Session

REPETITIONS = 3  # shapiq gives no error bars: they come from the spread of so many runs
_PAIRS = frozenset({"visual", "words", "pairs", "scalar"})


@dataclass(frozen=True)
class FaithShap(Asking):
    """The Faithful Shapley interaction index of order 2: the pairs of the best quadratic model under Shapley's kernel.

    Samples are asked one after the other (shapiq drives), each in full batches and from the session's memory.
    """

    value: ValueKind = "auto"
    budget: int = 4096
    reduce: Reduce = "mean"
    card: ClassVar[Card] = Card(
        "interaction/faith_shap",
        "patches and words that matter together, by the best quadratic model of the answer",
        "explainer",
        needs=frozenset({"text"}),
        gives=_PAIRS,
        citation="Tsai et al. 2023, Faith-Shap; Muschalik et al. 2024, shapiq",
        passes="budget",
        extra="shapley",
    )

    @property
    def passes(self) -> int:
        return self.budget

    def __call__(self, session: Session) -> list[Attribution]:
        found = []
        for i, game in enumerate(with_both(games(session, self), self.card.name)):
            estimate = faith_shap(game, self.budget, session.rng(i, self.card.name))
            found.append(
                of_pairs(session, i, game, estimate.values, estimate.standard_error, estimate.passes, self.reduce)
            )
        return found


@dataclass(frozen=True)
class WeightedBanzhaf(Asking):
    """E[Delta_ij(S)] where every other player is in S with probability `share`, by least squares on such coalitions.

    Under that product measure the features of a quadratic model are orthogonal, so its pair coefficients are the index.
    """

    value: ValueKind = "auto"
    budget: int = 4096
    share: float = 0.5
    reduce: Reduce = "mean"
    card: ClassVar[Card] = Card(
        "interaction/weighted_banzhaf",
        "patches and words that matter together, averaged over random contexts of a chosen size",
        "explainer",
        needs=frozenset({"text"}),
        gives=_PAIRS,
        citation="Marichal & Mathonet 2011, Weighted Banzhaf power and interaction indexes",
        departures="not through shapiq, whose Banzhaf index knows share = 0.5 only; equal to it there",
        passes="budget",
    )

    @property
    def passes(self) -> int:
        return self.budget

    def __call__(self, session: Session) -> list[Attribution]:
        if not 0 < self.share < 1:
            raise BadInput(f"share is a probability between 0 and 1; got {self.share}.")
        asked = with_both(games(session, self), self.card.name)
        found = session.ask(
            [
                (game, banzhaf_pairs(game, self.budget, self.share, session.rng(i, self.card.name)))
                for i, game in enumerate(asked)
            ]
        )
        return [
            of_pairs(session, i, game, e.values, e.standard_error, e.passes, self.reduce)
            for i, (game, e) in enumerate(zip(asked, found, strict=True))
        ]


def faith_shap(game: Game, budget: int, rng: np.random.Generator) -> Estimate:
    """FSII (n_visual, n_text) of order 2 by shapiq's regression; exact where all coalitions fit into the budget."""
    try:
        from shapiq.approximator import RegressionFSII
    except ImportError:
        raise ExtraMissing("interaction/faith_shap", "shapiq", "shapley") from None
    n = game.n
    all_of_them = n <= exact.MOST_PLAYERS and 2**n <= budget
    runs = 1 if all_of_them else REPETITIONS
    least = REPETITIONS * (n * (n + 1) // 2 + 2)
    if not all_of_them and budget < least:
        raise BadInput(f"Faith-Shap of {n} players needs a budget of {least}; got {budget}.")

    def value(coalitions: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
        return game.value(np.atleast_2d(coalitions).astype(np.bool_))

    found = []
    for seed in rng.integers(2**31, size=runs):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Not all budget is required")  # good news, not a warning
            result = RegressionFSII(n, max_order=2, random_state=int(seed)).approximate(budget // runs, value)
        found.append([[result[(i, j)] for j in range(game.n_visual, n)] for i in range(game.n_visual)])
    indices = np.array(found)
    if all_of_them:
        return Estimate(indices[0], np.zeros_like(indices[0]), 2**n, "exact")
    error = indices.std(axis=0, ddof=1) / np.sqrt(runs) * small_sample(runs - 1)
    return Estimate(indices.mean(axis=0), error, budget // runs * runs, "shapiq/RegressionFSII")


def banzhaf_pairs(game: ModelGame | Game, budget: int, share: float, rng: np.random.Generator) -> Question[Estimate]:
    """Weighted Banzhaf interactions (n_visual, n_text)."""
    n, r, c = game.n, game.n_visual, game.n_text
    listed = n <= exact.MOST_PLAYERS and 2**n <= budget
    features = 1 + n + r * c
    if not listed and budget < 2 * features:
        raise BadInput(f"{r} x {c} pairs need a budget of {2 * features}; got {budget}.")
    keep = exact.coalitions(n) if listed else rng.random((budget, n)) < share
    values = yield keep
    size = keep.sum(axis=1)
    # listed coalitions weigh as likely as they are; drawn ones came as often as they are likely
    weight = share**size * (1 - share) ** (n - size) if listed else np.full(len(keep), 1 / len(keep))
    scale = np.sqrt(share * (1 - share))
    z = (keep - share) / scale
    pairs = (z[:, :r, None] * z[:, None, r:]).reshape(len(z), -1)
    design = np.concatenate([pairs, z, np.ones((len(z), 1))], axis=1)
    root = np.sqrt(weight)[:, None]
    inverse = np.linalg.pinv((design * root).T @ (design * root), hermitian=True)
    toward = (design * weight[:, None]) @ inverse
    b = toward.T @ values
    leverage = (toward * design).sum(axis=1)
    residual = (values - design @ b) / (1 - np.minimum(leverage, 0.99))
    error = np.zeros(r * c) if listed else np.sqrt((toward[:, : r * c] ** 2).T @ residual**2)
    passes = len(np.unique(keep, axis=0))
    name = "exact" if listed else "least squares"
    return Estimate((b[: r * c] / scale**2).reshape(r, c), (error / scale**2).reshape(r, c), passes, name)
