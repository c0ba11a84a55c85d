"""Means, intervals and ranks of many explainers at once, by one bootstrap over samples that all of them share.

Samples are drawn whole: an explainer's rows on one sample (several models, say) stay together, and every explainer
sees the same draws, so differences and ranks are paired.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from karat.statistics.bootstrap import interval, resample_weights

Floats = npt.NDArray[np.float64]
RESAMPLES = 1000
_CONFIDENCE = 0.95
_SEED = 20261101  # a page made twice from the same rows is the same page
_KEPT = 4_000_000  # draws worth keeping


@dataclass(frozen=True, eq=False)
class Resampled:
    """`mean` (e,) as observed and `draws` (RESAMPLES, e); NaN for an explainer without a single score."""

    mean: Floats
    draws: Floats
    samples: int

    def interval(self) -> tuple[Floats, Floats]:
        """95 % interval of each mean."""
        return _intervals(self.draws, self.mean, self.samples)

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

    def difference(self, one: int, other: int) -> tuple[float, float, float]:
        """Mean of `one` minus mean of `other` with its paired 95 % interval."""
        difference = float(self.mean[one] - self.mean[other])
        return difference, *interval(
            self.draws[:, one] - self.draws[:, other], difference, _CONFIDENCE, units=self.samples
        )


def resample(sums: Floats, counts: Floats) -> Resampled:
    """Bootstrap the mean of every column. `sums` and `counts` (n samples, e explainers): scores and how many.

    A resample that happens to hold no score of an explainer is NaN for it and left out of its interval.
    """
    n = len(sums)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = sums.sum(axis=0) / counts.sum(axis=0)
        blocks = [(w @ sums) / (w @ counts) for w in _weights(n)]
    return Resampled(mean, np.concatenate(blocks), n)


def _weights(n: int) -> Iterable[Floats]:
    """(rows, n) matrices: how often each resample drew each sample. Kept for small n, since many tables share them."""
    return _kept_weights(n) if n * RESAMPLES <= _KEPT else resample_weights(_rng(), n, RESAMPLES)


@lru_cache(maxsize=16)
def _kept_weights(n: int) -> list[Floats]:
    return list(resample_weights(_rng(), n, RESAMPLES))


def _rng() -> np.random.Generator:
    return np.random.default_rng(_SEED)


def _intervals(draws: Floats, mean: Floats, samples: int) -> tuple[Floats, Floats]:
    bounds = [interval(column, value, _CONFIDENCE, units=samples) for column, value in zip(draws.T, mean, strict=True)]
    return np.array([low for low, _ in bounds]), np.array([high for _, high in bounds])


def _rank(goodness: Floats) -> Floats:
    """(b, e): 1 + how many are strictly better; a NaN draw counts as worst."""
    filled = np.where(np.isfinite(goodness), goodness, -np.inf)
    ordered = np.sort(filled, axis=1)
    pairs = zip(ordered, filled, strict=True)
    return 1.0 + np.array([len(row) - np.searchsorted(row, values, side="right") for row, values in pairs])
