"""Maps over masks: bilinear as image libraries do it, scales, ignored pixels, curves against the metric itself."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from karat.metrics import relevance_mass, spuriousity
from karat.protocols.semantic.overlay import curve, overlay, stretch

MAPS = arrays.arrays(np.float32, (5, 7), elements=st.floats(0, 8, width=16))
MASKS = arrays.arrays(np.bool_, (5, 7))


@pytest.mark.parametrize(
    ("old", "new"), [((7, 7), (224, 224)), ((7, 9), (333, 500)), ((14, 14), (14, 20)), ((1, 3), (9, 9))]
)
def test_stretch_is_what_opencv_does(old: tuple[int, int], new: tuple[int, int]) -> None:
    values = np.random.default_rng(0).random(old).astype(np.float32)
    expected = cv2.resize(values, new[::-1], interpolation=cv2.INTER_LINEAR)
    np.testing.assert_allclose(stretch(values, *new), expected, atol=2e-6)


def test_scales_by_hand() -> None:
    given_map = np.array([[2.0, 4.0], [6.0, 10.0]])
    shape = (2, 2)
    np.testing.assert_allclose(overlay(given_map, None, shape, "raw", "bilinear"), given_map)
    np.testing.assert_allclose(overlay(given_map, None, shape, "maximum", "bilinear"), given_map / 10)
    np.testing.assert_allclose(overlay(given_map, None, shape, "range", "bilinear"), (given_map - 2) / 8)
    ignored = np.array([[True, False], [False, False]])
    assert overlay(given_map, ignored, shape, "maximum", "bilinear")[0, 0] == -1
    assert given_map[0, 0] == 2  # the explainer's own map is left alone


def test_cells_are_repeated_where_asked() -> None:
    small = np.array([[1.0, 0.0]])
    assert overlay(small, None, (2, 4), "raw", "cells").tolist() == [[1, 1, 0, 0]] * 2
    assert overlay(small, None, (2, 4), "raw", "bilinear").tolist() == [[1, 0.75, 0.25, 0]] * 2


def test_a_flat_map_stays_flat() -> None:
    assert (overlay(np.full((2, 2), 3.0), None, (4, 4), "range", "bilinear") == 3).all()  # nothing to divide by


@settings(max_examples=60, deadline=None)
@given(MAPS, MASKS, st.lists(st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.7, 1.0]), min_size=1, max_size=4, unique=True))
def test_a_curve_is_the_metric_at_every_threshold(
    values: np.ndarray[tuple[int, int], np.dtype[np.float32]],
    mask: np.ndarray[tuple[int, int], np.dtype[np.bool_]],
    thresholds: list[float],
) -> None:
    slow = [spuriousity(values[None], mask[None], t, mode)[0] for mode in ("soft", "hard") for t in thresholds]
    if not values.any():
        slow = [np.nan] * len(slow)  # the metric has no answer for an all-zero map, whatever the mode
        assert np.isnan(curve(values, mask, thresholds)[: len(thresholds)]).all()
        return
    np.testing.assert_allclose(curve(values, mask, thresholds), slow, atol=1e-6)


@settings(max_examples=60, deadline=None)
@given(MAPS, MASKS)
def test_sss_is_one_minus_rma_without_a_threshold(
    values: np.ndarray[tuple[int, int], np.dtype[np.float32]], mask: np.ndarray[tuple[int, int], np.dtype[np.bool_]]
) -> None:
    np.testing.assert_allclose(spuriousity(values[None], mask[None]), 1 - relevance_mass(values[None], mask[None]))
