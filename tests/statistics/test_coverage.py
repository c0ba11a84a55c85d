"""How often the intervals that Karat prints hold what they are about: 95 % is nominal.

The bars: 93 % from 20 samples on and 90 % at 8, less what the number of simulations leaves open (two standard errors);
proportions cover 95 % on average over all shares. Where no method reaches them there is no interval (`test_bootstrap`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from karat.statistics import Estimate, auc, bootstrap_mean, kendall, paired_difference, proportion, spearman

Draw = Callable[[np.random.Generator, int], np.ndarray[tuple[int], np.dtype[np.float64]]]
RUNS = 700
BARS = {5: 0.90, 8: 0.90, 20: 0.93, 60: 0.93}
SCORES: dict[str, tuple[Draw, float]] = {
    "normal": (lambda rng, n: rng.normal(0.3, 1.0, n), 0.3),
    "uniform": (lambda rng, n: rng.random(n), 0.5),
    "skewed": (lambda rng, n: rng.beta(1, 4, n), 0.2),
    "exponential": (lambda rng, n: rng.exponential(1.0, n), 1.0),
    "half of them zero": (lambda rng, n: (rng.random(n) < 0.5) * rng.random(n), 0.25),
}


def coverage(estimate: Callable[[np.random.Generator], Estimate], truth: float, runs: int = RUNS) -> float:
    hits = known = 0
    for seed in range(runs):
        one = estimate(np.random.default_rng(seed))
        if np.isfinite(one.low):
            known += 1
            hits += one.low <= truth <= one.high
    assert known > 0.9 * runs
    return hits / known


def least(bar: float, runs: int = RUNS) -> float:
    return bar - 2 * float(np.sqrt(bar * (1 - bar) / runs))


@pytest.mark.parametrize("n", [8, 20])
@pytest.mark.parametrize("name", SCORES)
def test_means(name: str, n: int) -> None:
    draw, truth = SCORES[name]
    share = coverage(lambda rng: bootstrap_mean(draw(rng, n), rng=rng, resamples=400), truth)
    assert share >= least(BARS[n])


def test_means_of_very_few_are_students() -> None:
    assert coverage(lambda rng: bootstrap_mean(rng.normal(0.3, 1, 5), rng=rng, resamples=100), 0.3) >= least(BARS[5])


def test_means_by_clusters() -> None:
    """Twenty images of three predictions that go together."""

    def one(rng: np.random.Generator) -> Estimate:
        values = np.repeat(rng.random(20), 3) + rng.normal(0, 0.1, 60)
        return bootstrap_mean(values, rng=rng, clusters=np.repeat(np.arange(20), 3), resamples=400)

    assert coverage(one, 0.5) >= least(BARS[20])


@pytest.mark.parametrize("n", [8, 20])
def test_paired_differences(n: int) -> None:
    def one(rng: np.random.Generator) -> Estimate:
        first = rng.random(n)
        return paired_difference(first, first * rng.random(n), rng=rng, resamples=400)

    assert coverage(one, 0.25) >= least(BARS[n])


@pytest.mark.parametrize("n", [3, 8, 20, 60])
def test_proportions_over_all_shares(n: int) -> None:
    shares = [
        coverage(lambda rng, p=p: proportion(rng.random(n) < p), p, 100)  # type: ignore[misc]  # p is bound now
        for p in np.linspace(0.02, 0.98, 25)
    ]
    assert np.mean(shares) >= 0.95


@pytest.mark.parametrize("p", [0.1, 0.5])
def test_proportions_by_clusters(p: float) -> None:
    """Thirty images of four hits each, three of which repeat the first."""

    def one(rng: np.random.Generator) -> Estimate:
        hits = np.repeat(rng.random(30) < p, 4).reshape(30, 4)
        hits[:, 3] = rng.random(30) < p
        return proportion(hits.ravel(), clusters=np.repeat(np.arange(30), 4))

    assert coverage(one, p) >= least(BARS[20])


@pytest.mark.parametrize(("up", "down"), [(0.5, 0.1), (0.1, 0.1), (0.9, 0.0), (0.05, 0.0)])
@pytest.mark.parametrize("n", [8, 20])
def test_differences_of_hits(n: int, up: float, down: float) -> None:
    def one(rng: np.random.Generator) -> Estimate:
        drawn = rng.random(n)
        return paired_difference(drawn < up, drawn > 1 - down, rng=rng)

    assert coverage(one, up - down) >= least(BARS[n])


@pytest.mark.parametrize("n", [20, 60])
@pytest.mark.parametrize(("measure", "truth"), [(spearman, 0.0), (kendall, 0.0), (kendall, 1 / 3)])
def test_rank_correlations(measure: Callable[..., Estimate], truth: float, n: int) -> None:
    """Normal columns of correlation 0 or 1/2, whose tau is 2 / pi * arcsin(1/2) = 1/3."""
    rho = float(np.sin(np.pi / 2 * truth))

    def one(rng: np.random.Generator) -> Estimate:
        first = rng.normal(size=n)
        return measure(first, rho * first + np.sqrt(1 - rho**2) * rng.normal(size=n), rng=rng, resamples=300)

    assert coverage(one, truth, 300) >= least(BARS[n], 300)


@pytest.mark.parametrize("n", [20, 60])
def test_areas_under_the_curve(n: int) -> None:
    """Two normals one standard deviation apart: the AUC is Phi(1 / sqrt(2)) = 0.760."""

    def one(rng: np.random.Generator) -> Estimate:
        kind = np.arange(2 * n) < n
        return auc(rng.normal(size=2 * n) + kind, kind)

    assert coverage(one, 0.7602) >= least(BARS[n])
