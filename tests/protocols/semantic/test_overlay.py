"""Maps over masks: bilinear as image libraries do it, scales, ignored pixels, curves against the metric itself; SSS of
maps that know nothing, against a count of every place."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from karat.datasets.segmentation.scene import CLASS
from karat.kernel.attribution import Attribution
from karat.kernel.sample import Region, Sample
from karat.metrics import relevance_mass, spuriousity
from karat.models.classifier import classifier
from karat.models.preprocessing import Preprocessing
from karat.probe.session import Session
from karat.protocols.semantic import Semantic
from karat.protocols.semantic.overlay import blob_cover, chances, curve, overlay, stretch

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


@given(st.integers(3, 12), st.integers(3, 12), st.integers(0, 2**32 - 1))
def test_a_blob_at_every_place(height, width, seed):
    """Slow twin: lay the rectangle at every place and take the mean SSS."""
    rng = np.random.default_rng(seed)
    mask = rng.random((height, width)) < rng.uniform(0.05, 0.9)
    mask.flat[rng.integers(mask.size)] = True
    share = np.sqrt(mask.sum() / mask.size)
    tall, wide = (int(np.clip(round(share * side), 1, side)) for side in mask.shape)
    scores = []
    for top in range(height - tall + 1):
        for left in range(width - wide + 1):
            blob = np.zeros(mask.shape)
            blob[top : top + tall, left : left + wide] = 1
            scores.append(spuriousity(blob[None], mask[None])[0])
    uniform, blob = chances(mask)
    assert blob == pytest.approx(np.mean(scores))
    assert uniform == pytest.approx(spuriousity(np.ones((1, height, width)), mask[None])[0])
    assert blob_cover(mask.shape, int(mask.sum())).sum() == pytest.approx(tall * wide)


def test_an_object_in_the_middle_is_met_by_chance_more_often_than_one_in_a_corner():
    middle, corner = np.zeros((20, 20), bool), np.zeros((20, 20), bool)
    middle[6:14, 6:14], corner[:8, :8] = True, True
    assert chances(middle)[0] == chances(corner)[0] == pytest.approx(0.84)
    assert chances(middle)[1] < 0.75 < 0.85 < chances(corner)[1]


def test_pixels_that_the_model_was_not_shown_count_for_nothing():
    torch = pytest.importorskip("torch")
    mask = np.zeros((10, 20), bool)
    mask[:, 5:10] = True  # half of the central square; columns 0 to 4 and 15 to 19 are cut off
    sample = Sample(
        "s", np.zeros((10, 20, 3), np.uint8), answer="cat", regions=(Region("cat", CLASS, pixels=mask, label="cat"),)
    )
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 64, 2))
    everywhere = Attribution(np.ones((10, 20)))
    for squash, chance in ((False, 0.5), (True, 0.75)):
        model = classifier(module, Preprocessing((8, 8), squash=squash), labels=["cat", "dog"])
        scores = Semantic(threshold=0.0).score(Session(model, [sample]), [everywhere])
        assert scores["outside"].values[0] == pytest.approx(chance)
        assert scores["sss"].values[0] == pytest.approx(chance)
        assert scores["gain"].values[0] == pytest.approx(0)
        assert scores["size_matched"].values[0] == pytest.approx(1 - chance / scores["blob"].values[0])
