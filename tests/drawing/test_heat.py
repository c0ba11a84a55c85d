from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from karat.drawing import ALPHA, Scale, colours, overlay
from karat.drawing.heat import VEIL, stretched


def test_one_scale_for_several_maps() -> None:
    scale = Scale.of([np.array([[1.0, 3.0]]), np.array([[2.0, 5.0]])], signed=False)
    assert (scale.low, scale.high) == (1.0, 5.0)
    assert scale.levels(np.array([1.0, 5.0, 9.0, np.nan])).tolist() == [0, 255, 255, 0]
    both = Scale.of([np.array([[-4.0, 1.0]])], signed=True)
    assert both.levels(np.array([-4.0, 0.0, 4.0])).tolist() == [0, 127, 254]


def test_few_huge_cells_do_not_leave_the_rest_dark() -> None:
    map_ = np.ones((40, 40))
    map_[0, 0], map_[20:] = 1e6, 2.0
    scale = Scale.of([map_], signed=False)
    assert (scale.high, scale.clipped) == (2.0, True)
    assert Scale.of([map_[:10, :10]], signed=False).clipped is False  # a few cells: none is beyond


@pytest.mark.parametrize("value", [0.0, 7.0])
def test_a_map_that_says_nothing_has_one_colour(value: float) -> None:
    scale = Scale.of([np.full((3, 3), value)], signed=False)
    assert set(scale.levels(np.full((3, 3), value)).ravel().tolist()) == {0}


def test_the_stronger_the_less_of_the_picture_is_left() -> None:
    image = np.full((2, 2, 3), 200, np.uint8)
    map_ = np.array([[0.0, 1.0], [0.5, 1.0]])
    drawn = overlay(image, map_)
    table = colours("ember").astype(float)
    assert drawn[0, 0].tolist() == np.rint(200 * (1 - ALPHA * VEIL) + ALPHA * VEIL * table[0]).tolist()
    assert drawn[0, 1].tolist() == np.rint(200 * (1 - ALPHA) + ALPHA * table[255]).tolist()
    assert (overlay(image, map_, alpha=0) == image).all()


@given(arrays(np.float64, (3, 5), elements=st.floats(-1e3, 1e3)))
def test_cells_stay_sharp_and_where_they_are(map_: np.ndarray) -> None:
    assert (stretched(map_, 12, 10) == map_.repeat(4, 0).repeat(2, 1)).all()
    assert set(stretched(map_, 7, 11).ravel()) <= set(map_.ravel())


def test_larger_maps_are_averaged() -> None:
    small = stretched(np.arange(16.0).reshape(4, 4), 2, 2)
    assert small.tolist() == [[2.5, 4.5], [10.5, 12.5]]
