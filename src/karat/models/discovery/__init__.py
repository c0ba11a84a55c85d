"""Any vision-language model: its architecture is found out by looking and probing, and kept as `Discovered`."""

from karat.models.discovery.discovered import LEVELS, Discovered, Level

__all__ = ["LEVELS", "Discovered", "Level"]
