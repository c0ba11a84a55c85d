"""Does the map lie on the truth? Mass inside a mask, mass corrected for its area, mass outside it, overlap after Otsu.

All take `maps` (n, h, w) and `masks` (n, h, w), NumPy or torch, and give one value per sample (n,), NaN where there is
no answer (a broken or all-zero map, an empty mask; `karat.metrics.missing` says which). Word scores are maps of one
row: `words[:, None, :]`; pad shorter questions with 0, which adds no mass.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from annotated_types import Ge, Lt

from karat.kernel.card import Card
from karat.kernel.constraints import checked
from karat.metrics.arrays import Array, Floats, Scratch, as_maps, as_masks, flatten, score, score_numpy, tidy, to_numpy
from karat.metrics.missing import Problem, Reasons, first, map_problem, mask_problem, problems
from karat.metrics.otsu import otsu_threshold

Mode = Literal["soft", "hard"]
_INF = float("inf")


def relevance_mass(maps: Any, masks: Any) -> Array:
    """RMA: the share of a map's mass that lies inside the mask. Signs are dropped: mass is |a|. Differentiable.

    Args:
        maps: (n, h, w) attribution maps, NumPy or torch.
        masks: (n, h, w) truth masks of the same size: bool, 0/1 or 0/255.

    Returns:
        (n,) from 0 to 1, of the kind of `maps`; NaN where a map is broken or all zero, or a mask is empty.

    Example:
        >>> relevance_mass(np.array([[[3.0, -1.0]]]), np.array([[[True, False]]]))
        array([0.75])
    """
    maps = as_maps(maps)
    return score(_relevance_mass, maps, as_masks(masks, maps))


def _relevance_mass(xp: ModuleType, maps: Array, masks: Array) -> Array:
    maps, usable = tidy(xp, maps)
    return _share_inside(xp, xp.abs(maps, out=_onto(xp, maps)), masks, usable)  # gridvqax2026 Eq. 3


def corrected_mass(maps: Any, masks: Any) -> Array:
    """Relevance mass on a scale where a uniform map scores 0 and a map wholly inside the mask scores 1.

    (RMA - area) / (1 - area), with `area` the mask's share of the cells: plain RMA rewards big masks. Below 0 the map
    avoids the mask; the least possible is -area / (1 - area). Signs are dropped, as in `relevance_mass`.
    Differentiable.

    Args:
        maps: (n, h, w) attribution maps, NumPy or torch.
        masks: (n, h, w) truth masks of the same size: bool, 0/1 or 0/255.

    Returns:
        (n,) up to 1, of the kind of `maps`; NaN as in `relevance_mass`, and for a mask over the whole map, where
        nothing can be told apart.

    Example:
        >>> corrected_mass(np.array([[[1.0, 1.0]], [[2.0, 0.0]]]), np.array([[[True, False]], [[True, False]]]))
        array([0., 1.])
    """
    maps = as_maps(maps)
    return score(_corrected_mass, maps, as_masks(masks, maps))


def _corrected_mass(xp: ModuleType, maps: Array, masks: Array) -> Array:
    mass = _relevance_mass(xp, maps, masks)
    area = xp.asarray(masks.sum(-1), dtype=maps.dtype) / maps.shape[-1]
    whole = area == 1
    return xp.where(whole, float("nan"), (mass - area) / xp.where(whole, 1.0, 1 - area))


def spuriousity(maps: Any, masks: Any, threshold: float = 0.0, mode: Mode = "soft") -> Array:
    """SSS: the share of a saliency map's mass that lies outside the mask. 0 is all inside, 1 all outside.

    Differentiable when soft.

    Args:
        maps: (n, h, w) attribution maps, NumPy or torch.
        masks: (n, h, w) truth masks of the same size: bool, 0/1 or 0/255.
        threshold: cells below it, in the map's own units, are dropped first; negative cells therefore always are.
        mode: "soft" keeps the values of the other cells; "hard" counts each as 1, and at threshold 0 counts zero cells
            too, as the equation has it.

    Returns:
        (n,) from 0 to 1, of the kind of `maps`; NaN as in `relevance_mass`, and where no mass reaches the threshold.

    Example:
        >>> spuriousity(np.array([[[3.0, 1.0]]]), np.array([[[True, False]]]))
        array([0.25])
    """
    return Spuriousity(threshold, mode)(maps, masks)


def _share_inside(xp: ModuleType, weights: Array, masks: Array, usable: Array) -> Array:
    total = weights.sum(-1)
    inside = xp.multiply(weights, masks, out=_onto(xp, weights)).sum(-1)
    usable = usable & (total > 0) & masks.any(-1)
    return xp.where(usable, inside / xp.where(usable, total, 1.0), float("nan"))


def _onto(xp: ModuleType, array: Array) -> Array | None:
    """Where to put a result: over the argument, which is the formula's own; never with torch, which keeps it."""
    return array if xp is np else None


