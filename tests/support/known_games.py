"""Games given by the values of all their coalitions, and whether error bars cover the truth."""

from __future__ import annotations

import numpy as np

from karat.probe import Game
from karat.probe.exact import coalitions


def squashed_sum(n: int, seed: int = 0) -> np.ndarray:
    """(2^n,) values of a squashed sum with a pair that matters."""
    rng = np.random.default_rng(seed)
    keep = coalitions(n)
    return 1 / (1 + np.exp(-(keep @ rng.normal(size=n) + 1.5 * keep[:, 0] * keep[:, n - 1] - 0.5)))


def squashed_pairs(n: int, seed: int = 0) -> np.ndarray:
    """(2^n,) values of a squashed sum with a few strong players and two pairs: interactions of every order."""
    rng = np.random.default_rng(seed)
    keep = coalitions(n)
    strong = rng.normal(size=n) * np.where(np.arange(n) < 4, 2.0, 0.3)
    score = keep @ strong - 1 + 1.5 * keep[:, 0] * keep[:, n - 1] - 2 * keep[:, 2] * keep[:, n - 2]
    return np.asarray(1 / (1 + np.exp(-score)))


def game_of(values: np.ndarray, n_visual: int) -> Game:
    """The game of 2^n values, its first players visual."""
    n = len(values).bit_length() - 1
    powers = 1 << np.arange(n)
    return Game(lambda visual, text: values[np.concatenate([visual, text], axis=1) @ powers], n_visual, n - n_visual)


def covered(values: np.ndarray, errors: np.ndarray, truth: np.ndarray) -> float:
    """Share of (runs, players) whose interval of 1.96 errors holds the truth."""
    return float((np.abs(values - truth) <= 1.96 * errors).mean())
