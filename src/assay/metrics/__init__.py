"""Metrics: pure functions on arrays, batch first, one value per sample, NaN where there is no answer."""

from __future__ import annotations

from assay.metrics.compass import compass, compass_problem, direction_error, excess
from assay.metrics.localization import corrected_mass, otsu_iou, relevance_mass, spuriousity
from assay.metrics.perturbation import deletion, insertion, srg
from assay.metrics.problems import map_problem, mask_problem, outcomes
from assay.metrics.ranking import hit, pointing_game, relevance_rank, weighted_iou
from assay.metrics.synergy import macro_interaction, synergy

# modules whose dataclasses carry cards: what `assay ls metrics` lists
DECLARES = ("localization", "ranking", "compass")

__all__ = [
    "DECLARES",
    "compass",
    "compass_problem",
    "corrected_mass",
    "deletion",
    "direction_error",
    "excess",
    "hit",
    "insertion",
    "macro_interaction",
    "map_problem",
    "mask_problem",
    "otsu_iou",
    "outcomes",
    "pointing_game",
    "relevance_mass",
    "relevance_rank",
    "spuriousity",
    "srg",
    "synergy",
    "weighted_iou",
]
