"""One number with its interval: what every function of this room that estimates something returns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from karat.kernel.errors import BadInput

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A value, its standard error and interval, the rows used and the rows left out because they were missing.

    `low`, `high` and `se` are NaN where they were not asked for or the data cannot give them. `p` is of the
    hypothesis that the value is zero (a correlation, a difference); NaN where nothing is tested.
    """

    value: float
    se: float
    low: float
    high: float
    n: int
    n_dropped: int
    confidence: float = 0.95
    p: float = float("nan")


def columns_without_missing(
    *columns: npt.ArrayLike, name: str
) -> tuple[list[npt.NDArray[np.float64]], npt.NDArray[np.bool_]]:
    """Equally long 1-d columns as floats, without the rows where any of them is NaN, and the mask of rows kept."""
    arrays = [np.asarray(column, dtype=np.float64) for column in columns]
    if any(a.ndim != 1 for a in arrays) or len({len(a) for a in arrays}) > 1:
        raise BadInput(f"{name}: expected 1-d arrays of one length, got shapes {[a.shape for a in arrays]}.")
    if any(np.isinf(a).any() for a in arrays):
        raise BadInput(f"{name}: infinite values; drop them or make them NaN.")
    keep = np.asarray(~np.isnan(np.column_stack(arrays)).any(axis=1))
    return [a[keep] for a in arrays], keep


def cluster_codes(clusters: npt.ArrayLike | None, keep: npt.NDArray[np.bool_]) -> npt.NDArray[np.intp]:
    """Cluster number of every row kept; each row by itself where no clusters are given."""
    n = int(keep.sum())
    if clusters is None:
        return np.arange(n)
    labels = pd.Series(clusters)
    if len(labels) != len(keep):
        raise BadInput(f"clusters: expected one label per row, {len(keep)}, got {len(labels)}.")
    if labels.isna().any():
        raise BadInput("clusters: every row needs a label, some are missing.")
    return pd.factorize(labels[keep])[0].astype(np.intp)


def cluster_sums(rows: Floats, clusters: npt.ArrayLike | None, keep: npt.NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Sums (g, c) and sizes (g,) of the clusters that rows (n, c), already without the missing, fall into."""
    codes = cluster_codes(clusters, keep)
    counts = np.bincount(codes).astype(np.float64)
    by_column = [np.bincount(codes, column, minlength=len(counts)) for column in rows.T]
    sums = np.column_stack(by_column).astype(np.float64)
    return sums, counts
