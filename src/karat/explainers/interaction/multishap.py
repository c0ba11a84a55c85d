"""MultiSHAP: the Shapley interaction index of every patch with every word."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from karat.explainers.asking import Asking, ValueKind, games
from karat.explainers.interaction.pair_regression import pair_regression
from karat.explainers.interaction.reducing import Reduce, of_pairs
from karat.explainers.interaction.switching import switched
from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.errors import BadInput
from karat.kernel.typing import Keep
from karat.probe import exact
from karat.probe.coalitions import ModelGame
from karat.probe.evaluator import Question
from karat.probe.games import Estimate, small_sample
from karat.probe.session import Session


@dataclass(frozen=True)
class MultiShap(Asking):
    """I_pt of all pairs from at most `budget` coalitions: exact where 2^n fits, else `estimator`.

    "switching" switches every pair over in a few drawn contexts, and needs 4 (1 + patches)(1 + words) passes or more;
    "regression" gets all pairs from unrelated coalitions, needs somewhat fewer, and is better where values are noise
    but far worse on networks, whose images bring much that a difference cancels. The scalar is the share of positive
    interactions. `variant` "released" lets patch k and word k come and go together, as the public code does, and gives
    no Shapley index.
    """

    absence: str = "grey"
    text_absence: str = "delete"
    value: ValueKind = "auto"
    budget: int = 4096
    estimator: Literal["switching", "regression"] = "switching"
    reduce: Reduce = "mean"
    variant: Literal["paper", "released"] = "paper"
    card: ClassVar[Card] = Card(
        "interaction/multishap",
        "which patch and which word matter together: the Shapley interaction index of every pair",
        "explainer",
        needs=frozenset({"text"}),
        gives=frozenset({"visual", "words", "pairs", "scalar"}),
        citation="Wang & Wang 2026, MultiSHAP; gridvqax2026 A.3; fsyn2026 Eq. 2",
        departures="words rather than word pieces; all pairs from shared coalitions rather than a loop over pairs",
        passes="budget",
    )

    @property
    def passes(self) -> int:
        return self.budget

    def __call__(self, session: Session) -> list[Attribution]:
        asked = with_both(games(session, self), self.card.name)
        found = session.ask(
            [(game, self._question(game, session.rng(i, self.card.name))) for i, game in enumerate(asked)]
        )
        return [
            of_pairs(session, i, game, e.values, e.standard_error, e.passes, self.reduce)
            for i, (game, e) in enumerate(zip(asked, found, strict=True))
        ]

    def _question(self, game: ModelGame, rng: np.random.Generator) -> Question[Estimate]:
        if self.variant == "released":
            return released(game.n_visual, game.n_text, self.budget, rng)
        rows, columns = range(game.n_visual), range(game.n_visual, game.n)
        if game.n <= exact.MOST_PLAYERS and 2**game.n <= self.budget:
            return exactly(game)
        if self.estimator == "regression":
            return pair_regression(game.n, rows, columns, self.budget, rng)
        return switched(game.n_visual, game.n_text, self.budget, rng)


def with_both(asked: list[ModelGame], name: str) -> list[ModelGame]:
    for game in asked:
        if not (game.n_visual and game.n_text):
            raise BadInput(f"{name} needs an image and a question; sample {game.setting.sample.id} lacks one.")
    return asked


def exactly(game: ModelGame) -> Question[Estimate]:
    table = yield from exact.table(game.n)
    indices = exact.shapley_interactions(table)[: game.n_visual, game.n_visual :]
    return Estimate(indices, np.zeros_like(indices), 2**game.n, "exact")


def released(n_visual: int, n_text: int, budget: int, rng: np.random.Generator) -> Question[Estimate]:
    """What the public code computes: players are whole numbers, and number k is patch k and word k at once.

    Delta = v(S+p+t) - v(S+p) - v(S+t) + v(S) over sets S of numbers, sizes drawn evenly; with p = t it is
    v(S) - v(S+p). All pairs share each drawn set, which changes the noise, not the expectation.
    """
    m = max(n_visual, n_text)
    number = np.eye(m, dtype=np.bool_)
    flips = np.concatenate(
        [
            np.zeros((1, m), dtype=np.bool_),
            number,
            (number[:n_visual, None] | number[None, :n_text]).reshape(-1, m),
        ]
    )
    draws = budget // len(flips)
    if draws < 2:
        raise BadInput(f"{n_visual} x {n_text} pairs as released need a budget of {2 * len(flips)}; got {budget}.")
    sizes = rng.integers(0, m + 1, (draws, 1))
    drawn: Keep = np.argsort(np.argsort(rng.random((draws, m)), axis=1), axis=1) < sizes
    keep = (drawn[:, None] ^ flips).reshape(-1, m)
    values = yield np.concatenate([keep[:, :n_visual], keep[:, :n_text]], axis=1)
    values = values.reshape(draws, -1)
    sign = np.where(drawn, -1.0, 1.0)
    alone, single, both = values[:, :1, None], values[:, 1 : m + 1], values[:, m + 1 :].reshape(-1, n_visual, n_text)
    delta = both - single[:, :n_visual, None] - single[:, None, :n_text] + alone
    delta *= sign[:, :n_visual, None] * sign[:, None, :n_text]
    same = np.arange(min(n_visual, n_text))
    delta[:, same, same] = (sign * (values[:, :1] - single))[:, same]
    error = delta.std(axis=0, ddof=1) / np.sqrt(draws) * small_sample(draws - 1)
    return Estimate(delta.mean(axis=0), error, values.size, "released")
