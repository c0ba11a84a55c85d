"""How often the second of a pair is larger: a probability with an interval that holds for any number of pairs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import stats

from karat.statistics.estimate import Estimate, columns_without_missing


def paired_wins(changes: npt.ArrayLike, confidence: float = 0.95) -> Estimate:
    """P(change > 0) + half P(change = 0) over independent pairs.

    The interval is Clopper and Pearson's, with half a win for a tie: under no effect it lies above one half no more
    often than it says, whatever n; a tie has less spread than a coin, so ties only make it safer. p is of one half.

    Args:
        changes: (n,) second less first of each pair; NaN is missing.
        confidence: of the interval.

    Returns:
        An `Estimate`, NaN where no pair is left.

    Example:
        >>> wins = paired_wins([0.3, 0.1, -0.2, 0.0])
        >>> wins.value, round(wins.low, 2), round(wins.high, 2)
        (0.625, 0.12, 0.97)
    """
    (given,), keep = columns_without_missing(changes, name="paired_wins")
    n, dropped = len(given), int((~keep).sum())
    if not n:
        return Estimate(np.nan, np.nan, np.nan, np.nan, 0, dropped, confidence)
    each = (np.sign(given) + 1) / 2
    k, tail = float(each.sum()), (1 - confidence) / 2
    low = float(stats.beta.ppf(tail, k, n - k + 1)) if k > 0 else 0.0
    high = float(stats.beta.isf(tail, k + 1, n - k)) if k < n else 1.0
    more, fewer = (float(stats.binom.sf(count - 1, n, 0.5)) for count in (np.floor(k), np.floor(n - k)))
    return Estimate(k / n, float(np.sqrt(each.var() / n)), low, high, n, dropped, confidence,
                    min(1.0, 2 * min(more, fewer)))  # fmt: skip
