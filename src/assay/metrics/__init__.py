"""Metrics: pure functions on arrays, batch first, one value per sample, NaN where there is no answer."""

from __future__ import annotations

from assay.metrics.compass import compass, compass_problem, direction_error
from assay.metrics.localization import corrected_mass, otsu_iou, relevance_mass, spuriousity
from assay.metrics.problems import map_problem, mask_problem, outcomes
from assay.metrics.ranking import hit, pointing_game, relevance_rank, weighted_iou

# modules whose dataclasses carry cards: what `assay ls metrics` lists
DECLARES = ("localization", "ranking", "compass")

__all__ = [
    "DECLARES",
    "compass",
    "compass_problem",
    "corrected_mass",
    "direction_error",
    "hit",
    "map_problem",
    "mask_problem",
    "otsu_iou",
    "outcomes",
    "pointing_game",
    "relevance_mass",
    "relevance_rank",
    "spuriousity",
    "weighted_iou",
]
