from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from karat.kernel.errors import BadInput
from karat.statistics import eta_squared, variance_partition


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 6))
def test_eta_squared_is_one_way_anova(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    groups = np.concatenate([np.arange(k), rng.integers(0, k, size=30)])
    values = rng.normal(size=len(groups)) + 0.5 * groups
    effect = eta_squared(values, groups)
    theirs = stats.f_oneway(*(values[groups == g] for g in range(k)))
    assert (effect.f, effect.p) == pytest.approx((theirs.statistic, theirs.pvalue))
    assert effect.eta2 + effect.within == pytest.approx(1)
    assert effect.eta2 == pytest.approx(effect.f * (k - 1) / (effect.f * (k - 1) + len(values) - k))


def test_eta_squared_at_its_ends_and_with_holes() -> None:
    assert eta_squared([1, 1, 2, 2], ["a", "a", "b", "b"]).eta2 == 1
    assert eta_squared([1, 2, 1, 2], ["a", "a", "b", "b"]).eta2 == 0
    effect = eta_squared([1, 1, np.nan, 2, 2, 5], ["a", "a", "a", "b", "b", None])
    assert (effect.eta2, effect.n, effect.n_dropped) == (1, 4, 2)
    assert np.isnan(eta_squared([0.1] * 5, list("aabbb")).eta2)
    assert eta_squared([np.nan], ["a"]).n == 0


def test_omega_squared_of_noise_is_zero_on_average() -> None:
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(8), 4)
    effect = [eta_squared(rng.normal(size=32), groups) for _ in range(300)]
    assert np.mean([f.omega2 for f in effect]) == pytest.approx(0, abs=0.02)
    assert np.mean([f.eta2 for f in effect]) == pytest.approx(7 / 31, abs=0.02)


def test_balanced_partition_is_the_sum_of_one_way_shares() -> None:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame([(a, b) for a in "xyz" for b in "pqrs" for _ in range(3)], columns=["image", "direction"])
    frame["y"] = rng.normal(size=len(frame)) + (frame["image"] == "x") * 2
    out = variance_partition(frame, "y", ["image", "direction"])
    for factor in ("image", "direction"):
        assert out.loc[factor, "eta2"] == pytest.approx(eta_squared(frame["y"], frame[factor]).eta2)
    assert out.loc["shared", "eta2"] == pytest.approx(0, abs=1e-12)
    assert out["eta2"].sum() == pytest.approx(1)
    assert out["df"].drop("shared").to_dict() == {"image": 2, "direction": 3, "residual": 30}


def test_confounded_factors_share() -> None:
    frame = pd.DataFrame({"a": list("xxyy") * 5, "b": list("ppqq") * 5, "y": np.tile([0.0, 0.1, 1.0, 1.1], 5)})
    frame.loc[3, "y"] = np.nan
    out = variance_partition(frame, "y", ["a", "b"])
    assert out.loc[["a", "b"], "eta2"].max() < 1e-12
    assert out.loc["shared", "eta2"] > 0.9
    assert out.attrs == {"n": 19, "n_dropped": 1}
    with pytest.raises(BadInput, match="without variance"):
        variance_partition(frame.assign(y=1.0), "y", ["a"])
