"""Where is one object relative to another? Boxed pairs of photographs and of the grid, with interventions on them."""

from __future__ import annotations

from karat.datasets.spatial.coco import CocoPairs
from karat.datasets.spatial.grid import GridRelations
from karat.datasets.spatial.question import OPTIONS, RELATIONS, four_way
from karat.datasets.spatial.vg import VGSpatial
from karat.datasets.spatial.vsr import Coverage, Vsr, coverage

__all__ = [
    "OPTIONS", "RELATIONS", "CocoPairs", "Coverage", "GridRelations", "VGSpatial", "Vsr", "coverage", "four_way",
]  # fmt: skip
