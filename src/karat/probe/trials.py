"""Shapley values to a stated error: independent trials of one estimator, pooled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from annotated_types import Ge

from karat.kernel.constraints import checked
from karat.probe import estimators, exact
from karat.probe.evaluator import Question
from karat.probe.games import Estimate

Method = Literal["regression", "permutation", "stratified", "kernelshap"]


@dataclass(frozen=True)
@checked
class Effort:
    """How Shapley values of n players are found: exactly where 2^n <= `budget`, else by independent trials, at least
    two, until the error of their mean is at most `error` or `trials` times `budget` passes are spent. The first has
    `budget` passes, each next what seems missing.

    pixelrules2024 takes the mean of 5 trials of Monte Carlo sampling (Mitchell et al. 2022): method "permutation",
    error 0.
    """

    method: Method = "regression"
    budget: Annotated[int, Ge(1)] = 512
    trials: Annotated[int, Ge(1)] = 5
    error: Annotated[float, Ge(0)] = 0.01

    def times(self, factor: int) -> Effort:
        """So many times the passes, for an error that is smaller by its root.

        >>> Effort(budget=100, error=0.02).times(4)
        Effort(method='regression', budget=400, trials=5, error=0.01)
        """
        return replace(self, budget=factor * self.budget, error=self.error / factor**0.5)


@dataclass(frozen=True, eq=False)
class PooledEstimate(Estimate):
    """The weighted mean of `trials` (T, n), with their `weights` (T,): trials differ in size, and the error of a trial
    decides what it counts. An exact trial is all there is to know, and stands alone."""

    trials: npt.NDArray[np.float64]
    weights: npt.NDArray[np.float64]

    @staticmethod
    def of(estimates: Sequence[Estimate]) -> PooledEstimate:
        values = np.array([estimate.values for estimate in estimates])
        errors = np.array([estimate.standard_error for estimate in estimates])
        size = (errors**2).mean(axis=1)  # one number a trial: weights of single players would chase their own noise
        weights = np.array([1.0]) if not size.all() else (1 / size) / (1 / size).sum()
        values, errors = values[: len(weights)], errors[: len(weights)]
        error = np.sqrt((weights[:, None] ** 2 * errors**2).sum(axis=0))
        passes = sum(estimate.passes for estimate in estimates)
        return PooledEstimate(weights @ values, error, passes, estimates[0].method, values, weights)

    @property
    def error(self) -> float:
        """Root mean square of the players' standard errors."""
        return float(np.sqrt((self.standard_error**2).mean()))

    @property
    def spread(self) -> float:
        """The same error as the trials show it: how far they lie apart. 0 where the values are exact."""
        count = len(self.trials)
        if count < 2:
            return 0.0
        return float(np.sqrt((self.weights @ (self.trials - self.values) ** 2 / (count - 1)).mean()))


_METHODS = {
    "regression": (estimators.regression, estimators.least_regression),
    "permutation": (estimators.permutation, estimators.least_permutation),
    "stratified": (estimators.stratified, estimators.least_regression),
    "kernelshap": (estimators.kernelshap, estimators.least_regression),
}


def pooled_shapley(n: int, effort: Effort, rng: Callable[[int], np.random.Generator]) -> Question[PooledEstimate]:
    """Shapley values of n players; `rng(t)` is the random stream of trial t."""
    if n <= exact.MOST_PLAYERS and 2**n <= effort.budget:
        values = yield from exact.table(n)
        return PooledEstimate.of([Estimate(exact.shapley_values(values), np.zeros(n), 2**n, "exact")])
    estimator, least = _METHODS[effort.method]
    estimates: list[Estimate] = []
    for trial in range(max(effort.trials, 2)):
        budget = max(_next_budget(estimates, effort), least(n))
        estimates.append((yield from estimator(n, budget, rng(trial))))
        if _enough(estimates, effort):
            break
    return PooledEstimate.of(estimates)


def _enough(estimates: list[Estimate], effort: Effort) -> bool:
    if not estimates[-1].standard_error.any():
        return True  # exact
    if len(estimates) < 2:
        return False
    return PooledEstimate.of(estimates).error <= effort.error or _left(estimates, effort) < effort.budget // 2


def _left(estimates: list[Estimate], effort: Effort) -> int:
    return effort.budget * max(effort.trials, 2) - sum(estimate.passes for estimate in estimates)


def _next_budget(estimates: list[Estimate], effort: Effort) -> int:
    """Passes of the next trial: what is missing to `error` if errors fall as one over the root of the passes. Half the
    budget at least, since small trials know little for what they cost; four at most, since that guess is rough."""
    if not estimates or effort.error <= 0:
        return effort.budget
    pooled = PooledEstimate.of(estimates)
    missing = pooled.passes * ((pooled.error / effort.error) ** 2 - 1)
    return int(np.clip(missing, effort.budget // 2, min(4 * effort.budget, _left(estimates, effort))))
