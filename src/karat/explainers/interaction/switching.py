"""Interaction indices of all pairs from a handful of contexts: every patch, every word and every pair switched over.

A drawn coalition gives one second difference of every pair for (1 + patches)(1 + words) passes, and these share their
images: patches + 1 of them serve all. A difference cancels whatever the rest of the image does, which on networks is
nearly all there is; so few contexts say more than a regression on as many unrelated coalitions.
"""

from __future__ import annotations

import numpy as np

from karat.kernel.errors import BadInput
from karat.kernel.typing import Keep
from karat.probe.estimators import least_toggled, toggled
from karat.probe.evaluator import Question
from karat.probe.games import Estimate, small_sample

LEAST = 4  # contexts: the fewest whose spread is worth a standard error


def switched(n_visual: int, n_text: int, budget: int, rng: np.random.Generator) -> Question[Estimate]:
    """Shapley interaction indices (n_visual, n_text) of a game, visual players first.

    Sizes are stratified, one context to each stratum; with budget for it, `toggled` adds complements and finer strata.
    """
    n, cost = n_visual + n_text, (1 + n_visual) * (1 + n_text)
    if budget >= least_toggled(n_visual, n_text):
        return (yield from toggled(n, range(n_visual), range(n_visual, n), budget, rng))
    draws = budget // cost
    if draws < LEAST:
        raise BadInput(f"{n_visual} x {n_text} interactions need a budget of {LEAST * cost}; got {budget}.")
    # The size of a context, with the pair taken out, is then spread evenly over 0 .. n - 2, as the index weighs it.
    size = np.floor((np.arange(draws) + rng.random(draws)) / draws * (n + 1)).astype(np.intp)
    rank = np.argsort(np.argsort(rng.random((draws, n)), axis=1), axis=1)
    drawn: Keep = rank < size[:, None]
    keep = (drawn[:, None] ^ switches(n_visual, n_text)).reshape(-1, n)
    values = (yield keep).reshape(draws, 1 + n_visual, 1 + n_text)
    sign = np.where(drawn, -1.0, 1.0)
    delta = values[:, 1:, 1:] - values[:, 1:, :1] - values[:, :1, 1:] + values[:, :1, :1]
    delta *= sign[:, :n_visual, None] * sign[:, None, n_visual:]
    error = delta.std(axis=0, ddof=1) / np.sqrt(draws) * small_sample(draws - 1)
    return Estimate(delta.mean(axis=0), error, len(keep), "switched")


def switches(n_visual: int, n_text: int) -> Keep:
    """((1 + n_visual)(1 + n_text), n) which players are switched over: one patch or none, with one word or none."""
    patch = np.concatenate([np.zeros((1, n_visual), dtype=np.bool_), np.eye(n_visual, dtype=np.bool_)])
    word = np.concatenate([np.zeros((1, n_text), dtype=np.bool_), np.eye(n_text, dtype=np.bool_)])
    return np.concatenate([patch.repeat(len(word), axis=0), np.tile(word, (len(patch), 1))], axis=1)
