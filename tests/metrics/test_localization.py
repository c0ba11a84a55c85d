"""Mass inside masks, corrected, outside, and overlap after Otsu, each beside its slow twin."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from karat.kernel.errors import BadInput
from karat.metrics import corrected_mass, otsu_iou, relevance_mass, spuriousity
from tests.metrics.scenes import any_maps, generic, mask_for
from tests.twins import localization as twin

SEEDS = st.integers(0, 999)


def each(function: Any, *batches: Any) -> Any:
    return np.array([function(*items) for items in zip(*batches, strict=True)])


def test_relevance_mass_equals_its_twin() -> None:
    maps, masks = generic()
    np.testing.assert_allclose(relevance_mass(maps, masks), each(twin.relevance_mass, maps, masks), rtol=1e-13)


@pytest.mark.parametrize("mode", ["soft", "hard"])
@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.6])
def test_spuriousity_equals_its_twin(mode: Any, threshold: float) -> None:
    maps, masks = generic()
    expected = each(lambda a, m: twin.spuriousity(a, m, threshold, mode), maps, masks)
    np.testing.assert_allclose(spuriousity(maps, masks, threshold, mode), expected, rtol=1e-12, atol=1e-15)


def test_otsu_separates_two_levels_wherever_they_are() -> None:
    mask = np.zeros((1, 8, 8), dtype=bool)
    mask[0, 2:5, 3:6] = True
    for low, high in [(0.0, 1.0), (0.2, 0.9), (5.0, 5.001), (1e-9, 1e9)]:
        assert otsu_iou(np.where(mask, high, low), mask) == 1.0


def test_otsu_of_a_flat_map_takes_every_cell_that_is_not_zero() -> None:
    mask = np.array([[[True, False, False, False]]])
    flat, half = np.full((1, 1, 4), 0.7), np.array([[[0.7, 0.7, 0.0, 0.0]]])
    nearly = 0.7 + np.array([[[0.0, 1e-16, 0.0, 2e-16]]])
    assert otsu_iou(flat, mask) == otsu_iou(nearly, mask) == 0.25
    assert otsu_iou(half, mask) == 0.5


@given(any_maps(), SEEDS)
def test_mass_inside_and_outside_make_one(maps: Any, seed: int) -> None:
    masks = mask_for(maps, seed)
    np.testing.assert_allclose(relevance_mass(maps, masks) + relevance_mass(maps, ~masks), 1.0, rtol=1e-14)


@given(any_maps(least=0.0), SEEDS)
def test_spuriousity_is_one_minus_relevance_mass_on_saliency(maps: Any, seed: int) -> None:
    masks = mask_for(maps, seed)
    np.testing.assert_allclose(spuriousity(maps, masks), 1 - relevance_mass(maps, masks), rtol=1e-13, atol=1e-15)


@given(any_maps(), SEEDS, st.sampled_from([0.5, 4.0, 2.0**40, 2.0**-600, 2.0**900]))
@example(np.array([[[1.0, 2.0, 3.0, 3.0]]]), 0, 2.0**-600)  # two splits equally good: dividing by 3 broke the tie
def test_scale_does_not_matter(maps: Any, seed: int, scale: float) -> None:
    masks = mask_for(maps, seed)
    for metric in (relevance_mass, corrected_mass, otsu_iou, spuriousity):
        np.testing.assert_allclose(metric(maps * scale, masks), metric(maps, masks), rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("scale", [5e-324, 1e-308, 1e308])
def test_the_ends_of_the_float_range(scale: float) -> None:
    maps, masks = np.array([[[1.0, 1.0, 1.0, 0.0]]]) * scale, np.array([[[True, False, False, False]]])
    with np.errstate(all="raise"):
        np.testing.assert_allclose(relevance_mass(maps, masks), 1 / 3, rtol=1e-15)
        np.testing.assert_allclose(spuriousity(maps, masks), 2 / 3, rtol=1e-15)
        np.testing.assert_allclose(otsu_iou(maps, masks), 1 / 3, rtol=1e-15)


@given(any_maps(), SEEDS)
def test_corrected_mass_is_zero_for_uniform_and_one_inside(maps: Any, seed: int) -> None:
    masks = mask_for(maps, seed)
    # a mask of all cells but one divides the rounding of a share by that one cell's
    np.testing.assert_allclose(corrected_mass(np.full(maps.shape, 0.3), masks), 0.0, atol=1e-15 * maps[0].size)
    np.testing.assert_array_equal(corrected_mass(masks * (1 + np.abs(maps)), masks), 1.0)
    area = masks.mean((1, 2))
    np.testing.assert_allclose(corrected_mass(~masks * 1.0, masks), -area / (1 - area))


def test_random_maps_have_no_corrected_mass_on_average() -> None:
    rng = np.random.default_rng(0)
    masks = np.zeros((4000, 8, 8), dtype=bool)
    masks[:, 1:5, 2:4] = True
    values = corrected_mass(rng.random(masks.shape), masks)
    assert abs(values.mean()) < 3 * values.std() / np.sqrt(len(values))


def test_hard_spuriousity_at_zero_counts_zero_cells() -> None:
    maps, masks = np.array([[[0.0, 0.0, 0.0, 5.0]]]), np.array([[[False, False, False, True]]])
    assert spuriousity(maps, masks, 0.0, "hard") == 0.75  # semscore2025 Eq. 3: M >= 0 holds for 0
    assert spuriousity(maps, masks, 1e-9, "hard") == 0.0


def test_spuriousity_has_no_answer_where_nothing_reaches_the_threshold() -> None:
    maps, masks = np.array([[[0.2, 0.1]], [[0.7, 0.1]], [[-1.0, -2.0]]]), np.array([[[True, False]]] * 3)
    np.testing.assert_array_equal(spuriousity(maps, masks, 0.6), [np.nan, 0.0, np.nan])


def test_parameters_out_of_range_say_so() -> None:
    maps, masks = generic(2)
    with pytest.raises(BadInput, match="'soft' or 'hard'; got 'softly'"):
        spuriousity(maps, masks, mode="softly")  # type: ignore[arg-type]
    with pytest.raises(BadInput, match=r"threshold: Input should be greater than or equal to 0; got -0\.1"):
        spuriousity(maps, masks, threshold=-0.1)
    with pytest.raises(BadInput, match=r"threshold.*got nan"):
        spuriousity(maps, masks, threshold=float("nan"))
