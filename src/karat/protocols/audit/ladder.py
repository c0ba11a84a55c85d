"""Two ladders from the oracle to noise. A metric that works puts their rungs in order.

On the first a growing share of the mass is noise; ranks hold until noise overtakes the truth, so a metric of ranks may
stay level for a while. On the second a growing share of the cells and words change places, which no metric may miss.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from karat.explainers.control import Degraded
from karat.kernel.card import Direction
from karat.kernel.identity import generator
from karat.kernel.registry import label
from karat.protocols.common.controls import NOISE, ORACLE
from karat.statistics.bootstrap import interval, mean_draws
from karat.statistics.estimate import cluster_sums
from karat.statistics.power import paired_power

RANDOM = NOISE
LEVELS = tuple(round(0.1 * k, 1) for k in range(1, 10))
RUNGS = (ORACLE, *(label(Degraded("noise", level)) for level in LEVELS), RANDOM)
SWAPS = (ORACLE, *(label(Degraded("swap", level)) for level in LEVELS), RANDOM)
POWER = 0.8


@dataclass(frozen=True)
class Trial:
    """One metric on one model: `table` (samples × explainers) holds values of which higher is better.

    `whole` is the label of the model as it was, where its weights were shuffled.
    """

    metric: str
    model: str
    table: pd.DataFrame
    whole: str | None = None

    def columns(self, names: Sequence[str]) -> np.ndarray:
        """(samples, names) without samples that lack one of them."""
        kept = self.table.reindex(columns=list(names)).dropna()
        return kept.to_numpy(dtype=np.float64)

    def gap(self, better: str, worse: str) -> np.ndarray:
        """(n,) how much better one explanation scores than another on the same samples."""
        both = self.columns([better, worse])
        return np.asarray(both[:, 0] - both[:, 1])

    @property
    def effect(self) -> float | None:
        """How far the oracle stands above noise, in standard deviations of the paired difference, at most 9."""
        gap = self.gap(ORACLE, RANDOM)
        if len(gap) < 2:
            return None
        spread = float(gap.std(ddof=1))
        return float(np.clip(gap.mean() / spread, -9.0, 9.0)) if spread > 0 else 9.0 * float(np.sign(gap.mean()))

    def way(self, explainer: str) -> float:
        """Where an explanation stands between noise (0) and the oracle (1)."""
        three = self.columns([explainer, RANDOM, ORACLE])
        if not len(three):
            return np.nan
        mean, low, high = three.mean(axis=0)
        return float((mean - low) / (high - low)) if high != low else np.nan


def trials(
    scores: pd.DataFrame, directions: Mapping[str, Direction], shuffled: Mapping[str, str] | None = None
) -> list[Trial]:
    """Every metric that has a better and a worse, on every model of the run; `shuffled` has the model that each with
    shuffled weights was made from."""
    every = []
    whole = shuffled or {}
    for (metric, model), rows in scores.groupby(["metric", "model"], sort=True):
        direction = directions.get(str(metric), "none")
        if direction == "none":
            continue
        table = rows.pivot_table(index=["dataset", "sample"], columns="explainer", values="value", dropna=True)
        if not table.empty:
            better = table if direction == "higher" else -table
            every.append(Trial(str(metric), str(model), better, whole.get(str(model))))
    order = {metric: at for at, metric in enumerate(directions)}
    return sorted(every, key=lambda trial: (order[trial.metric], trial.model))


@dataclass(frozen=True)
class Order:
    """How well a metric orders the rungs: Kendall's tau with the true order and its interval over samples; adjacent
    pairs in the right order; the lowest rung below the oracle that n samples tell from it with 80 % power."""

    tau: float
    low: float
    high: float
    adjacent: int
    pairs: int
    sees: float | None
    n: int


def order(trial: Trial, rungs: Sequence[str] = RUNGS, resamples: int = 1000) -> Order | None:
    """None where the oracle has no score (a model that does not look has no true map), where the run has fewer than
    three rungs, or no sample with all of them."""
    there = [rung for rung in rungs if rung in trial.table.columns]
    values = trial.columns(there) if len(there) > 2 and rungs[0] in there else np.empty((0, 0))
    if len(values) < 2:
        return None
    rng = generator(0, f"{trial.model}/{trial.metric}", "audit/ladder")
    draws = mean_draws(rng, *cluster_sums(values, None, np.ones(len(values), dtype=np.bool_)), resamples)
    tau = float(_tau(values.mean(axis=0)[None])[0])
    low, high = interval(_tau(draws), tau, 0.95)
    steps = values.mean(axis=0)
    falls = _sign(steps[:-1] - steps[1:]) > 0
    sees = None
    for rung in there[1:-1]:
        gap = trial.gap(there[0], rung)
        if len(gap) > 1 and gap.mean() > 0 and paired_power(gap.mean(), gap.std(ddof=1), len(gap)) >= POWER:
            sees = LEVELS[rungs.index(rung) - 1]
            break
    return Order(tau, low, high, int(falls.sum()), len(falls), sees, len(values))


def _tau(means: np.ndarray) -> np.ndarray:
    """(draws,) Kendall's tau-a of means (draws, rungs) with an order that falls from left to right; ties count 0."""
    first, second = np.triu_indices(means.shape[1], k=1)
    return np.asarray(_sign(means[:, first] - means[:, second]).mean(axis=1))


def _sign(gaps: np.ndarray) -> np.ndarray:
    """Signs, with what is rounding taken as a tie."""
    return np.sign(np.where(np.abs(gaps) < 1e-12, 0.0, gaps))
