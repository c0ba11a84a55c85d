"""p-values of sign flips, however small: exact for few values, by their saddlepoint for many.

Under no difference, every value of a sample could as well have had the other sign. With n values there are 2^n
patterns, so p can be as small as 2^(1 - n): counting a few thousand of them at random would put a floor under p, and
Holm's correction over hundreds of comparisons lifts such a floor above every level. The tail of the sum over all
patterns is known without counting, from its cumulants K(t) = sum of log cosh(t d) (Robinson 1982; Lugannani and Rice).
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr

from karat.statistics.estimate import Floats

EXACT = 14  # values up to which all sign patterns are tried
_SLACK = 1e-12  # sums that differ by rounding only count as equal


def sign_flip_p(values: Floats) -> float:
    """Two-sided p of sum(values), NaN-free (n,), among the sums of all patterns of signs.

    >>> sign_flip_p(np.array([0.4, 0.2, 0.3]))
    0.25
    >>> sign_flip_p(np.full(30, 0.1)) == 2.0**-29
    True
    """
    return min(1.0, 2 * upper_tail(values, abs(float(values.sum())))) if values.any() else 1.0


def upper_tail(values: Floats, least: float) -> float:
    """Share of the patterns of signs with a sum of at least `least`."""
    sizes = np.abs(values[values != 0])
    total = float(sizes.sum())
    if not len(sizes):
        return float(least <= 0)
    if len(sizes) <= EXACT:
        flips = 1 - 2 * ((np.arange(2 ** len(sizes))[:, None] >> np.arange(len(sizes))) & 1).astype(np.float64)
        return float((flips @ sizes >= least - _SLACK * total).mean())
    if least < 0:
        return 1 - upper_tail(values, -least)  # the sums are symmetric; a tie has no weight among so many
    return _saddlepoint(sizes / total, least / total)


def _saddlepoint(sizes: Floats, least: float) -> float:
    """Lugannani and Rice's tail of sum(± sizes), whose sizes add up to 1, at 0 <= least <= 1."""
    one = float(2.0 ** -len(sizes))  # the observed pattern itself: no share is smaller
    if least >= 1 - _SLACK:
        return one
    if least <= 1e-9:
        return 0.5

    def slope(t: float) -> float:
        return float((sizes * np.tanh(t * sizes)).sum()) - least

    high = 1.0
    while slope(high) < 0:
        high *= 2
        if high > 1e9:  # the sum is the largest but for rounding
            return one
    t = brentq(slope, 0.0, high, xtol=1e-12, rtol=1e-12)
    x = t * sizes
    cumulant = float((np.logaddexp(x, -x) - np.log(2.0)).sum())
    r = float(np.sqrt(max(2 * (t * least - cumulant), 0.0)))
    v = t * float(np.sqrt((sizes**2 / np.cosh(np.minimum(x, 300)) ** 2).sum()))
    if r < 1e-4 or v <= 0:
        return 0.5 if r < 1e-4 else one
    tail = float(np.exp(log_ndtr(-r - np.log(v / r) / r)))  # Barndorff-Nielsen's form, which stays within 0 and 1
    return min(max(tail, one), 0.5)
