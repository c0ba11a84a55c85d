"""Deletion and addition, pixel by pixel: who still wins, and in which order pixels of the patch come."""

from __future__ import annotations

import numpy as np
from planted_worlds import patch_reader, planted_sample

from karat.probe.session import Session
from karat.protocols.pixel.scores import curves, first_in_patch, still_right


def test_right_is_whether_the_class_still_wins_and_no_image_is_asked_about_twice() -> None:
    rows = [0]

    def value(white: np.ndarray) -> np.ndarray:
        rows[0] += len(white)
        return white.mean(1)

    session = Session(patch_reader(value), [planted_sample()], ["yes"])
    keep = np.arange(9)[None, :] < np.array([0, 4, 5, 9])[:, None]
    [right] = still_right(session, [(0, keep)])
    assert right.tolist() == [False, False, True, True]
    assert rows == [4]
    still_right(session, [(0, keep), (0, keep[::-1])])
    assert rows == [4]


def test_curves_follow_the_order_of_the_map() -> None:
    """The class wins while five of nine pixels are white; the map ranks the patch first, row by row."""
    session = Session(patch_reader(lambda white: white.mean(1)), [planted_sample()], ["yes"])
    values = np.zeros((12, 12))
    values[session.samples[0].mask("shortcut")] = np.arange(9, 0, -1)
    deletion, addition = curves(session, [0], values[None])
    assert deletion.tolist() == [[1.0] * 5 + [0.0] * 5]
    assert addition.tolist() == [[0.0] * 5 + [1.0] * 5]


def test_pixels_outside_the_patch_take_places_and_do_nothing() -> None:
    mask = np.array([[True, False], [True, False]])
    rows = first_in_patch(np.array([[1.0, 9.0], [5.0, 0.0]]), mask, np.random.default_rng(0))
    assert rows.tolist() == [[False, False], [False, False], [False, True]]
