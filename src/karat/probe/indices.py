"""The front door: Shapley and Banzhaf values, dividends and interaction indices of a `Game`.

Exact when all 2^n coalitions fit into the budget, estimated with an error bar when not. To answer many games in shared
batches, hand the questions of `exact`, `estimators` and `interactions` to one `Evaluator` instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from karat.kernel.errors import BadInput, UnknownName
from karat.probe import estimators, exact, shapiq_bridge
from karat.probe.estimators import toggled
from karat.probe.evaluator import Evaluator, Question
from karat.probe.exact import Table
from karat.probe.games import Estimate, Game
from karat.probe.shapiq_bridge import PREFIX

BUDGET = 4096  # passes; games of up to 12 players are exact by default

_SHAPLEY: dict[str, Callable[[int, int, np.random.Generator], Question[Estimate]]] = {
    "permutation": estimators.permutation,
    "stratified": estimators.stratified,
    "kernelshap": estimators.kernelshap,
    "regression": estimators.regression,
}
SHAPLEY_METHODS = ("auto", "exact", *_SHAPLEY, "shapiq/<name>")


def shapley(
    game: Game,
    budget: int = BUDGET,
    method: str = "auto",
    rng: np.random.Generator | int = 0,
    batch_size: int = 64,
) -> Estimate:
    """Shapley values of all players, visual first. Never makes more than `budget` passes.

    Args:
        game: any game.
        budget: passes, the empty and the full coalition included.
        method: "auto" is exact if 2^n <= budget, else "regression" (else "permutation", where the budget is too small
            for it); or one of `SHAPLEY_METHODS`, such as "shapiq/SVARM".
        rng: a random stream or its seed.
        batch_size: coalitions that the game is asked for at a time.

    Returns:
        An `Estimate`: `values` (n,), `standard_error` (n,), 0 where exact, and the passes made.

    Example:
        >>> shapley(Game(lambda visual, text: visual[:, 0] & text[:, 0], 1, 1)).values.tolist()
        [0.5, 0.5]
    """
    rng = np.random.default_rng(rng)
    n = game.n
    if method == "auto":
        method = _automatic(n, budget)
    evaluator = Evaluator.of(game, batch_size=batch_size, budget=budget)
    if method == "exact":
        values = exact.shapley_values(_table(evaluator, n, budget))
        return _exactly(values, evaluator)
    if method.startswith(PREFIX):
        result = shapiq_bridge.shapley_values(evaluator.game(), method.removeprefix(PREFIX), budget, rng)
    elif method in _SHAPLEY:
        [result] = evaluator.run([(0, _SHAPLEY[method](n, budget, rng))])
    else:
        raise UnknownName("Shapley method", method, SHAPLEY_METHODS)
    return replace(result, passes=evaluator.passes.made)


def banzhaf(game: Game, budget: int = 2**exact.MOST_PLAYERS, batch_size: int = 64) -> Estimate:
    """Banzhaf values, exact: the mean marginal contribution over all coalitions of the others.

    Args:
        game, budget, batch_size: as in `shapley`.

    Returns:
        An `Estimate`: `values` (n,), and the passes made.

    Example:
        >>> banzhaf(Game(lambda visual, text: visual.all(1), 3)).values.tolist()
        [0.25, 0.25, 0.25]
    """
    evaluator = Evaluator.of(game, batch_size=batch_size, budget=budget)
    return _exactly(exact.banzhaf_values(_table(evaluator, game.n, budget)), evaluator)


def harsanyi(game: Game, budget: int = 2**exact.MOST_PLAYERS, batch_size: int = 64) -> Estimate:
    """Harsanyi dividends, exact: what each coalition adds to what its parts are worth.

    Args:
        game, budget, batch_size: as in `shapley`.

    Returns:
        An `Estimate`: `values` (2^n,), bit i of the index being player i, and the passes made.

    Example:
        >>> harsanyi(Game(lambda visual, text: visual.all(1), 2)).values.tolist()
        [0.0, 0.0, 0.0, 1.0]
    """
    evaluator = Evaluator.of(game, batch_size=batch_size, budget=budget)
    return _exactly(exact.mobius(_table(evaluator, game.n, budget)), evaluator)


def interaction_index(
    game: Game,
    i: int,
    j: int,
    budget: int = BUDGET,
    method: str = "auto",
    rng: np.random.Generator | int = 0,
    batch_size: int = 64,
) -> Estimate:
    """The Shapley interaction index of two players (fsyn2026 Eq. 2).

    Args:
        i, j: their numbers, visual players first.
        game, budget, method, rng, batch_size: as in `interaction_matrix`.

    Returns:
        An `Estimate` of one value; `float()` gives it.

    Example:
        >>> float(interaction_index(Game(lambda visual, text: visual[:, 0] & text[:, 0], 1, 1), 0, 1))
        1.0
    """
    if i == j:
        raise BadInput(f"an interaction needs two different players; got {i} twice.")
    result = interaction_matrix(game, [i], [j], budget, method, rng, batch_size)
    return replace(result, values=result.values[0, 0], standard_error=result.standard_error[0, 0])


def interaction_matrix(
    game: Game,
    rows: Sequence[int] | None = None,
    columns: Sequence[int] | None = None,
    budget: int = BUDGET,
    method: str = "auto",
    rng: np.random.Generator | int = 0,
    batch_size: int = 64,
) -> Estimate:
    """Shapley interaction indices of pairs of players; by default of every visual with every text player.

    Args:
        game: any game.
        rows, columns: player numbers, visual players first.
        budget: passes; never are more made.
        method: "auto" (exact if 2^n <= budget, else "toggled"), "exact", "toggled" or "shapiq/<name>".
        rng: a random stream or its seed.
        batch_size: coalitions that the game is asked for at a time.

    Returns:
        An `Estimate`: `values` (rows, columns), their `standard_error`, and the passes made.

    Example:
        >>> game = Game(lambda visual, text: visual[:, 0] & text[:, 0], n_visual=2, n_text=1)
        >>> interaction_matrix(game).values.tolist()
        [[1.0], [0.0]]
    """
    rng = np.random.default_rng(rng)
    rows = range(game.n_visual) if rows is None else rows
    columns = range(game.n_visual, game.n) if columns is None else columns
    if not (rows and columns and all(0 <= player < game.n for player in (*rows, *columns))):
        raise BadInput(f"interactions need players of 0 to {game.n - 1} on both sides; got {rows} and {columns}.")
    if method == "auto":
        method = "exact" if game.n <= exact.MOST_PLAYERS and 2**game.n <= budget else "toggled"
    evaluator = Evaluator.of(game, batch_size=batch_size, budget=budget)
    if method == "exact":
        table = _table(evaluator, game.n, budget)
        if len(rows) * len(columns) == 1:
            return _exactly(np.array([[exact.shapley_interaction(table, rows[0], columns[0])]]), evaluator)
        return _exactly(exact.shapley_interactions(table)[np.ix_(rows, columns)], evaluator)
    if method.startswith(PREFIX):
        name = method.removeprefix(PREFIX)
        result = shapiq_bridge.shapley_interactions(evaluator.game(), rows, columns, name, budget, rng)
    elif method == "toggled":
        [result] = evaluator.run([(0, toggled(game.n, rows, columns, budget, rng))])
    else:
        raise UnknownName("interaction method", method, ("auto", "exact", "toggled", "shapiq/<name>"))
    return replace(result, passes=evaluator.passes.made)


def _automatic(n: int, budget: int) -> str:
    if n <= exact.MOST_PLAYERS and 2**n <= budget:
        return "exact"
    return "regression" if budget >= estimators.least_regression(n) else "permutation"


def _table(evaluator: Evaluator, n: int, budget: int) -> Table:
    if n <= exact.MOST_PLAYERS and 2**n > budget:
        raise BadInput(f"exact values of {n} players need {2**n} passes; the budget is {budget}.")
    [values] = evaluator.run([(0, exact.table(n))])
    return values


def _exactly(values: Table, evaluator: Evaluator) -> Estimate:
    return Estimate(values, np.zeros_like(values), evaluator.passes.made, "exact")
