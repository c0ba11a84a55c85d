"""Metrics: pure functions on arrays, batch first, one value per sample, NaN where there is no answer."""

from __future__ import annotations

from karat.metrics.compass import compass, compass_problem, direction_error, excess
from karat.metrics.localization import corrected_mass, otsu_iou, relevance_mass, spuriousity
from karat.metrics.missing import map_problem, mask_problem, outcomes, problems
from karat.metrics.perturbation import deletion, insertion, srg
from karat.metrics.ranking import hit, pointing_game, relevance_rank, weighted_iou
from karat.metrics.synergy import macro_interaction, synergy

# modules whose dataclasses carry cards: what `karat ls metrics` lists
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
    "problems",
    "relevance_mass",
    "relevance_rank",
    "spuriousity",
    "srg",
    "synergy",
    "weighted_iou",
]
