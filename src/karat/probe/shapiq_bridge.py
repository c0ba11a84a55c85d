"""Shapley values and interaction indices through shapiq's approximators (SVARM, SVARM-IQ, KernelSHAP-IQ, ...).

shapiq gives no error bars. So the budget is split into a few independent repetitions, and the standard error is that of
their mean. It speaks of chance only: several of these (SVARM among them) are biased while a repetition is too short to
reach all their strata, about n^2 coalitions, and no spread can show that.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from karat.kernel.errors import ExtraMissing, UnknownName
from karat.kernel.typing import Values
from karat.probe.games import Estimate, Game, small_sample

PREFIX = "shapiq/"
REPETITIONS = 6

Array = npt.NDArray[np.float64]


def shapley_values(game: Game, name: str, budget: int, rng: np.random.Generator) -> Estimate:
    """Shapley values (n,) by the shapiq approximator of that name, such as "SVARM" or "KernelSHAP"."""
    kind = _approximator(name, "SV")

    def once(seed: int, budget: int) -> Array:
        result = kind(game.n, random_state=seed).approximate(budget, _callable(game))
        return np.array([result[(i,)] for i in range(game.n)])

    return _repeated(once, name, budget, rng)


def shapley_interactions(
    game: Game, rows: Sequence[int], columns: Sequence[int], name: str, budget: int, rng: np.random.Generator
) -> Estimate:
    """Shapley interaction indices (rows, columns) by the shapiq approximator of that name, such as "SVARMIQ"."""
    kind = _approximator(name, "SII")

    def once(seed: int, budget: int) -> Array:
        approximator = kind(game.n, max_order=2, index="SII", random_state=seed)
        result = approximator.approximate(budget, _callable(game))
        return np.array([[result[tuple(sorted((i, j)))] for j in columns] for i in rows])

    return _repeated(once, name, budget, rng)


def _repeated(once: Callable[[int, int], Array], name: str, budget: int, rng: np.random.Generator) -> Estimate:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Not all budget is required")  # good news, not a warning
        runs = np.stack([once(int(seed), budget // REPETITIONS) for seed in rng.integers(2**31, size=REPETITIONS)])
    error = runs.std(axis=0, ddof=1) / np.sqrt(REPETITIONS) * small_sample(REPETITIONS - 1)
    return Estimate(runs.mean(axis=0), error, budget, PREFIX + name)


def _callable(game: Game) -> Callable[[npt.NDArray[Any]], Values]:
    return lambda coalitions: game.value(np.atleast_2d(coalitions).astype(np.bool_))


def _approximator(name: str, index: str) -> Any:
    try:
        from shapiq import approximator
    except ImportError:
        raise ExtraMissing(f"the method {PREFIX + name!r}", "shapiq", "shapley") from None
    kinds: list[Any] = approximator.SV_APPROXIMATORS if index == "SV" else approximator.SII_APPROXIMATORS
    known = {kind.__name__: kind for kind in kinds}
    if name not in known:
        raise UnknownName(f"shapiq {index} approximator", name, known)
    return known[name]
