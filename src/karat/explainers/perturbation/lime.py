"""LIME: a linear model around the sample, over superpixels and words, jointly or apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from annotated_types import Ge, Gt

from karat.explainers.coalitional import (
    Budget,
    Coalitional,
    Features,
    ImagePlayers,
    affordable,
    all_fit,
    explain_groups,
    game_of,
    image_players,
    least_of_groups,
    too_small,
)
from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.constraints import checked
from karat.kernel.sample import Sample
from karat.kernel.typing import Image, Keep, Values
from karat.probe.absence import Absence, VisualAbsence
from karat.probe.coalitions import ModelGame
from karat.probe.evaluator import Question
from karat.probe.exact import coalitions
from karat.probe.games import Estimate
from karat.probe.players import Labels, visual_players
from karat.probe.session import Session

SEGMENTS: Literal["segments"] = "segments"  # an absent state that only LIME has: every player in its own mean colour
Sizes = Literal["halves", "even"]
_LISTABLE = 16  # players whose coalitions are listed rather than drawn, where the budget comes near them all


@dataclass(frozen=True)
@checked
class Lime(Coalitional):
    """Ridge regression on `budget` coalitions, weighed by how close they are to the whole sample.

    Args:
        visual, text, text_absence, value: as for `Coalitional`.
        absence: "segments" paints absent superpixels in their own mean colour, as LIME does; or any absent state.
        budget: coalitions per sample.
        features: "apart" (image under the whole question, words under the whole image, half of the budget each),
            "jointly" (one model of both), "image" or "text".
        width: of the kernel that says how close a coalition is.
        penalty: of the ridge.
    """

    visual: ImagePlayers = "superpixels"
    absence: VisualAbsence | Literal["segments"] = SEGMENTS  # type: ignore[assignment]  # one state more than others
    budget: Budget = 1000
    features: Features = "apart"
    width: Annotated[float, Gt(0)] = 0.25
    penalty: Annotated[float, Ge(0)] = 1.0
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

    def refuses(self, n_visual: int, n_text: int) -> str | None:
        least = least_of_groups(n_visual, n_text, self.features, least_neighbours)
        return too_small(self.card.name, self.budget, least, n_visual, n_text)

    def __call__(self, session: Session) -> list[Attribution]:
        played = affordable(self, [self._game(session, i) for i in range(len(session.samples))])
        return explain_groups(session, played, self.features, self.budget, self.card.name, self._estimator)

    def _game(self, session: Session, i: int) -> ModelGame:
        """The game of sample i with LIME's own absent state where that is asked for."""
        sample = session.samples[i]
        if self.absence != SEGMENTS:
            return game_of(session, i, self)
        visual = image_players(session, i, self.visual)
        grid = session.torch_model.layout(session.inputs).grid if visual == "patches" else None
        players = visual_players(visual, sample, grid)
        labels = players.labels_of(*sample.size)
        absence = Absence("given", self.text_absence, image=mean_colours(sample, labels))
        return game_of(session, i, self, visual=visual if players.grid is not None else labels, absence=absence)

    def _estimator(self, game: ModelGame, group: range, budget: int, rng: np.random.Generator) -> Question[Estimate]:
        keep = neighbours(len(group), budget, rng, "even" if group.start >= game.n_visual else "halves")
        values = yield keep
        fit = ridge(keep, values, closeness(keep, self.width), self.penalty)
        return Estimate(fit.weights, fit.error, len(keep), "ridge")


def mean_colours(sample: Sample, labels: Labels) -> Image:
    """The image with every player in its mean colour; pixels of nobody (-1) stay."""
    flat, image = labels.ravel() + 1, sample.image.reshape(-1, 3)
    count = np.maximum(np.bincount(flat), 1)
    means = np.stack([np.bincount(flat, image[:, channel]) / count for channel in range(3)], axis=1)
    painted = np.where(flat[:, None] > 0, np.rint(means[flat]), image)
    return painted.astype(np.uint8).reshape(sample.image.shape)


# ---- the local linear model: which coalitions it is fitted on, how they weigh, its error bars


class Fit(NamedTuple):
    """A linear model over players: (n,) each, or (n, k) for k values per coalition."""

    weights: npt.NDArray[np.float64]
    error: npt.NDArray[np.float64]


def neighbours(n: int, budget: int, rng: np.random.Generator, sizes: Sizes = "halves") -> Keep:
    """At most `budget` different coalitions (m, n), the full one first.

    "halves" keeps each player with probability 1/2 (LIME on images); "even" draws the number of absent players evenly
    from 1 to n first (LIME on text). Where there are no more than `budget`, all are given.
    """
    if n <= _LISTABLE and all_fit(n, budget):
        return coalitions(n)[::-1]
    chosen: dict[bytes, None] = {np.ones(n, dtype=np.bool_).tobytes(): None}
    while len(chosen) < budget and len(chosen) < 2**n:
        short = budget - len(chosen)
        if sizes == "halves":
            drawn = rng.random((short, n)) < 0.5
        else:
            absent = rng.integers(1, n + 1, (short, 1))
            drawn = np.argsort(np.argsort(rng.random((short, n)), axis=1), axis=1) >= absent
        chosen.update((row.tobytes(), None) for row in drawn)
    return np.frombuffer(b"".join(chosen), dtype=np.bool_).reshape(len(chosen), n)


def least_neighbours(n: int) -> int:
    """The smallest budget that a linear model of n players can be fitted on."""
    return n + 2


def closeness(keep: Keep, width: float = 0.25) -> Values:
    """(m,) weight of each coalition: sqrt(exp(-d²/width²)), d the cosine distance to the full one.

    LIME on text scales distances by 100 and uses a width of 25, which is the same.
    """
    distance = 1 - np.sqrt(keep.mean(axis=1))
    return np.asarray(np.exp(-(distance**2) / (2 * width**2)))


def ridge(keep: Keep, values: npt.NDArray[np.float64], weight: Values, penalty: float = 1.0) -> Fit:
    """Weighted ridge regression with a free intercept, of values (m,) or (m, k) on coalitions.

    The error is a jackknife over coalitions (HC3), times the share of coalitions that was not drawn.
    """
    targets = values.reshape(len(values), -1)
    share = weight / weight.sum()
    x = keep - share @ keep
    y = targets - share @ targets
    inverse = np.linalg.inv((x.T * weight) @ x + penalty * np.eye(x.shape[1]))
    toward = x @ inverse  # (m, n)
    b = toward.T @ (weight[:, None] * y)
    leverage = weight * (toward * x).sum(axis=1) + share
    residual = (y - x @ b) * (weight / (1 - np.minimum(leverage, 0.99)))[:, None]
    n = keep.shape[1]
    not_drawn = 1 - len(keep) / 2.0**n if n < 60 else 1.0
    variance = (toward**2).T @ (residual**2) * not_drawn
    shape = (n, *values.shape[1:])
    return Fit(b.reshape(shape), np.sqrt(variance).reshape(shape))
