"""Models: adapters over what people have, and the reference twins whose reasoning is known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from karat.kernel.registry import build, load_object, registered
from karat.kernel.roles import Model, ModelRecipe
from karat.models.blackbox import blackbox
from karat.models.classifier import classifier
from karat.models.clip import clip
from karat.models.detector import detector
from karat.models.organisms.files import is_organism
from karat.models.served import served
from karat.models.vlm import vlm

__all__ = ["blackbox", "classifier", "clip", "detector", "load_model", "recipe", "served", "vlm"]

DECLARES: tuple[str, ...] = (
    "blackbox",
    "served",
    "classifier_recipe",
    "detector_recipe",
    "zoo",
    "clip_recipe",
    "vlm",
    "gridprog",
    "gridnet",
    "gridvlm",
    "pixelnet",
    "photovlm",
    "photocnn",
    "organisms",
    "randomised",
)


def recipe(name: str, **parameters: Any) -> ModelRecipe:
    """A model by name, not loaded yet.

    `gridprog.spur` is short for `gridprog` with `variant="spur"`; `package.module:thing` is a recipe of your own, or
    any callable, which becomes a black box; a directory or a hub id (`llava-hf/llava-1.5-7b-hf`) is a `vlm`, or a
    `clip` if the directory says so; a file made by `karat train organism` is an `organism`. `timm:NAME`,
    `torchvision:NAME` and `transformers:ID` are classifiers with the weights of that library's hub.

    Args:
        name: of the model, in one of the forms above.
        parameters: fields of its recipe.

    Returns:
        A frozen recipe: parameters, capabilities and revision; `load()` gives the model.

    Example:
        >>> recipe("gridprog.spur").label, "gradients" in recipe("gridprog.spur").capabilities
        ('gridprog.spur', True)
    """
    family, dot, variant = name.partition(".")
    library, colon, architecture = name.partition(":")
    if colon and library in ("timm", "torchvision", "transformers"):
        inside = architecture if library == "timm" else name
        return build("model", "classifier", {"architecture": inside, "pretrained": True, **parameters})
    if ":" in name:
        if isinstance(load_object(name), type):
            return build("model", name, parameters)
        return build("model", "blackbox", {"fn": name, **parameters})
    if name.endswith(".safetensors") and is_organism(name):
        return build("model", "organism", {"path": name, **parameters})
    if dot and name not in registered("model") and family in registered("model"):
        return build("model", family, {"variant": variant, **parameters})
    if name not in registered("model") and ("/" in name or Path(name).is_dir()):
        return build("model", "clip" if _is_clip(Path(name)) else "vlm", {"path": name, **parameters})
    return build("model", name, parameters)


def _is_clip(folder: Path) -> bool:
    config = folder / "config.json"
    kind = json.loads(config.read_text(encoding="utf-8")).get("model_type", "") if config.is_file() else ""
    return "clip" in kind or "siglip" in kind


def load_model(name: str, **parameters: Any) -> Model:
    """A model by name, ready to answer.

    Args:
        name: as `recipe` takes it: a twin or an organism, a directory, a hub id, `package.module:function`.
        parameters: of that model; `karat ls models` lists them.

    Returns:
        An adapter with `answer(samples)`, `score(samples, answers)`, `capabilities` and, where known, `mechanism`.

    Example:
        >>> from karat.datasets.grid import generate
        >>> model, samples = load_model("gridprog.pure"), generate("D1_M_F0_d0.3", 2)
        >>> model.mechanism, model.answer(samples) == [sample.answer for sample in samples]
        ('reasons', True)
    """
    return recipe(name, **parameters).load()
