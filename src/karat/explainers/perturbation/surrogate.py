"""The local linear model of LIME: which coalitions it is fitted on, how they weigh, and its error bars."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from karat.kernel.errors import BadInput
from karat.kernel.typing import Keep, Values
from karat.probe.exact import coalitions

Sizes = Literal["halves", "even"]
_LISTABLE = 16  # players whose coalitions are listed rather than drawn, where the budget comes near them all


class Fit(NamedTuple):
    """A linear model over players: (n,) each, or (n, k) for k values per coalition."""

    weights: npt.NDArray[np.float64]
    error: npt.NDArray[np.float64]


def neighbours(n: int, budget: int, rng: np.random.Generator, sizes: Sizes = "halves") -> Keep:
    """At most `budget` different coalitions (m, n), the full one first.

    "halves" keeps each player with probability 1/2 (LIME on images); "even" draws the number of absent players evenly
    from 1 to n first (LIME on text). Where there are no more than `budget`, all are given.
    """
    if budget < n + 2:
        raise BadInput(f"a linear model of {n} players needs at least {n + 2} passes; got a budget of {budget}.")
    if n <= _LISTABLE and 2**n <= budget:
        return coalitions(n)[::-1]
    seen: dict[bytes, None] = {np.ones(n, dtype=np.bool_).tobytes(): None}
    while len(seen) < budget and len(seen) < 2**n:
        short = budget - len(seen)
        if sizes == "halves":
            drawn = rng.random((short, n)) < 0.5
        else:
            absent = rng.integers(1, n + 1, (short, 1))
            drawn = np.argsort(np.argsort(rng.random((short, n)), axis=1), axis=1) >= absent
        seen.update((row.tobytes(), None) for row in drawn)
    return np.frombuffer(b"".join(seen), dtype=np.bool_).reshape(len(seen), n)


def closeness(keep: Keep, width: float = 0.25) -> Values:
    """(m,) weight of each coalition: sqrt(exp(-d²/width²)), d the cosine distance to the full one.

    LIME on text scales distances by 100 and uses a width of 25, which is the same.
    """
    distance = 1 - np.sqrt(keep.mean(axis=1))
    return np.asarray(np.exp(-(distance**2) / (2 * width**2)))


def ridge(keep: Keep, values: npt.NDArray[np.float64], weight: Values, penalty: float = 1.0) -> Fit:
    """Weighted ridge regression with a free intercept, of values (m,) or (m, k) on coalitions.

    The error is a jackknife over coalitions (HC3), times the share of coalitions that was not asked.
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
    unseen = 1 - len(keep) / 2.0**n if n < 60 else 1.0
    variance = (toward**2).T @ (residual**2) * unseen
    shape = (n, *values.shape[1:])
    return Fit(b.reshape(shape), np.sqrt(variance).reshape(shape))
