"""Permutation tests of a mean difference: no distribution assumed, only that labels could have been exchanged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from karat.kernel.errors import BadInput
from karat.statistics.estimate import cluster_sums, columns_without_missing
from karat.statistics.sign_flips import EXACT, sign_flip_p, upper_tail

Alternative = Literal["greater", "less", "two-sided"]


@dataclass(frozen=True)
class Permutation:
    """`difference` is mean(first) - mean(second); p is exact where every labelling was tried."""

    difference: float
    p: float
    exact: bool
    n: int
    n_dropped: int


def sign_flip_test(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    *,
    alternative: Alternative = "two-sided",
    clusters: npt.ArrayLike | None = None,
) -> Permutation:
    """Paired test: under no difference the two scores of a pair could be swapped. Incomplete pairs are left out.

    With `clusters` all pairs of a cluster swap together. p counts the observed labelling, so it is never zero, and is
    exact up to 14 pairs that differ; beyond, it is the saddlepoint of the same distribution, which has no floor but
    2^(1 - pairs): a true difference survives the correction for any number of comparisons.

    Args:
        first: (n,) numbers; NaN is missing.
        second: (n,), the other score of each pair.
        alternative: "two-sided", "greater" (first is) or "less".
        clusters: (n,) labels; pairs of one cluster swap together.

    Returns:
        A `Permutation`.

    Example:
        >>> sign_flip_test([0.9, 0.8, 0.7], [0.5, 0.6, 0.4]).p
        0.25
    """
    (a, b), keep = columns_without_missing(first, second, name="sign_flip_test")
    if alternative not in get_args(Alternative):
        raise BadInput(f"alternative must be greater, less or two-sided, got {alternative!r}.")
    dropped = len(keep) - len(a)
    if not len(a):
        return Permutation(np.nan, np.nan, False, 0, dropped)
    sums = cluster_sums((a - b)[:, None], clusters, keep)[0][:, 0]
    if alternative == "two-sided":
        p = sign_flip_p(sums)
    else:
        p = upper_tail(sums, float(sums.sum()) * (1 if alternative == "greater" else -1))
    return Permutation(float((a - b).mean()), p, bool(np.count_nonzero(sums) <= EXACT), len(a), dropped)


def shuffle_test(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    *,
    rng: np.random.Generator,
    alternative: Alternative = "two-sided",
    resamples: int = 9999,
) -> Permutation:
    """Two independent groups: under no difference any row could have been in either. NaN rows are left out.

    Args:
        first: (n,) numbers; NaN is missing.
        second: (m,) numbers of other rows.
        rng: the random stream of the labellings.
        alternative: "two-sided", "greater" (first is) or "less".
        resamples: how many labellings are tried.

    Returns:
        A `Permutation`.

    Example:
        >>> test = shuffle_test([0.9, 0.8, 0.7, 0.9], [0.1, 0.2, 0.1, 0.3], rng=np.random.default_rng(0))
        >>> round(test.difference, 3), test.p < 0.05
        (0.65, True)
    """
    a, b = (columns_without_missing(column, name="shuffle_test")[0][0] for column in (first, second))
    dropped = len(np.atleast_1d(first)) + len(np.atleast_1d(second)) - len(a) - len(b)
    if not len(a) or not len(b):
        return Permutation(np.nan, np.nan, False, len(a) + len(b), dropped)
    pooled = np.concatenate([a, b])
    pooled_mean = float(pooled.mean())
    centred = pooled - pooled_mean
    totals = np.array([rng.permutation(centred)[: len(a)].sum() for _ in range(resamples)])
    observed = float(centred[: len(a)].sum())  # with the pooled mean fixed, the sum of one group orders the differences
    p = _share(totals, observed, alternative, float(np.abs(centred).sum()))
    return Permutation(float(a.mean() - b.mean()), p, False, len(pooled), dropped)


def _share(totals: npt.NDArray[np.float64], observed: float, alternative: Alternative, size: float) -> float:
    """Share of labellings, the observed one among them, at least as extreme as it; sums that differ by rounding only
    count as equal."""
    slack = 1e-12 * size
    if alternative == "greater":
        extreme = totals >= observed - slack
    elif alternative == "less":
        extreme = totals <= observed + slack
    elif alternative == "two-sided":
        extreme = np.abs(totals) >= abs(observed) - slack
    else:
        raise BadInput(f"alternative must be greater, less or two-sided, got {alternative!r}.")
    return float((np.count_nonzero(extreme) + 1) / (len(totals) + 1))
