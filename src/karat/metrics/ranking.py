"""Does the map rank the right cells first? The top cell, the top n, as many as the mask has, and several k at once.

Ties share: cells tied at the last place of a top k divide the remaining places equally among them, so that no score
depends on the order in which pixels are stored, and a flat map scores what chance does. Only the order of the values
counts, the greatest first (a negative value speaks against its cell), except in `relevance_rank`, which like relevance
mass goes by |a|. Nothing here has a gradient; tensors come back as tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt
from annotated_types import Ge, Lt, MinLen

from karat.kernel.card import Card
from karat.kernel.constraints import checked
from karat.kernel.errors import BadInput
from karat.metrics.arrays import Array, Floats, as_maps, as_masks, as_truth, score_numpy, tidy
from karat.metrics.missing import Problem, map_problem, mask_problem, problems

Indices = npt.NDArray[np.integer[Any]]
KS = (25, 20, 15, 10, 5, 3, 1)
WEIGHTS = (1, 3, 5, 10, 15, 20, 25)
_GROUP = 64


def hit(maps: Any, masks: Any, top: int = 1) -> Array:
    """HA: 1 where the most important cell lies in the mask, else 0. With `top`, the share of the top cells inside.

    Where m cells tie for the maximum and j of them lie inside, the hit is j / m.

    Args:
        maps: (n, h, w) attribution maps, NumPy or torch.
        masks: (n, h, w) truth masks of the same size: bool, 0/1 or 0/255.
        top: how many of the most important cells count, 1 to h * w.

    Returns:
        (n,) from 0 to 1, of the kind of `maps`; NaN where a map is broken or all zero, or a mask is empty.

    Example:
        >>> hit(np.array([[[0.1, 0.9]], [[0.5, 0.5]]]), np.array([[[False, True]], [[False, True]]]))
        array([1. , 0.5])
    """
    return Hit(top)(maps, masks)


def pointing_game(maps: Any, masks: Any, tolerance: float = 0.0) -> Array:
    """`hit` that forgives a maximum up to `tolerance` cells away from the mask (15 pixels in the original game).

    Args:
        maps: (n, h, w) attribution maps, NumPy or torch.
        masks: (n, h, w) truth masks of the same size: bool, 0/1 or 0/255.
        tolerance: a distance in cells, 0 or more.

    Returns:
        (n,) from 0 to 1, of the kind of `maps`; NaN as in `hit`.

    Example:
        >>> pointing_game(np.array([[[9.0, 1.0, 1.0]]]), np.array([[[False, False, True]]]), tolerance=2)
        array([1.])
    """
    return PointingGame(tolerance)(maps, masks)


def relevance_rank(maps: Any, masks: Any) -> Array:
    """The share of the K cells of greatest |a| that lie in the mask, K being the number of cells in the mask.

    Args:
        maps: (n, h, w) attribution maps, NumPy or torch.
        masks: (n, h, w) truth masks of the same size: bool, 0/1 or 0/255.

    Returns:
        (n,) from 0 to 1, of the kind of `maps`; NaN as in `hit`.

    Example:
        >>> relevance_rank(np.array([[[4.0, 3.0, 2.0, 1.0]]]), np.array([[[True, False, True, False]]]))
        array([0.5])
    """
    maps = as_maps(maps)
    return score_numpy(_relevance_rank, maps, as_masks(masks, maps), ordinal=True)


def weighted_iou(maps: Any, truth: Any, ks: Sequence[int] = KS, weights: Sequence[float] = WEIGHTS) -> Array:
    """WIoU: overlap (IoU) of the k most important cells of the map and of the truth, averaged over several k.

    The weights are normalised to sum to 1: the paper says that WIoU lies in [0, 1] and lists weights that sum to 79.
    With ties a cell is a member of a top k in part, and overlap and union sum the lesser and the greater membership;
    the truth against itself is 1 all the same.

    Args:
        maps: (n, h, w) attribution maps, NumPy or torch.
        truth: (n, h, w) scores of the same size (no mask), such as Shapley values.
        ks: how many of the first cells are compared, each from 1 to h * w.
        weights: of each k, 0 or more, not all 0.

    Returns:
        (n,) from 0 to 1, of the kind of `maps`; NaN where a map or a truth is broken or all zero.

    Example:
        >>> weighted_iou(np.array([[[3.0, 2.0, 1.0]]]), np.array([[[3.0, 1.0, 2.0]]]), ks=(1, 2), weights=(1, 1))
        array([0.66666667])
    """
    return WeightedIoU(tuple(ks), tuple(weights))(maps, truth)


def _check_top(ks: Sequence[int], maps: Array, what: str) -> None:
    cells = maps.shape[1] * maps.shape[2]
    if max(ks) > cells:
        raise BadInput(f"{what} must be at most the {cells} cells of a map; got {', '.join(map(str, ks))}.")


def _share_of_top(maps: Floats, masks: Array, k: int) -> Floats:
    maps, usable = tidy(np, maps, rescale=False)
    top = _top_values(maps, k)
    reach = maps >= top[:, -1:]
    cut, above, tied = (column[:, 0] for column in _cuts(top, _count(reach), np.array([k])))
    flat = np.flatnonzero(reach & masks)
    rows = flat // maps.shape[1]
    over = maps.ravel()[flat] > cut[rows]
    inside = np.bincount(rows[over], minlength=len(maps))
    inside_tied = np.bincount(rows[~over], minlength=len(maps))
    return np.where(usable & masks.any(-1), (inside + (k - above) * inside_tied / tied) / k, np.nan)


def _relevance_rank(maps: Floats, masks: Array) -> Floats:
    maps, usable = tidy(np, maps, rescale=False)
    magnitudes = np.abs(maps)
    n, cells = maps.shape
    size = _count(masks)
    cut = np.sort(magnitudes, -1)[np.arange(n), np.minimum(cells - size, cells - 1)][:, None]
    above, tied = magnitudes > cut, magnitudes == cut
    inside = _count(above & masks) + (size - _count(above)) * _count(tied & masks) / _count(tied)
    return np.where(usable & (size > 0), inside / np.maximum(size, 1), np.nan)


def _weighted_iou(maps: Floats, truth: Floats, ks: Indices, weights: Floats) -> Floats:
    n, cells = maps.shape
    maps, usable = tidy(np, maps, rescale=False)
    truth, answerable = tidy(np, truth, rescale=False)
    mine, theirs = _top_values(maps, ks.max()), _top_values(truth, ks.max())
    reach, theirs_reach = maps >= mine[:, -1:], truth >= theirs[:, -1:]
    flat = np.flatnonzero(reach & theirs_reach)  # no other cell can be in both
    rows = flat // cells
    lesser = np.minimum(
        _membership(maps.ravel()[flat], rows, _cuts(mine, _count(reach), ks), ks),
        _membership(truth.ravel()[flat], rows, _cuts(theirs, _count(theirs_reach), ks), ks),
    )
    places = rows[:, None] * len(ks) + np.arange(len(ks))
    overlap = np.bincount(places.ravel(), lesser.ravel(), minlength=n * len(ks)).reshape(n, len(ks))
    overlap = np.minimum(overlap, ks)  # not above k by rounding
    iou = overlap / (2 * ks - overlap)  # both memberships sum to k, so the union is what is left of 2 k
    return np.where(usable & answerable, (weights * iou).sum(-1) / weights.sum(), np.nan)  # pixelrules2024 Eq. 3


def _cuts(top: Floats, reach: Indices, ks: Indices) -> tuple[Floats, Indices, Indices]:
    """For each k the k-th greatest value, how many cells lie above it and how many are tied at it; each (n, len(ks)).

    `top` are the greatest values (n, max(ks)); `reach` (n,) counts the cells that reach the last of them.
    """
    cut = top[:, ks - 1]
    above = (top[:, :, None] > cut[:, None, :]).sum(1)
    up_to = (top[:, :, None] >= cut[:, None, :]).sum(1)
    return cut, above, np.where(cut == top[:, -1:], reach[:, None], up_to) - above


def _membership(values: Floats, rows: Indices, cuts: tuple[Floats, Indices, Indices], ks: Indices) -> Floats:
    """How far each value (m,) of some row (m,) belongs to the top k: 1 above the cut, a share at it, 0 below."""
    cut, above, tied = cuts
    share = (ks - above) / tied
    return np.where(values[:, None] > cut[rows], 1.0, np.where(values[:, None] == cut[rows], share[rows], 0.0))


def _count(cells: npt.NDArray[np.bool_]) -> Indices:
    return cells.sum(-1, dtype=np.int32)


def _top_values(maps: Floats, k: int) -> Floats:
    """The k greatest values (n, k) of each row (n, c), the greatest first.

    The k cells lie in the k groups with the greatest maxima, whatever the grouping, so only these are sorted.
    """
    n, cells = maps.shape
    columns = cells // _GROUP
    if columns > 2 * k:
        grouped = maps[:, : _GROUP * columns].reshape(n, _GROUP, columns)
        best = np.argpartition(grouped.max(1), columns - k, -1)[:, columns - k :]
        pool = np.take_along_axis(grouped, best[:, None, :], -1).reshape(n, -1)
        maps = np.concatenate([pool, maps[:, _GROUP * columns :]], -1)
    last = maps.shape[1] - k
    return np.sort(np.partition(maps, last, -1)[:, last:], -1)[:, ::-1]


def _grow(masks: npt.NDArray[np.bool_], distance: float) -> npt.NDArray[np.bool_]:
    """Masks (n, h, w) widened by a disc. Slices of the batch are set too far apart to reach each other."""
    from scipy.ndimage import distance_transform_edt

    apart = 2 * distance + 1
    return np.asarray(distance_transform_edt(~masks, sampling=(apart, 1, 1)) <= distance)


@dataclass(frozen=True)
@checked
class Hit:
    card: ClassVar[Card] = Card(
        name="localization/hit",
        kind="metric",
        summary="whether the most important cell lies in the truth mask (HA)",
        direction="higher",
        range=(0.0, 1.0),
        floor="control/uniform: the mask's share of the area",
        ceiling="the maximum inside the mask: 1",
        citation="pixelrules2024 section 3",
        departures="tied maxima share the hit; top > 1 gives the share of them inside",
    )
    top: Annotated[int, Ge(1)] = 1

    def __call__(self, maps: Any, masks: Any) -> Array:
        maps = as_maps(maps)
        masks = as_masks(masks, maps)
        _check_top((self.top,), maps, "top")
        return score_numpy(lambda maps, masks: _share_of_top(maps, masks, self.top), maps, masks, ordinal=True)

    def problems(self, maps: Any, masks: Any) -> list[Problem]:
        return problems(map_problem(maps), mask_problem(masks))


@dataclass(frozen=True)
@checked
class PointingGame:
    card: ClassVar[Card] = Card(
        name="localization/pointing_game",
        kind="metric",
        summary="whether the most important cell lies in or near the truth mask",
        direction="higher",
        range=(0.0, 1.0),
        floor="control/uniform: the share of the area in or near the mask",
        ceiling="the maximum inside the mask: 1",
        citation="Zhang et al. 2018, Excitation Backprop",
        departures="tied maxima share the hit; no tolerance unless asked for",
    )
    tolerance: Annotated[float, Ge(0)] = 0.0  # cells

    def __call__(self, maps: Any, masks: Any) -> Array:
        maps = as_maps(maps)
        shape = tuple(maps.shape[1:])

        def formula(maps: Floats, masks: Array) -> Floats:
            grown = _grow(masks.reshape(-1, *shape), self.tolerance) if self.tolerance else masks
            values = _share_of_top(maps, grown.reshape(masks.shape), 1)
            return np.where(masks.any(-1), values, np.nan)

        return score_numpy(formula, maps, as_masks(masks, maps), ordinal=True)

    def problems(self, maps: Any, masks: Any) -> list[Problem]:
        return problems(map_problem(maps), mask_problem(masks))


@dataclass(frozen=True)
class RelevanceRank:
    card: ClassVar[Card] = Card(
        name="ranking/relevance_rank",
        kind="metric",
        summary="share of the top K cells inside the truth mask of K cells",
        direction="higher",
        range=(0.0, 1.0),
        floor="control/uniform: the mask's share of the area",
        ceiling="every cell of the mask above every other: 1",
        citation="Arras et al. 2022, CLEVR-XAI",
        departures="by |map|; tied cells share the last places",
    )

    def __call__(self, maps: Any, masks: Any) -> Array:
        return relevance_rank(maps, masks)

    def problems(self, maps: Any, masks: Any) -> list[Problem]:
        return problems(map_problem(maps), mask_problem(masks))


@dataclass(frozen=True)
@checked
class WeightedIoU:
    card: ClassVar[Card] = Card(
        name="ranking/weighted_iou",
        kind="metric",
        summary="overlap of the top k cells with those of the truth, over several k (WIoU)",
        direction="higher",
        range=(0.0, 1.0),
        floor="control/uniform: k / (2 * cells - k) on average over k",
        ceiling="the truth itself: 1",
        citation="pixelrules2024 Eq. 3",
        departures="weights normalised to sum to 1; tied cells share the last places",
    )
    ks: Annotated[tuple[Annotated[int, Ge(1)], ...], MinLen(1)] = KS
    weights: Annotated[tuple[Annotated[float, Ge(0), Lt(float("inf"))], ...], MinLen(1)] = WEIGHTS

    def __post_init__(self) -> None:
        if len(self.ks) != len(self.weights):
            raise BadInput(f"give one weight for each k; got {len(self.ks)} ks and {len(self.weights)} weights.")
        if not sum(self.weights) > 0:
            raise BadInput(f"weights must not all be 0; got {self.weights}.")

    def __call__(self, maps: Any, truth: Any) -> Array:
        maps = as_maps(maps)
        truth = as_truth(truth, maps)
        _check_top(self.ks, maps, "ks")
        ks, weights = np.asarray(self.ks, dtype=np.intp), np.asarray(self.weights, dtype=np.float64)
        return score_numpy(lambda maps, truth: _weighted_iou(maps, truth, ks, weights), maps, truth, ordinal=True)

    def problems(self, maps: Any, truth: Any) -> list[Problem]:
        return problems(map_problem(maps), map_problem(truth, "truth"))
