"""Explainers of what image and words do together: an attribution over visual × word pairs, reducible to maps."""

from __future__ import annotations

from assay.explainers.interaction.dime import Dime
from assay.explainers.interaction.faithful import FaithShap, WeightedBanzhaf
from assay.explainers.interaction.multishap import MultiShap
from assay.explainers.interaction.multiviz import MultiViz

__all__ = ["Dime", "FaithShap", "MultiShap", "MultiViz", "WeightedBanzhaf"]
