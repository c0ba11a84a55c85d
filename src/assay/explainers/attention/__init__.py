"""Explainers made of attention maps. Image and words, from one shared trace that keeps no map."""

from __future__ import annotations

from assay.explainers.attention.daam import Daam
from assay.explainers.attention.graded import Gar, Generic, GradRollout
from assay.explainers.attention.plain import Raw, Rollout

__all__ = ["Daam", "Gar", "Generic", "GradRollout", "Raw", "Rollout"]
