"""Explainers of what image and words do together: an attribution over visual × word pairs, reducible to maps."""

from __future__ import annotations

from karat.explainers.interaction.dime import Dime
from karat.explainers.interaction.multiviz import MultiViz
from karat.explainers.interaction.pairs import FaithShap, MultiShap, WeightedBanzhaf

__all__ = ["Dime", "FaithShap", "MultiShap", "MultiViz", "WeightedBanzhaf"]
