"""The zoo: models by name as data. Each entry of a YAML file is a recipe with its parameters, and what to download."""

from karat.models.zoo.entries import Entry, entries
from karat.models.zoo.recipe import ZooRecipe

__all__ = ["Entry", "ZooRecipe", "entries"]
