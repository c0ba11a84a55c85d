"""Insertion, deletion and SRG: what happens to the answer as features come and go in the order an explainer ranks them.

One modality moves, the other stays whole (fsyn2026 Eq. 1). Curves are kept, so that a page can draw them.

The two curves are mirror images: deletion keeps at each step as many features as insertion does at the step that stands
opposite. A share of half a feature is therefore rounded up by insertion and down by deletion, deletion of an order is
insertion of its reverse, and the expected SRG of a random order is 0 for every game, number of features and steps. Were
both rounded up, any order of five equal features would have an SRG of 1/11.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from karat.kernel.errors import BadInput
from karat.kernel.typing import Keep, Values
from karat.probe.evaluator import Evaluator, Question
from karat.probe.games import Game

Modality = Literal["visual", "text"]
Order = Sequence[int] | npt.NDArray[np.integer]
Rounding = Literal["nearest", "floor", "ceil"]
Quadrature = Literal["mean", "trapezoid"]


@dataclass(frozen=True, eq=False)
class Curve:
    """`values` (K,) at the shares `steps` (K,) of moved features, and the area under it."""

    value: float
    steps: Values
    values: Values

    def __float__(self) -> float:
        return self.value


def insertion(
    game: Game,
    order: Order,
    steps: int = 11,
    modality: Modality = "visual",
    rounding: Rounding = "nearest",
    quadrature: Quadrature = "mean",
) -> Curve:
    """The area under the answer's value while the first features of `order` are added to none. High is good.

    Args:
        game: a `karat.probe.Game`, or a session's.
        order: players of `modality`, each once, the most important first.
        steps: K points of the curve, none and all of the features included.
        modality: "visual" or "text": what moves; the other modality stays whole.
        rounding: how many features a share of k / (K - 1) of n is: "nearest", "floor" or "ceil".
        quadrature: "mean" over the steps, as the paper's Riemann sum, or "trapezoid".

    Returns:
        A `Curve`: its `value`, and `values` (K,) at the shares `steps` (K,).

    Example:
        >>> game = Game(lambda visual, text: visual.mean(1), n_visual=4, n_text=1)
        >>> round(insertion(game, [3, 1, 0, 2], steps=5).value, 6)
        0.5
    """
    return _alone(game, curve_question(game, order, True, steps, modality, rounding, quadrature))


def deletion(
    game: Game,
    order: Order,
    steps: int = 11,
    modality: Modality = "visual",
    rounding: Rounding = "nearest",
    quadrature: Quadrature = "mean",
) -> Curve:
    """The area under the answer's value while the first features of `order` are taken away. Low is good.

    Args:
        game, order, steps, modality, quadrature: as in `insertion`.
        rounding: of the features that insertion adds; deletion keeps as many at the opposite step.

    Returns:
        A `Curve`: its `value`, and `values` (K,) at the shares `steps` (K,).

    Example:
        >>> game = Game(lambda visual, text: visual[:, 3], n_visual=4)
        >>> deletion(game, [3, 1, 0, 2], steps=5).values.tolist()
        [1.0, 0.0, 0.0, 0.0, 0.0]
    """
    return _alone(game, curve_question(game, order, False, steps, modality, rounding, quadrature))


def srg(game: Game, order: Order, steps: int = 11, modality: Modality = "visual") -> float:
    """Symmetric relevance gain: insertion minus deletion (fsyn2026 Eq. 1).

    Args:
        game, order, steps, modality: as in `insertion`.

    Returns:
        A number: 1 is best, 0 is chance, -1 is worst.

    Example:
        >>> game = Game(lambda visual, text: visual[:, 3], n_visual=4)
        >>> round(srg(game, [3, 1, 0, 2], steps=5), 6), round(srg(game, [2, 0, 1, 3], steps=5), 6)
        (0.6, -0.6)
    """
    evaluator = Evaluator.of(game)  # the two curves share their ends
    shared = evaluator.game()
    return insertion(shared, order, steps, modality).value - deletion(shared, order, steps, modality).value


def curve_question(
    game: Game,
    order: Order,
    adding: bool,
    steps: int = 11,
    modality: Modality = "visual",
    rounding: Rounding = "nearest",
    quadrature: Quadrature = "mean",
) -> Question[Curve]:
    """Insertion (`adding`) or deletion as a question for a shared `Evaluator`, where curves share their coalitions."""
    if modality not in ("visual", "text"):
        raise BadInput(f"modality is 'visual' or 'text'; got {modality!r}.")
    shares = step_shares(steps)
    n = game.n_visual if modality == "visual" else game.n_text
    ranked = local_order(order, game, modality)
    moving = first_kept(ranked if adding else ranked[::-1], n, shares, rounding)[:: 1 if adding else -1]
    still = np.ones((steps, game.n_text if modality == "visual" else game.n_visual), dtype=np.bool_)
    values = yield np.concatenate([moving, still] if modality == "visual" else [still, moving], axis=1)
    return Curve(integral(values, shares, quadrature), shares, values)


def _alone(game: Game, question: Question[Curve]) -> Curve:
    [curve] = Evaluator.of(game).run([(0, question)])
    return curve


def step_shares(steps: int) -> Values:
    """0, 1/(K-1), ..., 1."""
    if steps < 2:
        raise BadInput(f"a curve needs at least two steps, none and all of the features; got steps={steps}.")
    return np.linspace(0.0, 1.0, steps)


def first_kept(order: npt.NDArray[np.intp], n: int, shares: Values, rounding: Rounding = "nearest") -> Keep:
    """(K, n) masks of the first share of the order: step k keeps floor(k * n + 0.5) players."""
    offset = {"nearest": 0.5, "floor": 0.0, "ceil": 1.0}.get(rounding)
    if offset is None:
        raise BadInput(f"rounding is 'nearest', 'floor' or 'ceil'; got {rounding!r}.")
    tiny = 1e-9  # 0.3 * 10 is 3 - 4e-16: the count must not hang on that
    counts = np.ceil(shares * n - tiny) if rounding == "ceil" else np.floor(shares * n + offset + tiny)
    rank = np.empty(n, dtype=np.intp)
    rank[order] = np.arange(n)
    return rank[None, :] < counts[:, None]


def integral(values: Values, shares: Values, quadrature: Quadrature = "mean") -> float:
    """The mean over the steps, as the paper's Riemann sum over K steps; or the trapezoid rule on request."""
    if quadrature == "mean":
        return float(values.mean())
    if quadrature == "trapezoid":
        return float(np.trapezoid(values, shares))
    raise BadInput(f"quadrature is 'mean' or 'trapezoid'; got {quadrature!r}.")


def local_order(order: Order, game: Game, modality: Modality) -> npt.NDArray[np.intp]:
    """A permutation of the modality's own players 0..n-1. Text players may also go by their number in the game."""
    players = np.asarray(order, dtype=np.intp)
    n = game.n_visual if modality == "visual" else game.n_text
    if modality == "text" and players.size and players.min() >= game.n_visual > 0:
        players = players - game.n_visual
    if players.shape != (n,) or not np.array_equal(np.sort(players), np.arange(n)):
        raise BadInput(f"the {modality} order must name each of its {n} players once, the first first; got {order!r}.")
    return players


def order_of(scores: npt.ArrayLike, rng: np.random.Generator) -> npt.NDArray[np.intp]:
    """Players by falling score. Ties are broken at random by `rng`: no method gains from how pixels are stored.

    >>> order_of([0.2, 0.9, 0.5], np.random.default_rng(0)).tolist()
    [1, 2, 0]
    """
    flat = np.asarray(scores, dtype=np.float64).ravel()
    return np.lexsort((rng.permutation(flat.size), -flat))
