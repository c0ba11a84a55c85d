"""Means, intervals and ranks of many explainers at once, by one bootstrap over samples that all of them share.

Samples are drawn whole: an explainer's rows on one sample (several models, say) stay together, and every explainer
sees the same draws, so differences and ranks are paired. Many samples are drawn in groups: the spread of a mean over
4,000 groups put together by lot is that over their samples, to about one part in a hundred.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from karat.statistics.bootstrap import intervals, resample_weights

Floats = npt.NDArray[np.float64]
RESAMPLES = 1000
GROUPS = 4000  # samples, or groups of samples, that are drawn at most
_CONFIDENCE = 0.95
_SEED = 20261101  # a page made twice from the same rows is the same page


@dataclass(frozen=True, eq=False)
class Resampled:
    """`mean` (e,) as observed and `draws` (RESAMPLES, e); NaN for an explainer without a single score."""

    mean: Floats
    draws: Floats
    samples: int

    def interval(self) -> tuple[Floats, Floats]:
        """95 % interval of each mean."""
        return intervals(self.draws, _CONFIDENCE, self.samples)

    def ranks(self, better: int, among: npt.NDArray[np.bool_]) -> tuple[Floats, Floats, Floats]:
        """(rank, lowest, highest) of each explainer in `among`, 1 is best; equal means share the better rank.

        `better` is 1 where a higher score is better and -1 where a lower one is. NaN outside `among`.
        """
        among = among & np.isfinite(self.mean)
        rank, low, high = (np.full(len(self.mean), np.nan) for _ in range(3))
        if among.any():
            rank[among] = _rank(better * self.mean[None, among])[0]
            drawn = _rank(better * self.draws[:, among])
            tail = (1 - _CONFIDENCE) / 2
            low[among] = np.quantile(drawn, tail, axis=0, method="lower")  # whole ranks, outwards
            high[among] = np.quantile(drawn, 1 - tail, axis=0, method="higher")
        return rank, low, high

    def differences(self, other: int) -> tuple[Floats, Floats, Floats]:
        """Mean of each minus mean of `other` with its paired 95 % interval."""
        low, high = intervals(self.draws - self.draws[:, [other]], _CONFIDENCE, self.samples)
        return self.mean - self.mean[other], low, high


def resample(sums: Floats, counts: Floats) -> Resampled:
    """Bootstrap the mean of every column. `sums` and `counts` (n samples, e explainers): scores and how many.

    A resample that happens to hold no score of an explainer is NaN for it and left out of its interval.
    """
    above, below = totals(sums, counts)
    with np.errstate(invalid="ignore", divide="ignore"):
        return Resampled(sums.sum(axis=0) / counts.sum(axis=0), above / below, len(sums))


def totals(sums: Floats, counts: Floats) -> tuple[Floats, Floats]:
    """Draws (RESAMPLES, c) of the columns' sums and counts: those of several models add up to those of all."""
    if len(sums) > GROUPS:
        sums, counts = _grouped(sums), _grouped(counts)
    weights = _weights(len(sums))
    if counts.shape[1] and (counts == counts[:, :1]).all():  # the usual case: every explainer has a score everywhere
        return weights @ sums, np.broadcast_to(weights @ counts[:, :1], (RESAMPLES, counts.shape[1]))
    return weights @ sums, weights @ counts


def _grouped(columns: Floats) -> Floats:
    """Rows of samples as rows of groups that are put together by lot, as equal in size as can be."""
    n = len(columns)
    order = _rng().permutation(n)
    starts = np.linspace(0, n, GROUPS + 1).astype(np.intp)[:-1]
    return np.asarray(np.add.reduceat(columns[order], starts, axis=0))


@lru_cache(maxsize=16)
def _weights(n: int) -> Floats:
    """(RESAMPLES, n): how often each resample drew each unit. Kept, since many tables share them."""
    return np.concatenate(list(resample_weights(_rng(), n, RESAMPLES)))


def _rng() -> np.random.Generator:
    return np.random.default_rng(_SEED)


def _rank(goodness: Floats) -> Floats:
    """(b, e): 1 + how many are strictly better; a NaN draw counts as worst."""
    filled = np.where(np.isfinite(goodness), goodness, -np.inf)
    return np.asarray(rankdata(-filled, method="min", axis=1), dtype=np.float64)
