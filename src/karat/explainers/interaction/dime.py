"""DIME: what each modality brings by itself (UC) and what only both together bring (MI), each explained by LIME."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from annotated_types import Ge

from karat.explainers.coalitional import (
    Coalitional,
    ImagePlayers,
    ValueKind,
    affordable,
    attribution,
    game_of,
    image_players,
)
from karat.explainers.cross_pairs import references
from karat.explainers.perturbation.lime import closeness, least_neighbours, neighbours, ridge
from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.constraints import checked
from karat.kernel.target import TargetLike
from karat.kernel.typing import Keep
from karat.probe.absence import CoalitionAbsence
from karat.probe.coalitions import ModelGame
from karat.probe.players import VisualSpec, visual_players
from karat.probe.session import Session

Array = npt.NDArray[np.float64]


class Split(NamedTuple):
    """Unimodal contribution and multimodal interaction of the answer's logit; they add up to it."""

    uc: Array
    mi: Array


@dataclass(frozen=True)
@checked
class Dime(Coalitional):
    """UC = row mean + column mean - grand mean of the logits of N images × N questions; MI = logit - UC.

    LIME alters the sample's image (or its words) in `alterations` ways, and the row (or column) follows. `part` says
    which of the two is explained; the other one then costs nothing in the same session. `batch` is N at most.
    `variant` "released" explains the whole logit where MI is asked for, as the public code of MultiViz does.
    """

    visual: ImagePlayers = "superpixels"
    absence: CoalitionAbsence = "black"
    value: ValueKind = "auto"
    part: Literal["mi", "uc"] = "mi"
    alterations: Annotated[int, Ge(1)] = 100
    batch: Annotated[int, Ge(2)] = 16
    variant: Literal["paper", "released"] = "paper"
    card: ClassVar[Card] = Card(
        "interaction/dime",
        "what image and question bring only together (or each alone), explained by LIME",
        "explainer",
        needs=frozenset({"text"}),
        gives=frozenset({"visual", "words", "scalar"}),
        citation="Lyu et al. 2022, DIME; gridvqax2026 section 5",
        departures="N = 16 at most (100 published); SLIC segments",
        passes="batch² + 2 · alterations · batch",
        extra="vision",
    )

    @property
    def passes(self) -> int:
        return self.batch**2 + 2 * self.alterations * self.batch

    def refuses(self, n_visual: int, n_text: int) -> str | None:
        """Words get as many alterations as their linear model needs; the image gets `alterations`."""
        least = least_neighbours(n_visual)
        if self.alterations >= least:
            return None
        return f"{self.card.name}: {n_visual} visual players need {least} alterations or more; got {self.alterations}."

    def __call__(self, session: Session) -> list[Attribution]:
        samples = range(len(session.samples))
        players = [self._players(session, i) for i in samples]
        members = [references(session, i, self.batch, self.card.name) for i in samples]
        requests: list[tuple[ModelGame, Keep]] = []
        altered: list[tuple[Keep, Keep]] = []
        for i in samples:
            target = session.targets[i]

            def game(j: int, k: int, target: TargetLike = target) -> ModelGame:
                return game_of(session, j, self, visual=players[j], target=target, question=k)

            [own] = affordable(self, [game(i, i)])
            rng = session.rng(i, self.card.name)
            images = neighbours(own.n_visual, self.alterations, rng)
            words = neighbours(own.n_text, max(self.alterations, least_neighbours(own.n_text)), rng, "even")
            altered.append((images, words))
            requests += [(game(j, k), _full(game(j, k))) for j in members[i] for k in members[i]]
            requests += [(game(i, k), _wide(images, game(i, k), text=False)) for k in members[i]]
            requests += [(game(j, i), _wide(words, game(j, i), text=True)) for j in members[i]]
        values = iter(session.evaluate(requests))
        made = []
        for i in samples:
            n = len(members[i])
            matrix = np.concatenate([next(values) for _ in range(n * n)]).reshape(n, n)
            row, column = (np.stack([next(values) for _ in range(n)], axis=1) for _ in range(2))
            images, words = altered[i]
            visual, visual_error = self._explained(images, split_row(matrix, row), row[:, 0])
            by_word, words_error = self._explained(words, split_row(matrix.T, column), column[:, 0])
            whole = split_row(matrix, matrix[:1])
            made.append(
                attribution(
                    session,
                    i,
                    game_of(session, i, self, visual=players[i]),
                    np.concatenate([visual, by_word]),
                    np.concatenate([visual_error, words_error]),
                    passes=n * n + (len(images) + len(words)) * n,
                    scalar=float((whole.mi if self.part == "mi" else whole.uc)[0]),
                )
            )
        return made

    def _players(self, session: Session, i: int) -> VisualSpec:
        """Superpixels are cut once, not once for every question that an image is asked."""
        chosen = image_players(session, i, self.visual)
        if isinstance(chosen, tuple) or chosen == "patches":
            return chosen
        return visual_players(chosen, session.samples[i]).labels_of(*session.samples[i].size)

    def _explained(self, keep: Keep, split: Split, logit: Array) -> tuple[Array, Array]:
        values = split.uc if self.part == "uc" else logit if self.variant == "released" else split.mi
        return ridge(keep, values, closeness(keep))


def split_row(matrix: Array, row: Array) -> Split:
    """UC and MI (m,) of entry (0, 0) of a matrix (N, N) whose first row is replaced by each of `row` (m, N)."""
    n = len(matrix)
    column_mean = (matrix[1:, 0].sum() + row[:, 0]) / n
    grand_mean = (matrix[1:].sum() + row.sum(axis=1)) / n**2
    uc = row.mean(axis=1) + column_mean - grand_mean
    return Split(uc, row[:, 0] - uc)


def _full(game: ModelGame) -> Keep:
    return np.ones((1, game.n), dtype=np.bool_)


def _wide(keep: Keep, game: ModelGame, text: bool) -> Keep:
    joint = np.ones((len(keep), game.n), dtype=np.bool_)
    joint[:, game.n_visual :] = keep if text else True
    joint[:, : game.n_visual] = True if text else keep
    return joint
