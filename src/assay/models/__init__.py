"""Models: adapters over what people have, and the reference twins whose reasoning is known."""

from __future__ import annotations

from typing import Any

from assay.kernel.registry import build, load_object, registered
from assay.kernel.roles import Model, ModelRecipe
from assay.models.blackbox import blackbox
from assay.models.classifier import classifier
from assay.models.vlm import vlm

__all__ = ["blackbox", "classifier", "load_model", "recipe", "vlm"]

DECLARES: tuple[str, ...] = ("blackbox", "classifier", "vlm", "gridprog", "gridnet", "gridvlm")


def recipe(name: str, **parameters: Any) -> ModelRecipe:
    """A model by name, not loaded yet.

    `gridprog.spur` is short for `gridprog` with `variant="spur"`; `package.module:thing` is a recipe of your own, or
    any callable, which becomes a black box.
    """
    family, dot, variant = name.partition(".")
    if ":" in name:
        if isinstance(load_object(name), type):
            return build("model", name, parameters)
        return build("model", "blackbox", {"fn": name, **parameters})
    if dot and name not in registered("model") and family in registered("model"):
        return build("model", family, {"variant": variant, **parameters})
    return build("model", name, parameters)


def load_model(name: str, **parameters: Any) -> Model:
    """A model by name, ready to answer: `load_model("gridprog.pure")`, `load_model("package.module:function")`."""
    return recipe(name, **parameters).load()
