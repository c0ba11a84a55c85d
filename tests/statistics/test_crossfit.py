from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from karat.kernel.errors import BadInput
from karat.statistics import auc, cross_fitted_scores, logistic


def twins(seed: int, n: int = 60, gap: float = 1.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """n samples seen by both kinds, three features, of which the first tells them apart by `gap`."""
    rng = np.random.default_rng(seed)
    kind, sample = np.repeat([True, False], n), np.tile(np.arange(n), 2)
    features = rng.normal(size=(2 * n, 3)) + rng.normal(size=(n, 3))[sample] * 0.3
    features[:, 0] += gap * kind
    return features, kind, sample


def test_fit_is_the_minimum_of_the_penalised_loss() -> None:
    x, y, _ = twins(0)
    x = x * [1, 50, 0.01] + [3, 0, -7]
    fit = logistic(x, y, ridge=2.0)
    z = (x - x.mean(axis=0)) / x.std(axis=0)

    def loss(b: np.ndarray) -> float:
        odds = b[0] + z @ b[1:]
        return float(np.logaddexp(0, -np.where(y, odds, -odds)).sum() + b[1:] @ b[1:])

    best = minimize(loss, np.zeros(4), method="BFGS", options={"gtol": 1e-9})
    assert fit.converged
    np.testing.assert_allclose([fit.intercept, *fit.weights], best.x, atol=1e-5)


def test_separable_kinds_and_constant_features_stay_finite() -> None:
    x = np.column_stack([np.r_[np.ones(20), -np.ones(20)], np.full(40, 0.1)])
    fit = logistic(x, np.arange(40) < 20)
    assert fit.converged
    assert np.isfinite(fit.log_odds(x)).all()
    assert fit.weights[1] == 0


def test_scores_of_a_fold_do_not_see_its_labels() -> None:
    x, y, sample = twins(1)
    plain = cross_fitted_scores(x, y, sample, rng=np.random.default_rng(0))
    flipped = y.copy()
    flipped[sample == 5] = ~flipped[sample == 5]
    again = cross_fitted_scores(x, flipped, sample, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(plain[sample == 5], again[sample == 5])
    assert (plain != again).sum() > 60  # while the other folds did see them


def test_blind_features_give_half_and_telling_ones_more() -> None:
    blind = []
    for seed in range(40):
        x, y, sample = twins(seed, gap=0.0)
        scores = cross_fitted_scores(x, y, sample, rng=np.random.default_rng(seed))
        blind.append(auc(scores, y, clusters=sample).value)
    assert np.mean(blind) == pytest.approx(0.5, abs=0.03)
    x, y, sample = twins(99, n=100, gap=2.0)
    assert auc(cross_fitted_scores(x, y, sample, rng=np.random.default_rng(0)), y, clusters=sample).low > 0.8


def test_missing_features_give_missing_scores() -> None:
    x, y, sample = twins(2)
    x[7, 1] = np.nan
    scores = cross_fitted_scores(x, y, sample, rng=np.random.default_rng(0))
    assert np.isnan(scores[7])
    assert np.isnan(scores).sum() == 1


def test_bad_input() -> None:
    x, y, sample = twins(3)
    with pytest.raises(BadInput, match=r"folds must lie in 2\.\.60"):
        cross_fitted_scores(x, y, sample, rng=np.random.default_rng(0), folds=61)
    with pytest.raises(BadInput, match="both kinds"):
        logistic(x, np.ones(120))
    with pytest.raises(BadInput, match="ridge"):
        logistic(x, y, ridge=0)
