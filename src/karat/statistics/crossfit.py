"""A small logistic regression, and scores from it that no row had a hand in: fitted on the other folds.

For the verdict: from a few numbers per explanation, which twin made it? Folds keep groups (samples) whole, so that
a sample seen with one twin cannot tell about the other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import expit

from karat.kernel.errors import BadInput
from karat.statistics.estimate import Floats


@dataclass(frozen=True)
class Logistic:
    """Log-odds are `intercept` + standardised features @ `weights`; features that never vary have weight zero."""

    intercept: float
    weights: Floats  # (c,), on the scale of one standard deviation
    centre: Floats  # (c,)
    scale: Floats  # (c,)
    converged: bool

    def log_odds(self, features: npt.ArrayLike) -> Floats:
        """(n, c) to (n,); NaN where a feature is missing."""
        standard = (np.asarray(features, dtype=np.float64) - self.centre) / self.scale
        return np.asarray(self.intercept + standard @ self.weights)


def logistic(features: npt.ArrayLike, positive: npt.ArrayLike, *, ridge: float = 1.0) -> Logistic:
    """Ridge logistic regression of positive (n,) on features (n, c) by Newton's method; rows with NaN are left out.

    Features are standardised; the penalty is ridge / 2 times the squared weights, the intercept is free. The penalty
    keeps the weights finite where the kinds separate fully.

    Args:
        features: (n, c) numbers; a row with NaN is missing.
        positive: (n,) bool.
        ridge: strength of the penalty.

    Returns:
        A `Logistic`.

    Example:
        >>> fit = logistic([[0.0], [1.0], [2.0], [3.0]], [False, False, True, True])
        >>> bool(fit.weights[0] > 0), round(fit.intercept, 6) == 0
        (True, True)
    """
    x, y = _rows(features, positive)
    keep = ~np.isnan(x).any(axis=1) & ~np.isnan(y)
    x, y = x[keep], y[keep]
    if not len(y) or y.min() == y.max():
        raise BadInput("logistic: needs complete rows of both kinds.")
    if ridge <= 0:
        raise BadInput(f"logistic: ridge must be positive, got {ridge}.")
    centre, scale = x.mean(axis=0), x.std(axis=0)
    varies = scale > 1e-12 * np.maximum(np.abs(centre), 1e-300)
    scale = np.where(varies, scale, np.inf)  # a constant feature says nothing
    design = np.column_stack([np.ones(len(y)), (x - centre) / scale])
    penalty = np.full(design.shape[1], ridge)
    penalty[0] = 0.0
    beta = np.zeros(design.shape[1])
    loss = _loss(design, y, beta, penalty)
    converged = False
    for _ in range(100):
        chance = expit(design @ beta)
        gradient = design.T @ (chance - y) + penalty * beta
        curve = (design * (chance * (1 - chance))[:, None]).T @ design + np.diag(penalty)
        curve[0, 0] += 1e-12
        step = np.linalg.solve(curve, gradient)
        size = 1.0
        while size > 1e-8 and _loss(design, y, beta - size * step, penalty) > loss + 1e-12:
            size /= 2
        beta = beta - size * step
        loss = _loss(design, y, beta, penalty)
        if np.abs(gradient).max() < 1e-8 * len(y):
            converged = True
            break
    return Logistic(float(beta[0]), beta[1:], centre, scale, converged)


def cross_fitted_scores(
    features: npt.ArrayLike,
    positive: npt.ArrayLike,
    groups: npt.ArrayLike,
    *,
    rng: np.random.Generator,
    folds: int = 5,
    ridge: float = 1.0,
) -> Floats:
    """Log-odds (n,) of each row under a model fitted without its fold; NaN where a feature or the label is missing.

    Groups (n,) are dealt to folds at random and whole. Log-odds mean the same in every fold (zero = even odds), so
    one AUC may be taken over all of them; deal both kinds in each group, or the folds' own shares of the kinds leak.

    Args:
        features: (n, c) numbers.
        positive: (n,) bool.
        groups: (n,) labels; a group stays in one fold.
        rng: the random stream that deals the folds.
        folds: how many.
        ridge: as in `logistic`.

    Returns:
        (n,) log-odds.

    Example:
        >>> features, kinds = [[0.0], [1.0]] * 6, [False, True] * 6
        >>> scores = cross_fitted_scores(features, kinds, np.repeat(range(6), 2), rng=np.random.default_rng(0))
        >>> bool((scores[1::2] > scores[::2]).all())
        True
    """
    x, y = _rows(features, positive)
    labels = pd.Series(groups)
    if len(labels) != len(y) or labels.isna().any():
        raise BadInput(f"cross_fitted_scores: expected one group per row, {len(y)}, none missing; got {len(labels)}.")
    codes, names = pd.factorize(labels, sort=True)
    if not 2 <= folds <= len(names):
        raise BadInput(f"cross_fitted_scores: folds must lie in 2..{len(names)} (the number of groups), got {folds}.")
    deal = np.empty(len(names), dtype=np.intp)
    deal[rng.permutation(len(names))] = np.arange(len(names)) % folds
    fold = deal[codes]
    scores = np.full(len(y), np.nan)
    for k in range(folds):
        scores[fold == k] = logistic(x[fold != k], y[fold != k], ridge=ridge).log_odds(x[fold == k])
    scores[np.isnan(y)] = np.nan
    return scores


def _rows(features: npt.ArrayLike, positive: npt.ArrayLike) -> tuple[Floats, Floats]:
    x, y = np.asarray(features, dtype=np.float64), np.asarray(positive, dtype=np.float64)
    if x.ndim != 2 or y.shape != x.shape[:1]:
        raise BadInput(f"logistic: expected features (n, c) and labels (n,), got {x.shape} and {y.shape}.")
    if np.isinf(x).any() or not np.isin(y[~np.isnan(y)], (0, 1)).all():
        raise BadInput("logistic: features must be finite and labels true or false.")
    return x, y


def _loss(design: Floats, y: Floats, beta: Floats, penalty: Floats) -> float:
    odds = design @ beta
    return float(np.logaddexp(0, odds).sum() - y @ odds + 0.5 * penalty @ beta**2)