def otsu_iou(maps: Any, masks: Any) -> Array:
    """Intersection over union of the mask and the cells with |a| >= t, t being Otsu's threshold of that map.

    t is taken over the positive entries of |a| only, so that a sparse map is not split between zero and the rest
    (the released code of gridvqax2026; its paper says "Otsu" only). Has no gradient.

    Args:
        maps: (n, h, w) attribution maps, NumPy or torch.
        masks: (n, h, w) truth masks of the same size: bool, 0/1 or 0/255.

    Returns:
        (n,) from 0 to 1, of the kind of `maps`; NaN as in `relevance_mass`.

    Example:
        >>> otsu_iou(np.array([[[9.0, 8.0, 1.0, 0.5]]]), np.array([[[True, False, False, False]]]))
        array([0.5])
    """
    scratch = Scratch()

    def formula(maps: Floats, masks: Array) -> Floats:
        maps, usable = tidy(np, maps)
        magnitudes = np.abs(maps, out=maps)
        chosen = magnitudes >= otsu_threshold(magnitudes, scratch)[:, None]
        area = _count(masks)
        overlap = _count(chosen & masks)
        union = np.maximum(_count(chosen) + area - overlap, 1)
        return np.where(usable & (area > 0), overlap / union, np.nan)

    maps = as_maps(maps)
    return score_numpy(formula, maps, as_masks(masks, maps))


def _count(cells: Array) -> Array:
    return cells.sum(-1, dtype=np.int32)


@dataclass(frozen=True)
class RelevanceMass:
    card: ClassVar[Card] = Card(
        name="localization/relevance_mass",
        kind="metric",
        summary="share of |map| inside the truth mask",
        direction="higher",
        range=(0.0, 1.0),
        floor="control/uniform: the mask's share of the area",
        ceiling="a map wholly inside the mask: 1",
        citation="gridvqax2026 Eq. 3",
        departures="an empty mask has no answer (the released code scores 0)",
    )

    def __call__(self, maps: Any, masks: Any) -> Array:
        return relevance_mass(maps, masks)

    def problems(self, maps: Any, masks: Any) -> list[Problem]:
        return problems(map_problem(maps), mask_problem(masks))


@dataclass(frozen=True)
class CorrectedMass:
    card: ClassVar[Card] = Card(
        name="localization/corrected_mass",
        kind="metric",
        summary="relevance mass corrected for the mask's area",
        direction="higher",
        range=(-_INF, 1.0),
        floor="control/uniform: 0",
        ceiling="a map wholly inside the mask: 1",
        citation="after gridvqax2026 Eq. 3",
        departures="not in a paper: plain relevance mass rewards big masks",
    )

    def __call__(self, maps: Any, masks: Any) -> Array:
        return corrected_mass(maps, masks)

    def problems(self, maps: Any, masks: Any) -> list[Problem]:
        return problems(map_problem(maps), mask_problem(masks, whole=True))


@dataclass(frozen=True)
@checked
class Spuriousity:
    card: ClassVar[Card] = Card(
        name="localization/spuriousity",
        kind="metric",
        summary="share of the saliency that lies outside the truth mask (SSS)",
        direction="lower",
        range=(0.0, 1.0),
        floor="control/uniform: the share of the area outside the mask",
        ceiling="a map wholly inside the mask: 0",
        citation="semscore2025 Eq. 1-3",
        departures="sums are not rounded to integers; an empty mask has no answer",
    )
    threshold: Annotated[float, Ge(0), Lt(_INF)] = 0.0  # saliency below 0 has no mass
    mode: Mode = "soft"

    def __call__(self, maps: Any, masks: Any) -> Array:
        maps = as_maps(maps)
        return score(self._formula, maps, as_masks(masks, maps))

    def _formula(self, xp: ModuleType, maps: Array, masks: Array) -> Array:
        kept = maps >= self.threshold  # semscore2025 Eq. 3; before tidy, which may change the scale
        maps, usable = tidy(xp, maps)
        weights = maps if self.mode == "soft" else xp.ones_like(maps)
        weights = xp.multiply(weights, kept, out=_onto(xp, weights))
        # semscore2025 Eq. 1-2: 1 - ((in - out) / total + 1) / 2 = 1 - in / total, without the released code's
        # rounding of both sums to integers
        return 1 - _share_inside(xp, weights, masks, usable)

    def problems(self, maps: Any, masks: Any) -> list[Problem]:
        return problems(first(map_problem(maps), self._nothing_left(maps)), mask_problem(masks))

    def _nothing_left(self, maps: Any) -> Reasons:
        peak = flatten(to_numpy(maps)).max(-1)
        enough = peak >= self.threshold if self.mode == "hard" else (peak >= self.threshold) & (peak > 0)
        return [None if one else f"no saliency reaches the threshold {self.threshold:g}" for one in enough]


@dataclass(frozen=True)
class OtsuIoU:
    card: ClassVar[Card] = Card(
        name="localization/otsu_iou",
        kind="metric",
        summary="overlap of the truth mask with the map cut at Otsu's threshold",
        direction="higher",
        range=(0.0, 1.0),
        floor="control/uniform: the mask's share of the area",
        ceiling="the mask itself as map: 1",
        citation="gridvqax2026 section 5",
        departures="threshold over positive entries of |map|, as released; an empty mask has no answer",
    )

    def __call__(self, maps: Any, masks: Any) -> Array:
        return otsu_iou(maps, masks)

    def problems(self, maps: Any, masks: Any) -> list[Problem]:
        return problems(map_problem(maps), mask_problem(masks))
