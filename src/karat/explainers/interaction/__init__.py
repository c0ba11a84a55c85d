"""Explainers of what image and words do together: an attribution over visual × word pairs, reducible to maps."""

from __future__ import annotations

from karat.explainers.interaction.dime import Dime
from karat.explainers.interaction.faithful import FaithShap, WeightedBanzhaf
from karat.explainers.interaction.multishap import MultiShap
from karat.explainers.interaction.multiviz import MultiViz

__all__ = ["Dime", "FaithShap", "MultiShap", "MultiViz", "WeightedBanzhaf"]
