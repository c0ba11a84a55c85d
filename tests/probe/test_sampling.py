"""Coalitions drawn in complementary pairs, stratified by size."""

from __future__ import annotations

from math import comb

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from karat.probe.sampling import allocate, draw, populations


@given(n=st.integers(2, 40), extra=st.integers(0, 500), seed=st.integers(0, 2**31))
@settings(max_examples=30, deadline=None)
def test_strata_hold_distinct_pairs_of_their_size(n: int, extra: int, seed: int) -> None:
    pairs = 3 * n + extra
    strata = draw(n, pairs, np.random.default_rng(seed))
    assert [s.size for s in strata] == list(range(1, n // 2 + 1))
    assert sum(len(s.keep) for s in strata) == min(pairs, sum(populations(n)))
    for s in strata:
        assert (s.keep.sum(1) == s.size).all()
        both = np.concatenate([s.keep, ~s.keep])
        assert len(np.unique(both, axis=0)) == len(both)
        assert min(2, s.population) <= len(s.keep) <= s.population
        assert s.population == comb(n, s.size) // (2 if 2 * s.size == n else 1)


def test_allocation_fills_small_strata_and_shares_the_rest() -> None:
    assert allocate(np.array([1.0, 1.0, 2.0]), [5, 8, 1000], 44).tolist() == [5, 8, 31]
    assert allocate(np.array([1.0, 1.0, 2.0]), [5, 100, 1000], 35).tolist() == [5, 10, 20]
    assert allocate(np.array([1.0, 1e-9, 1.0]), [5, 100, 1000], 35).tolist() == [5, 2, 28]
