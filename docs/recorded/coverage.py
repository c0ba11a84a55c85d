"""How often the intervals that Karat prints hold what they are about, as `docs/concepts/statistics.md` shows it.

    python docs/recorded/coverage.py > docs/recorded/coverage.csv

95 % is nominal. `tests/statistics/test_coverage.py` asserts the bars; this writes the shares down.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np

from karat.protocols.pixel.analysis import ratio_of_means
from karat.statistics import Estimate, auc, bootstrap_mean, kendall, paired_difference, proportion, spearman

Rng = np.random.Generator
RUNS, FEWER = 1000, 300
SIZES = (8, 20, 60)


def of_mean(draw: Callable[[Rng, int], np.ndarray[tuple[int], np.dtype[np.float64]]]) -> Callable[[Rng, int], Estimate]:
    return lambda rng, n: bootstrap_mean(draw(rng, n), rng=rng, resamples=400)


def paired(rng: Rng, n: int) -> Estimate:
    first = rng.random(n)
    return paired_difference(first, first * rng.random(n), rng=rng, resamples=400)


def clustered(rng: Rng, n: int) -> Estimate:
    values = np.repeat(rng.random(n), 3) + rng.normal(0, 0.1, 3 * n)
    return bootstrap_mean(values, rng=rng, clusters=np.repeat(np.arange(n), 3), resamples=400)


def hits(rng: Rng, n: int) -> Estimate:
    return proportion(rng.random(n) < 0.1)


def clustered_hits(rng: Rng, n: int) -> Estimate:
    drawn = np.repeat(rng.random(n) < 0.1, 4).reshape(n, 4)
    drawn[:, 3] = rng.random(n) < 0.1
    return proportion(drawn.ravel(), clusters=np.repeat(np.arange(n), 4))


def hit_difference(rng: Rng, n: int) -> Estimate:
    drawn = rng.random(n)
    return paired_difference(drawn < 0.5, drawn > 0.9, rng=rng)


def share_of_ceiling(rng: Rng, n: int) -> Estimate:
    ceiling = rng.beta(12, 3, n)
    return ratio_of_means(np.column_stack([ceiling * rng.beta(1, 4, n), ceiling]), rng)


def correlated(measure: Callable[..., Estimate], rho: float) -> Callable[[Rng, int], Estimate]:
    def one(rng: Rng, n: int) -> Estimate:
        first = rng.normal(size=n)
        return measure(first, rho * first + np.sqrt(1 - rho**2) * rng.normal(size=n), rng=rng, resamples=300)

    return one


def area(rng: Rng, n: int) -> Estimate:
    kind = np.arange(2 * n) < n
    return auc(rng.normal(size=2 * n) + kind, kind)


INTERVALS: dict[str, tuple[Callable[[Rng, int], Estimate], float, int]] = {
    "mean, normal scores": (of_mean(lambda rng, n: rng.normal(0.3, 1.0, n)), 0.3, RUNS),
    "mean, skewed scores": (of_mean(lambda rng, n: rng.beta(1, 4, n)), 0.2, RUNS),
    "mean, half of them zero": (of_mean(lambda rng, n: (rng.random(n) < 0.5) * rng.random(n)), 0.25, RUNS),
    "mean by clusters of three": (clustered, 0.5, RUNS),
    "paired difference": (paired, 0.25, RUNS),
    "hits, one in ten": (hits, 0.1, RUNS),
    "hits by clusters of four": (clustered_hits, 0.1, RUNS),
    "difference of hits": (hit_difference, 0.4, RUNS),
    "share of a ceiling": (share_of_ceiling, 0.2, FEWER),
    "Spearman, no correlation": (correlated(spearman, 0.0), 0.0, FEWER),
    "Kendall, tau of one third": (correlated(kendall, 0.5), 1 / 3, FEWER),
    "area under the ROC curve": (area, 0.7602, FEWER),
}


def share(estimate: Callable[[Rng, int], Estimate], truth: float, n: int, runs: int) -> str:
    made = [estimate(np.random.default_rng(seed), n) for seed in range(runs)]
    known = [one for one in made if np.isfinite(one.low)]
    if len(known) < 0.9 * runs:
        return "no interval"
    return f"{np.mean([one.low <= truth <= one.high for one in known]):.1%}"


def main() -> None:
    print("interval,simulations," + ",".join(f"n = {n}" for n in SIZES))
    for name, (estimate, truth, runs) in INTERVALS.items():
        print(f'"{name}",{runs},' + ",".join(share(estimate, truth, n, runs) for n in SIZES))
        print(name, file=sys.stderr)


if __name__ == "__main__":
    main()
