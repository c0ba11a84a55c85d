import numpy as np
import pytest
from scipy.stats import binomtest

from karat.kernel.proportion import share


@pytest.mark.parametrize(("hits", "n"), [(0, 7), (7, 7), (181, 200), (3, 20)])
def test_without_clusters_it_is_exact(hits, n):
    wanted = binomtest(hits, n).proportion_ci(method="exact")
    got = share([True] * hits + [False] * (n - hits))
    assert (got.low, got.high) == pytest.approx((wanted.low, wanted.high))
    alone = share([True] * hits + [False] * (n - hits), [str(i) for i in range(n)])
    assert alone == got  # clusters of one are no clusters


def test_samples_that_always_agree_count_once():
    one = share([True, False, True, True] * 1, "abcd")
    four = share([True, False, True, True] * 4, "abcd" * 4)
    assert four.value == one.value
    assert four.high - four.low > 0.6 * (one.high - one.low)


@pytest.mark.parametrize(("p", "spread"), [(0.95, 0.0), (0.95, 0.15), (0.5, 0.0), (0.5, 0.3), (0.98, 0.05)])
def test_it_covers(p, spread):
    """40 photographs, 8 samples each; photographs differ by `spread` (intraclass correlation of a beta-binomial)."""
    rng = np.random.default_rng(1)
    names = [str(i) for i in range(40) for _ in range(8)]
    covered = 0
    for _ in range(600):
        rates = np.full(40, p) if spread == 0 else rng.beta(p * (1 / spread - 1), (1 - p) * (1 / spread - 1), 40)
        got = share((rng.random((40, 8)) < rates[:, None]).ravel().tolist(), names)
        covered += got.low <= p <= got.high
    assert covered / 600 > 0.915


def test_ignoring_clusters_would_not_cover():
    """The same simulation with every sample its own cluster: the clusters matter."""
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(300):
        rates = rng.beta(0.5 * (1 / 0.3 - 1), 0.5 * (1 / 0.3 - 1), 40)
        hits = rng.random((40, 8)) < rates[:, None]
        plain = share(hits.ravel().tolist(), [str(i) for i in range(320)])
        covered += plain.low <= 0.5 <= plain.high
    assert covered / 300 < 0.85


def test_nothing_is_no_share():
    empty = share([], [])
    assert empty.value != empty.value
    assert (empty.low, empty.high, empty.n) == (0.0, 1.0, 0)
