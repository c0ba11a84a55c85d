"""Intervals of proportions and of differences of hits, which resampling cannot give: no draw from 0 of 3 is above 0.

Hits that share a cluster (predictions of one image) count as fewer: their number is divided by the design effect, the
variance of the mean by clusters over that of independent hits (Korn and Graubard 1998).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import stats

from karat.kernel.errors import BadInput
from karat.kernel.proportion import effective_number, exact_interval
from karat.statistics.estimate import Estimate, Floats, cluster_sums, columns_without_missing


def proportion(hits: npt.ArrayLike, *, clusters: npt.ArrayLike | None = None, confidence: float = 0.95) -> Estimate:
    """A share of hits with Clopper and Pearson's interval, which covers at least as often as it says.

    Args:
        hits: (n,) 0 or 1, or between for hits that are shared (two tie for the first place, one of them is right); NaN
            is missing.
        clusters: (n,) labels of hits that may go together.
        confidence: of the interval.

    Returns:
        An `Estimate`; nothing is tested, so p is NaN.

    Example:
        >>> share = proportion([0, 0, 0])
        >>> share.value, share.low, round(share.high, 3)
        (0.0, 0.0, 0.708)
    """
    (kept,), keep = columns_without_missing(hits, name="proportion")
    if len(kept) and not (kept.min() >= 0 and kept.max() <= 1):
        raise BadInput(f"proportion: hits lie between 0 and 1; got values from {kept.min():g} to {kept.max():g}.")
    dropped = len(keep) - len(kept)
    if not len(kept):
        return Estimate(np.nan, np.nan, np.nan, np.nan, 0, dropped, confidence)
    value = float(kept.mean())
    sums, counts = cluster_sums(kept[:, None], clusters, keep)
    n = effective_number(sums[:, 0], counts, value, value * (1 - value), confidence)
    low, high = exact_interval(value, n, confidence)
    return Estimate(value, float(np.sqrt(value * (1 - value) / n)), low, high, len(kept), dropped, confidence)


def difference_of_hits(
    differences: Floats, clusters: npt.ArrayLike | None, keep: npt.NDArray[np.bool_], confidence: float
) -> tuple[float, float, float]:
    """(se, low, high) of the mean of paired differences of hits, each -1, 0 or 1 (Bonett and Price 2012): one pair of
    either kind that was not drawn is counted in."""
    value = float(differences.mean())
    spread = float((differences**2).mean()) - value**2
    sums, counts = cluster_sums(differences[:, None], clusters, keep)
    n = effective_number(sums[:, 0], counts, value, spread, confidence)
    up, down = ((float((sign * differences > 0).mean()) * n + 1) / (n + 2) for sign in (1, -1))
    se = float(np.sqrt(max(up + down - (up - down) ** 2, 0.0) / (n + 2)))
    reach = float(stats.t.isf((1 - confidence) / 2, max(len(sums) - 1, 1))) * se
    return se, max(up - down - reach, -1.0), min(up - down + reach, 1.0)
