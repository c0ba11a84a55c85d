"""F_syn: do the features that an explainer ranks first matter *together*, across image and text? (fsyn2026 Eq. 5-11)"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from karat.kernel.errors import BadInput
from karat.kernel.typing import Keep, Values
from karat.metrics.perturbation import (
    Curve,
    Order,
    Quadrature,
    Rounding,
    first_kept,
    integral,
    local_order,
    step_shares,
)
from karat.probe.evaluator import Evaluator, Question
from karat.probe.exact import coalitions, shapley_interaction
from karat.probe.games import Game, macro_groups

CURVES = ("del_joint", "del_img", "del_txt", "ins_joint", "ins_img", "ins_txt")


@dataclass(frozen=True, eq=False)
class Synergy:
    """`value` is F_syn; `insertion` and `deletion` its two areas; `curves` all eight curves (K,) at `steps` (K,)."""

    value: float
    insertion: float
    deletion: float
    steps: Values
    curves: Mapping[str, Values]

    def __float__(self) -> float:
        return self.value


def synergy(
    game: Game,
    visual_order: Order,
    text_order: Order,
    steps: int = 11,
    rounding: Rounding = "nearest",
    quadrature: Quadrature = "mean",
) -> Synergy:
    """F_syn of one explanation, given as two orders of players, most important first.

    At each step the two-player dividend of "the first share of the image" and "the first share of the text" is taken
    at both ends of the lattice: with everything else present (deletion) and with everything else absent (insertion).
    Additive games score 0. At most 6 K - 8 distinct coalitions are asked for.

    Args:
        game: a `karat.probe.Game` with players of both modalities, or a session's.
        visual_order: visual players, each once, the most important first.
        text_order: text players, likewise; numbered from 0, or as in the game, after the visual ones.
        steps: K points of the curves, none and all of the features included.
        rounding: how many features a share of k / (K - 1) of n is: "nearest", "floor" or "ceil".
        quadrature: "mean" over the steps, as the paper's Riemann sum, or "trapezoid".

    Returns:
        A `Synergy`: its `value` F_syn, the areas `insertion` and `deletion`, and all curves (K,).

    Example:
        >>> product = Game(lambda visual, text: visual.mean(1) * text.mean(1), n_visual=10, n_text=10)
        >>> round(synergy(product, range(10), range(10)).value, 6)  # the mean of k squared
        0.35
    """
    question = synergy_question(game, visual_order, text_order, steps, rounding, quadrature)
    [result] = Evaluator.of(game).run([(0, question)])
    return result


def synergy_question(
    game: Game,
    visual_order: Order,
    text_order: Order,
    steps: int = 11,
    rounding: Rounding = "nearest",
    quadrature: Quadrature = "mean",
) -> Question[Synergy]:
    """F_syn as a question for a shared `Evaluator`: many samples and explainers fill its batches together."""
    if not game.n_visual or not game.n_text:
        raise BadInput(
            f"F_syn needs features of both modalities; got {game.n_visual} visual and {game.n_text} of text."
        )
    shares = step_shares(steps)
    image = first_kept(local_order(visual_order, game, "visual"), game.n_visual, shares, rounding)
    text = first_kept(local_order(text_order, game, "text"), game.n_text, shares, rounding)
    values = yield _coalitions(image, text)
    curves = dict(zip(CURVES, values[:-2].reshape(len(CURVES), steps), strict=True))
    whole, nothing = values[-2], values[-1]
    curves["syn_del"] = curves["del_joint"] - curves["del_img"] - curves["del_txt"] + whole  # fsyn2026 Eq. 8
    curves["syn_ins"] = curves["ins_joint"] - curves["ins_img"] - curves["ins_txt"] + nothing  # fsyn2026 Eq. 9
    deletion, insertion = (integral(curves[name], shares, quadrature) for name in ("syn_del", "syn_ins"))
    return Synergy((insertion + deletion) / 2, insertion, deletion, shares, curves)  # fsyn2026 Eq. 10-11


def _coalitions(image: Keep, text: Keep) -> Keep:
    """All coalitions of Eq. 5-7, curve after curve, then everything and nothing."""
    every_patch, no_patch = np.ones_like(image), np.zeros_like(image)
    every_word, no_word = np.ones_like(text), np.zeros_like(text)
    blocks = [
        (~image, ~text), (~image, every_word), (every_patch, ~text),
        (image, text), (image, no_word), (no_patch, text),
        (every_patch[:1], every_word[:1]), (no_patch[:1], no_word[:1]),
    ]  # fmt: skip
    return np.concatenate([np.concatenate(block, axis=1) for block in blocks])


def macro_interaction(
    game: Game,
    visual_order: Order,
    text_order: Order,
    rng: np.random.Generator,
    steps: int = 11,
    background: int = 6,
) -> Values:
    """What F_syn stands in for: at each step (K,) the exact Shapley interaction of the first share of the image with
    the first share of the text, in a game of 2 + `background` macro players (fsyn2026 appendix D).

    The rest of both modalities is shuffled into `background` bimodal players. Costs up to 2^(2 + background) coalitions
    a step; steps where either share is empty have no such pair and are 0 by definition.

    Args:
        game, visual_order, text_order, steps: as in `synergy`.
        rng: the random stream of the shuffle.
        background: how many players the rest is shared out to.

    Returns:
        (K,) indices.

    Example:
        >>> product = Game(lambda visual, text: visual.mean(1) * text.mean(1), n_visual=4, n_text=4)
        >>> macro_interaction(product, range(4), range(4), np.random.default_rng(0), steps=3).round(6).tolist()
        [0.0, 0.25, 1.0]
    """
    question = macro_question(game, visual_order, text_order, rng, steps, background)
    [result] = Evaluator.of(game).run([(0, question)])
    return result.values


def macro_question(
    game: Game,
    visual_order: Order,
    text_order: Order,
    rng: np.random.Generator,
    steps: int = 11,
    background: int = 6,
) -> Question[Curve]:
    """`macro_interaction` as a question for a shared `Evaluator`: all steps at once, so that batches are full. The
    curve is that of the exact index, its value the mean over the steps."""
    shares = step_shares(steps)
    image = first_kept(local_order(visual_order, game, "visual"), game.n_visual, shares)
    text = first_kept(local_order(text_order, game, "text"), game.n_text, shares)
    paired = [k for k in range(steps) if image[k].any() and text[k].any()]
    table = coalitions(2 + background)  # (2^(2 + background), 2 + background)
    keep = np.empty((len(paired), len(table), game.n), dtype=np.bool_)
    for masks, k in zip(keep, paired, strict=True):
        front = np.flatnonzero(image[k]).tolist(), (np.flatnonzero(text[k]) + game.n_visual).tolist()
        for player, members in enumerate(macro_groups(game, *front, rng, background)):
            masks[:, members] = table[:, player, None]
    values = yield keep.reshape(-1, game.n)
    indices = np.zeros(steps)
    for k, worths in zip(paired, values.reshape(len(paired), len(table)), strict=True):
        indices[k] = shapley_interaction(worths, 0, 1)
    return Curve(float(indices.mean()), shares, indices)
