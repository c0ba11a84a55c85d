"""Explainers made of attention maps. Image and words, from one shared trace that keeps no map."""

from __future__ import annotations

from karat.explainers.attention.daam import Daam
from karat.explainers.attention.graded import Gar, Generic, GradRollout
from karat.explainers.attention.plain import Raw, Rollout

__all__ = ["Daam", "Gar", "Generic", "GradRollout", "Raw", "Rollout"]
