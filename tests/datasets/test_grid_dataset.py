from __future__ import annotations

import numpy as np
import pytest

from karat.datasets.grid_samples import GridDataset
from karat.kernel.errors import UnknownName


def test_buckets_are_interleaved_and_any_slice_is_the_same() -> None:
    dataset = GridDataset(buckets=("D1_A_*", "D1_REL_F0_d0.3"), per_bucket=3, cell=8)
    whole = dataset.load(0, len(dataset))
    assert len(whole) == 15
    assert [s.meta["bucket"] for s in whole[:5]] == list(dataset.names)
    for start, stop in ((0, 4), (4, 11), (14, 15), (7, 7)):
        part = dataset.load(start, stop)
        assert [s.id for s in part] == [s.id for s in whole[start:stop]]
        assert all(np.array_equal(a.image, b.image) for a, b in zip(part, whole[start:stop], strict=True))


def test_by_bucket_the_same_samples_come_bucket_after_bucket() -> None:
    mixed = GridDataset(buckets=("D1_A_*",), per_bucket=3, cell=8)
    sorted_ = GridDataset(buckets=("D1_A_*",), per_bucket=3, cell=8, order="bucket")
    whole = sorted_.load(0, len(sorted_))
    assert [s.meta["bucket"] for s in whole] == [name for name in mixed.names for _ in range(3)]
    assert {s.id for s in whole} == {s.id for s in mixed.load(0, len(mixed))}
    for start, stop in ((0, 4), (4, 11), (11, 12), (7, 7)):
        assert [s.id for s in sorted_.load(start, stop)] == [s.id for s in whole[start:stop]]


def test_unknown_buckets_are_answered_with_near_ones() -> None:
    with pytest.raises(UnknownName, match=r"Did you mean .*'D1_A_F0_d0\.3'"):
        len(GridDataset(buckets=("D1_A_F0_d0.4",)))
