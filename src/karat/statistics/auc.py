"""Area under the ROC curve: how well does one number tell two kinds apart? 0.5 = blind, 1 = sees."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats
from scipy.special import ndtri

from karat.kernel.errors import BadInput
from karat.statistics.estimate import Estimate, Floats, cluster_codes, columns_without_missing


def auc(
    scores: npt.ArrayLike,
    positive: npt.ArrayLike,
    *,
    clusters: npt.ArrayLike | None = None,
    confidence: float = 0.95,
) -> Estimate:
    """AUC of scores (n,) for positive (n,) bool, ties counted half, with an interval; NaN scores are left out.

    The standard error is DeLong's. With `clusters` (one label per row) rows of a cluster may be correlated, within a
    kind and across kinds: both twins judged on the same sample (Obuchowski's extension). The interval is symmetric on
    the logit scale, so it stays in [0, 1]; at an AUC of exactly 0 or 1 the standard error is zero and the bound comes
    from the smaller kind alone (rule of three, generalised). p is of an AUC of one half.

    Args:
        scores: (n,) numbers; NaN is missing.
        positive: (n,) bool, which rows are of the positive kind.
        clusters: (n,) labels of rows that may be correlated.
        confidence: of the interval.

    Returns:
        An `Estimate`, NaN where one kind has no rows.

    Example:
        >>> auc([0.1, 0.4, 0.35, 0.8], [False, False, True, True]).value
        0.75
    """
    (x, kind), keep = columns_without_missing(scores, positive, name="auc")
    dropped = len(keep) - len(x)
    if not np.isin(kind, (0, 1)).all():
        raise BadInput("auc: `positive` must hold only true and false.")
    up, down = x[kind == 1], x[kind == 0]
    if not len(up) or not len(down):
        return Estimate(np.nan, np.nan, np.nan, np.nan, len(x), dropped, confidence)
    wins_up, wins_down = placements(up, down)
    value = float(wins_up.mean())
    influence = np.empty(len(x))
    influence[kind == 1] = (wins_up - value) / len(up)
    influence[kind == 0] = (wins_down - value) / len(down)
    codes = cluster_codes(clusters, keep)
    if clusters is None:
        n_up, n_down = len(up), len(down)
        variance = wins_up.var(ddof=1) / n_up if n_up > 1 else np.nan
        variance += wins_down.var(ddof=1) / n_down if n_down > 1 else np.nan
        units = min(n_up, n_down)
    else:
        sums = np.bincount(codes, influence)
        units = len(sums)
        variance = (sums**2).sum() * units / (units - 1) if units > 1 else np.nan
    se = float(np.sqrt(variance))
    low, high = _logit_interval(value, se, units, confidence)
    p = float(2 * stats.norm.sf(abs(value - 0.5) / se)) if se > 0 else (0.0 if value != 0.5 else 1.0)
    return Estimate(value, se, low, high, len(x), dropped, confidence, p if np.isfinite(se) else np.nan)


def placements(up: Floats, down: Floats) -> tuple[Floats, Floats]:
    """For each positive the share of negatives it beats, for each negative the share of positives that beat it."""
    both = stats.rankdata(np.concatenate([up, down]))
    wins_up = (both[: len(up)] - stats.rankdata(up)) / len(down)
    wins_down = 1 - (both[len(up) :] - stats.rankdata(down)) / len(up)
    return wins_up, wins_down


def roc(scores: npt.ArrayLike, positive: npt.ArrayLike) -> pd.DataFrame:
    """The ROC curve from (0, 0) to (1, 1).

    Args:
        scores: (n,) numbers; NaN is missing.
        positive: (n,) bool, which rows are of the positive kind.

    Returns:
        A frame with threshold (positive from there up), false_positive and true_positive rates.

    Example:
        >>> roc([0.1, 0.4, 0.8], [False, True, True])["true_positive"].tolist()
        [0.0, 0.5, 1.0, 1.0]
    """
    (x, kind), _ = columns_without_missing(scores, positive, name="roc")
    if not len(x) or kind.min() == kind.max():
        raise BadInput("roc: needs scores of both kinds.")
    thresholds = np.unique(x)[::-1]
    up, down = np.sort(x[kind == 1]), np.sort(x[kind == 0])
    rates = [1 - np.searchsorted(group, thresholds, side="left") / len(group) for group in (down, up)]
    start = {"threshold": [np.inf], "false_positive": [0.0], "true_positive": [0.0]}
    rest = {"threshold": thresholds, "false_positive": rates[0], "true_positive": rates[1]}
    return pd.concat([pd.DataFrame(start), pd.DataFrame(rest)], ignore_index=True)


def _logit_interval(value: float, se: float, units: int, confidence: float) -> tuple[float, float]:
    if not np.isfinite(se):
        return np.nan, np.nan
    if se == 0:
        edge = ((1 - confidence) / 2) ** (1 / units)  # units that all agree still allow a true share this low
        return (edge, 1.0) if value > 0.5 else (0.0, 1 - edge) if value < 0.5 else (0.5, 0.5)
    centre = np.log(value / (1 - value))
    wide = float(ndtri((1 + confidence) / 2)) * se / (value * (1 - value))
    low, high = 1 / (1 + np.exp(-(centre - wide))), 1 / (1 + np.exp(-(centre + wide)))
    return float(low), float(high)
