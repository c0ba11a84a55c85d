"""Shapley values to a stated error: trials stop in time, are pooled by their error, and cover the exact values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from bounds import outside

from karat.kernel.constraints import parameter_types
from karat.kernel.errors import BadInput
from karat.probe import Estimate, Evaluator, Game
from karat.probe.exact import coalitions, shapley_values
from karat.probe.trials import Effort, Method, PooledEstimate, pooled_shapley


def pooled(game: Game, effort: Effort, seed: int = 0) -> tuple[PooledEstimate, Evaluator]:
    evaluator = Evaluator.of(game)
    question = pooled_shapley(game.n, effort, lambda trial: np.random.default_rng((seed, trial)))
    return evaluator.run([(0, question)])[0], evaluator


def test_small_games_are_exact() -> None:
    weights = np.linspace(0.02, 0.18, 9)
    estimate, evaluator = pooled(Game(lambda visual, text: visual @ weights, 9), Effort(budget=512))
    assert (estimate.method, estimate.passes, evaluator.passes.made) == ("exact", 512, 512)
    np.testing.assert_allclose(estimate.values, weights, atol=1e-12)
    assert estimate.error == estimate.spread == 0.0


@pytest.mark.parametrize("method", ["regression", "permutation", "stratified", "kernelshap"])
def test_estimates_lie_within_three_standard_errors_of_exact_values(method: Method) -> None:
    rng = np.random.default_rng(5)
    weight, pairs = rng.normal(0.4, 0.6, 16), rng.normal(0, 0.25, (16, 16))

    def value(keep: np.ndarray, text: np.ndarray | None = None) -> np.ndarray:
        kept = keep.astype(float)
        return 1 / (1 + np.exp(3 - kept @ weight - ((kept @ pairs) * kept).sum(1)))

    exact = shapley_values(value(coalitions(16)))
    effort = Effort(method, budget=300, trials=4, error=0.0)
    estimates = [pooled(Game(value, 16), effort, seed)[0] for seed in range(3)]
    away = np.array([(estimate.values - exact) / estimate.standard_error for estimate in estimates])
    # 48 normal deviates: one beyond three is a chance of 12 %, two of 1 %
    assert (np.abs(away) > 3).sum() <= 1
    assert np.abs(away).mean() > 0.2  # error bars that are far too wide would pass the line above
    gain = value(np.ones((1, 16)))[0] - value(np.zeros((1, 16)))[0]
    for estimate in estimates:
        assert len(estimate.trials) == 4
        assert estimate.passes <= 4 * 300
        assert estimate.values.sum() == pytest.approx(gain, abs=1e-9)
        assert 0.3 * estimate.error < estimate.spread < 3 * estimate.error


def test_trials_stop_when_the_error_is_small_enough_but_are_two_at_least() -> None:
    game = Game(lambda visual, text: 0.9 * (visual.mean(1) > 0.5), 16)
    easy, _ = pooled(game, Effort(budget=200, trials=6, error=1.0))
    hard, _ = pooled(game, Effort(budget=200, trials=6, error=1e-9))
    assert (len(easy.trials), len(hard.trials)) == (2, 3)  # 200 + 100; 200 + 800 + 200
    assert easy.passes <= 300  # a whole first trial, half a second one
    assert 1100 < hard.passes <= 1200
    assert hard.error < easy.error
    np.testing.assert_array_equal(easy.trials[0], hard.trials[0])  # the same stream


def test_trials_count_by_their_error() -> None:
    exact = Estimate(np.array([0.5, 0.5]), np.zeros(2), 4, "exact")
    alone = PooledEstimate.of([exact])
    assert (alone.error, alone.spread, alone.passes) == (0, 0, 4)
    good, poor = (Estimate(np.full(2, v), np.full(2, e), 10, "x") for v, e in ((1.0, 0.1), (4.0, 0.2)))
    both = PooledEstimate.of([good, poor])
    np.testing.assert_allclose(both.weights, [0.8, 0.2])
    np.testing.assert_allclose(both.values, 1.6)
    np.testing.assert_allclose(both.standard_error, np.sqrt(1 / (1 / 0.01 + 1 / 0.04)))
    assert both.spread == pytest.approx(np.sqrt(0.8 * 0.36 + 0.2 * 5.76))


@pytest.mark.parametrize(
    ("parameter", "value"),
    [(name, value) for name, hint in parameter_types(Effort).items() for value, _ in outside(hint)],
)
def test_efforts_outside_their_bounds_are_refused(parameter: str, value: Any) -> None:
    with pytest.raises(BadInput, match=parameter):
        Effort(**{parameter: value})
