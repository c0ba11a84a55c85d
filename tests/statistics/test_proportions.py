from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from karat.kernel.errors import BadInput
from karat.statistics import bootstrap_mean, proportion


@pytest.mark.parametrize(("k", "n"), [(0, 3), (3, 3), (1, 8), (7, 20), (100, 1000)])
def test_independent_hits_have_clopper_and_pearsons_interval(k: int, n: int) -> None:
    share = proportion([1] * k + [0] * (n - k))
    theirs = stats.binomtest(k, n).proportion_ci(method="exact")
    assert (share.value, share.n) == (k / n, n)
    assert (share.low, share.high) == pytest.approx((theirs.low, theirs.high))


def test_hits_that_go_together_count_once() -> None:
    rng = np.random.default_rng(0)
    base = (rng.random(40) < 0.3).astype(float)
    together = proportion(np.repeat(base, 5), clusters=np.repeat(np.arange(40), 5))
    alone = proportion(base)
    assert together.value == alone.value
    assert (together.low, together.high) == pytest.approx((alone.low, alone.high), abs=0.02)
    apart = proportion((rng.random(200) < 0.3).astype(float), clusters=np.repeat(np.arange(40), 5))
    assert apart.high - apart.low < 0.75 * (alone.high - alone.low)


def test_hits_that_are_all_the_same_tell_as_much_as_their_clusters() -> None:
    assert proportion([0] * 12, clusters=list("aaabbbcccddd")).high == proportion([0] * 4).high
    assert proportion([1, 1], clusters=["a", "a"]).low == pytest.approx(0.025)


def test_shared_hits_lie_between_and_missing_ones_are_counted() -> None:
    share = proportion([0.5, 1.0, np.nan, 0.0])
    assert (share.value, share.n, share.n_dropped) == (0.5, 3, 1)
    assert np.isnan(proportion([]).value)
    with pytest.raises(BadInput, match=r"between 0 and 1; got values from -1 to 1"):
        proportion([-1, 1])


def test_a_mean_of_hits_is_a_proportion() -> None:
    hits = [0.0] * 9 + [1.0]
    assert bootstrap_mean(hits, rng=np.random.default_rng(0)).high == proportion(hits).high
