"""Truth per game: exact Shapley and interaction values of a grid twin's own game, in a stated absence.

Anchors and targets say what a mechanism must use. A Shapley-type method answers another question: what each player is
worth in the game of this model and this absent state. On the grid that game has an exact answer. An empty cell that is
hidden stays empty, so in every state that means "empty" empty cells are worth nothing, and objects and phrases are few
enough in sparse scenes to ask for all their coalitions. It is exact for models to which hidden means empty: `gridprog`
by construction, trained twins as far as `karat train verify` shows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from karat.datasets.grid.sample import GridSample
from karat.explainers.coalitional import among_players
from karat.kernel.empty import EMPTY
from karat.kernel.errors import BadInput, UnknownName
from karat.kernel.typing import Values
from karat.probe import exact
from karat.probe.absence import Absence
from karat.probe.coalitions import Kind, ModelGame
from karat.probe.players import TextSpec
from karat.probe.session import Session

MOST = 14  # objects and phrases: 2^14 passes are half a minute of gridprog


@dataclass(frozen=True, eq=False)
class ExactValues:
    """The exact game of one sample. P cells of the grid, T phrases (or words) of the question."""

    cells: Values  # (P,) Shapley values
    text: Values  # (T,) Shapley values; together with the cells they add up to v(all) - v(none)
    pairs: Values  # (P, T) Shapley interaction index of every cell and phrase
    passes: int

    def agreement(self, cells: Values) -> float:
        """Spearman's rank correlation of a method's map (P,) with the exact cells, over all cells."""
        from scipy import stats

        if cells.shape != self.cells.shape:
            raise BadInput(f"the exact values are of {self.cells.shape[0]} cells; got a map of shape {cells.shape}.")
        return float(stats.spearmanr(cells, self.cells).statistic)

    def error(self, cells: Values) -> float:
        """Root mean square error of a method's Shapley values (P,) of the cells, in units of the model's value."""
        return float(np.sqrt(np.mean((cells - self.cells) ** 2)))


def exact_values(
    session: Session, absence: str, value: Kind = "probability", text: TextSpec = "phrases", most: int = MOST
) -> list[ExactValues]:
    """Exact values of every sample's game in one empty state.

    Args:
        session: grid samples with a model and targets.
        absence: white, blur, grey, black or mean.
        value: what the model is asked for.
        text: "phrases" or "words" play along; None holds the question fixed.
        most: objects and phrases that may play; more are refused before the model is asked.

    Example:
        >>> import karat
        >>> samples = karat.datasets.grid.generate("D1_A_F1_d0.3", 1)
        >>> session = karat.probe.Session(karat.load_model("gridprog.pure"), samples, [samples[0].answer])
        >>> [truth] = exact_values(session, "grey", text=None)
        >>> truth.cells.shape, int((truth.cells != 0).sum()) <= 10
        ((36,), True)
    """
    if absence not in EMPTY:
        raise UnknownName("empty state", absence, EMPTY)
    games, members = [], []
    for i, sample in enumerate(session.samples):
        if not isinstance(sample, GridSample):
            raise BadInput(f"exact games are of the grid world; sample {sample.id!r} has no scene.")
        size = sample.scene.world.size
        game = session.game(i, visual=(size, size), text=text, absence=Absence(absence), value=value)
        players = [*np.flatnonzero(sample.scene.cells.ravel()).tolist(), *range(game.n_visual, game.n)]
        if len(players) > most:
            raise BadInput(
                f"sample {sample.id!r} has {len(players)} objects and phrases, 2^{len(players)} coalitions; at most "
                f"{most} are asked for. Take a sparser bucket (d0.3), `text=None`, or raise `most`."
            )
        games.append(game)
        members.append(players)
    questions = [
        (game, among_players(players, game.n, exact.table(len(players))))
        for game, players in zip(games, members, strict=True)
    ]
    tables = session.ask(questions)
    return [_values(*one) for one in zip(games, members, tables, strict=True)]


def _values(game: ModelGame, players: Sequence[int], table: Values) -> ExactValues:
    shapley, pairs = np.zeros(game.n), np.zeros((game.n, game.n))
    shapley[list(players)] = exact.shapley_values(table)
    pairs[np.ix_(players, players)] = exact.shapley_interactions(table)
    image, text = slice(0, game.n_visual), slice(game.n_visual, game.n)
    return ExactValues(shapley[image], shapley[text], pairs[image, text], len(table))
