"""Karat: how much of an explanation of a vision or vision-language model is true.

Names are loaded when first used, so that `import karat` is quick and torch stays out until a model needs it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from karat import datasets, metrics, models, probe, report, statistics
    from karat.engine.explain import explain
    from karat.engine.run import run
    from karat.kernel.attribution import Attribution, resize_maps
    from karat.kernel.card import Card
    from karat.kernel.sample import Phrase, Region, Sample
    from karat.kernel.spec import Spec
    from karat.kernel.target import Target
    from karat.models import load_model
    from karat.results import load_run

__version__ = "0.2.0"

_WHERE = {
    "Attribution": "karat.kernel.attribution",
    "Card": "karat.kernel.card",
    "Phrase": "karat.kernel.sample",
    "Region": "karat.kernel.sample",
    "Sample": "karat.kernel.sample",
    "Spec": "karat.kernel.spec",
    "Target": "karat.kernel.target",
    "explain": "karat.engine.explain",
    "load_model": "karat.models",
    "load_run": "karat.results",
    "resize_maps": "karat.kernel.attribution",
    "run": "karat.engine.run",
}
_ROOMS = ("datasets", "metrics", "models", "probe", "report", "statistics")

__all__ = [
    "Attribution", "Card", "Phrase", "Region", "Sample", "Spec", "Target", "datasets", "explain", "load_model",
    "load_run", "metrics", "models", "probe", "report", "resize_maps", "run", "statistics",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f"karat.{name}")
    if name in _WHERE:
        return getattr(importlib.import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'karat' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
