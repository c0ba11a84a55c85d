"""Rankings beside their slow twins; ties share as if every order was tried."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from karat.kernel.errors import BadInput
from karat.metrics import hit, pointing_game, relevance_rank, weighted_iou
from karat.metrics.ranking import KS, WEIGHTS, _top_values
from tests.metrics.scenes import any_maps, generic, mask_for
from tests.twins import localization as twin

SEEDS = st.integers(0, 999)


def each(function: Any, *batches: Any) -> Any:
    return np.array([function(*items) for items in zip(*batches, strict=True)])


@pytest.mark.parametrize("top", [1, 2, 7])
def test_hit_equals_its_twin(top: int) -> None:
    maps, masks = generic(40)
    np.testing.assert_allclose(hit(maps, masks, top), each(lambda a, m: twin.hit(a, m, top), maps, masks))


def test_relevance_rank_equals_its_twin() -> None:
    maps, masks = generic(40)
    np.testing.assert_allclose(relevance_rank(maps, masks), each(twin.relevance_rank, maps, masks))


@pytest.mark.parametrize("tolerance", [0.0, 1.0, 1.5, 3.0])
def test_pointing_game_equals_its_twin(tolerance: float) -> None:
    maps = np.random.default_rng(1).integers(0, 30, (40, 9, 11)).astype(float)
    masks = np.zeros(maps.shape, dtype=bool)
    masks[:, 2:4, 5:7] = True
    expected = each(lambda a, m: twin.pointing_game(a, m, tolerance), maps, masks)
    np.testing.assert_allclose(pointing_game(maps, masks, tolerance), expected)


def test_pointing_game_does_not_borrow_the_mask_of_a_neighbour() -> None:
    maps = np.zeros((3, 4, 4))
    maps[:, 0, 0] = 1.0
    masks = np.zeros(maps.shape, dtype=bool)
    masks[[0, 2], 0, 0] = True
    masks[1, 3, 3] = True
    np.testing.assert_array_equal(pointing_game(maps, masks, tolerance=2), [1.0, 0.0, 1.0])
    masks[1] = False
    np.testing.assert_array_equal(pointing_game(maps, masks, tolerance=2), [1.0, np.nan, 1.0])


@pytest.mark.parametrize("shape", [(9, 11), (40, 60)])
def test_weighted_iou_equals_its_twin(shape: tuple[int, int]) -> None:
    maps, _ = generic(20, *shape)
    truth = maps + generic(20, *shape, seed=1)[0]
    expected = each(lambda a, t: twin.weighted_iou(a, t, KS, WEIGHTS), maps, truth)
    np.testing.assert_allclose(weighted_iou(maps, truth), expected, rtol=1e-13)
    assert 0 < expected.min() < expected.max() < 1


def test_weighted_iou_weights_the_named_k() -> None:
    maps = np.array([[[9.0, 8.0, 7.0, 6.0]]])
    truth = np.array([[[9.0, 6.0, 7.0, 8.0]]])
    assert weighted_iou(maps, truth, ks=(1, 2), weights=(3, 1)) == (3 * 1 + 1 * (1 / 3)) / 4


@given(any_maps())
def test_the_truth_against_itself_is_one(maps: Any) -> None:
    k = tuple(range(1, maps[0].size + 1))
    np.testing.assert_allclose(weighted_iou(maps, maps, k, k), 1.0, rtol=1e-14)
    masks = maps == maps.max((1, 2), keepdims=True)
    np.testing.assert_array_equal(hit(maps, masks), 1.0)
    np.testing.assert_array_equal(relevance_rank(masks.astype(float), masks), 1.0)


@settings(max_examples=15)
@given(
    st.lists(st.sampled_from([0.0, 1.0, 2.0]), min_size=6, max_size=6).filter(any),
    st.lists(st.sampled_from([0.0, 1.0, 2.0]), min_size=6, max_size=6).filter(any),
    st.integers(1, 6),
)
def test_ties_share_as_if_every_order_was_tried(a: Any, b: Any, k: int) -> None:
    a, b = np.reshape(a, (2, 3)), np.reshape(b, (2, 3))
    mask = b > 0
    mine, theirs = twin.chance_in_top(a, k), twin.chance_in_top(b, k)
    np.testing.assert_allclose(hit(a[None], mask[None], k)[0], mine[mask].sum() / k)
    expected = np.minimum(mine, theirs).sum() / np.maximum(mine, theirs).sum()
    np.testing.assert_allclose(weighted_iou(a[None], b[None], (k,), (1,))[0], expected)
    size = int(mask.sum())
    np.testing.assert_allclose(relevance_rank(a[None], mask[None])[0], twin.chance_in_top(a, size)[mask].sum() / size)


@given(any_maps(), SEEDS)
def test_only_the_order_counts_and_not_where_cells_are_stored(maps: Any, seed: int) -> None:
    masks, truth = mask_for(maps, seed), np.random.default_rng(seed).integers(1, 4, maps.shape)
    shuffle = np.random.default_rng(seed).permutation(maps[0].size)

    def moved(array: Any) -> Any:
        return array.reshape(len(array), -1)[:, shuffle].reshape(array.shape)

    ks = (1, 2)
    for metric, other in ((hit, masks), (relevance_rank, masks)):
        np.testing.assert_allclose(metric(moved(maps), moved(other)), metric(maps, other))
    value = weighted_iou(maps, truth, ks, ks)
    np.testing.assert_allclose(weighted_iou(moved(maps), moved(truth), ks, ks), value)
    np.testing.assert_allclose(weighted_iou(np.exp(maps), truth, ks, ks), value)
    np.testing.assert_allclose(hit(np.exp(maps), masks), hit(maps, masks))


def test_a_flat_map_scores_what_chance_does() -> None:
    maps, masks = np.full((1, 6, 6), 0.2), np.zeros((1, 6, 6), dtype=bool)
    masks[0, :2, :3] = True
    truth = np.arange(36.0).reshape(1, 6, 6)
    np.testing.assert_allclose([hit(maps, masks), relevance_rank(maps, masks)], 6 / 36)
    assert weighted_iou(maps, truth, (4,), (1,)) == pytest.approx(4 / (2 * 36 - 4))


@given(st.integers(0, 99), st.integers(1, 40), st.integers(1, 9000), st.integers(2, 10**6))
@settings(max_examples=60)
def test_top_values_are_the_top_of_a_full_sort(seed: int, k: int, cells: int, levels: int) -> None:
    k = min(k, cells)
    rows = np.random.default_rng(seed).integers(0, levels, (3, cells)).astype(float)
    np.testing.assert_array_equal(_top_values(rows, k), np.sort(rows, -1)[:, ::-1][:, :k])


def test_negative_values_rank_last_except_for_relevance_rank() -> None:
    maps, masks = np.array([[[-9.0, 1.0]]]), np.array([[[True, False]]])
    assert hit(maps, masks) == 0.0
    assert relevance_rank(maps, masks) == 1.0


def test_parameters_out_of_range_say_so() -> None:
    maps, masks = generic(2, 4, 4)
    with pytest.raises(BadInput, match="16 cells of a map"):
        weighted_iou(maps, maps)
    with pytest.raises(BadInput, match="2 ks and 1 weights"):
        weighted_iou(maps, maps, (1, 2), (1,))
    with pytest.raises(BadInput, match="not all be 0"):
        weighted_iou(maps, maps, (1, 2), (0, 0))
    with pytest.raises(BadInput, match="top: Input should be greater than or equal to 1; got 0"):
        hit(maps, masks, top=0)
    with pytest.raises(BadInput, match="top must be at most the 16 cells"):
        hit(maps, masks, top=17)
    with pytest.raises(BadInput, match="tolerance"):
        pointing_game(maps, masks, tolerance=-1)
