"""Otsu's threshold against scikit-image."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from karat.metrics import otsu_iou
from karat.metrics.arrays import Scratch
from karat.metrics.otsu import BINS, _best_split, _bin_numbers, otsu_threshold
from tests.metrics.scenes import blobs, generic, mask_for
from tests.twins import localization as twin


@pytest.mark.parametrize(
    "maps",
    [
        generic(40, 33, 37)[0],
        blobs(40, 56, 48),
        np.maximum(generic(40, 20, 20)[0], 0),  # a ReLU: half of it zeros
        np.kron(generic(40, 7, 7)[0], np.ones((1, 4, 4))),  # patches: few distinct values
        np.random.default_rng(3).exponential(size=(40, 64, 64)) ** 4,  # a long tail: most of it in the first bin
        np.random.default_rng(4).integers(0, 12, (40, 24, 24)).astype(float),  # values on bin edges
        np.random.default_rng(5).normal(size=(40, 16, 16)).astype(np.float32),
    ],
    ids=["normal", "blobs", "relu", "patches", "tail", "integers", "float32"],
)
def test_otsu_equals_scikit_image_map_by_map(maps: Any) -> None:
    filters = pytest.importorskip("skimage.filters")
    masks = mask_for(maps, 1)
    magnitudes = np.abs(maps.astype(np.float64)).reshape(len(maps), -1)
    thresholds = [filters.threshold_otsu(row[row > 0]) for row in magnitudes]
    np.testing.assert_allclose(otsu_threshold(magnitudes, Scratch()), thresholds, rtol=1e-14)
    expected = [twin.otsu_iou(*one) for one in zip(maps.astype(np.float64), masks, strict=True)]
    np.testing.assert_allclose(otsu_iou(maps, masks), expected, rtol=0, atol=1e-12)


def test_values_on_a_bin_edge_are_counted_as_numpy_counts_them() -> None:
    for low, high in [(0.1, 0.9), (1 / 3, 7.7), (1e-5, 1.0)]:
        edges = np.linspace(low, high, BINS + 1)
        values = np.concatenate([edges, np.nextafter(edges[1:], 0), np.nextafter(edges[:-1], 9)])
        bins = _bin_numbers(values[None], edges[None], Scratch(), clip=False)
        np.testing.assert_array_equal(np.bincount(bins[0], minlength=BINS), np.histogram(values, BINS)[0])


def test_two_splits_of_equal_worth_are_decided_as_scikit_image_does() -> None:
    filters = pytest.importorskip("skimage.filters")
    counts, centres = np.array([9263, 3827, 9263]), np.array([0.5, 1.5, 2.5])
    assert _best_split(counts[None], centres[None])[0] == filters.threshold_otsu(hist=(counts, centres))
