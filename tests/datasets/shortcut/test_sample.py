"""The patch of a shortcut sample: its pixels numbered row by row, put on a map, put back to clean."""

from __future__ import annotations

import numpy as np
import pytest
from planted_worlds import planted_sample

from karat.datasets.shortcut.sample import shortcut_samples
from karat.kernel.errors import BadInput
from karat.kernel.sample import Sample


def test_pixels_of_the_patch_are_numbered_row_by_row() -> None:
    sample = planted_sample(side=2, corner=(2, 5))
    assert sample.patch_labels[2:4, 5:7].tolist() == [[0, 1], [2, 3]]
    assert (sample.patch_labels >= 0).sum() == sample.patch.sum() == 4
    spread = sample.patch_map(np.array([1.0, 2.0, 3.0, 4.0]))
    assert spread[2:4, 5:7].tolist() == [[1, 2], [3, 4]]
    assert spread.sum() == 10


def test_a_pixel_that_is_not_kept_is_clean() -> None:
    sample = planted_sample(side=2, corner=(2, 5))
    altered = sample.with_patch(np.array([True, False, False, True]))
    assert altered.image[2:4, 5:7, 0].tolist() == [[255, 0], [0, 255]]
    assert altered.image.sum() == 2 * 3 * 255
    np.testing.assert_array_equal(sample.with_patch(np.ones(4, dtype=bool)).image, sample.image)
    np.testing.assert_array_equal(sample.with_patch(np.zeros(4, dtype=bool)).image, sample.twin)


def test_samples_without_a_clean_twin_are_refused() -> None:
    with pytest.raises(BadInput, match="clean twin"):
        shortcut_samples([planted_sample(), Sample("a", np.zeros((12, 12, 3), np.uint8))])
