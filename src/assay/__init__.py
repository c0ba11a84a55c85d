"""Assay: how much truth is in an explanation of a vision or vision-language model.

Names are loaded when first used, so that `import assay` is quick and torch stays out until a model needs it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay import datasets, metrics, models, probe, report, statistics
    from assay.engine.explain import explain
    from assay.engine.run import run
    from assay.kernel.attribution import Attribution, resize_maps
    from assay.kernel.card import Card
    from assay.kernel.sample import Phrase, Region, Sample
    from assay.kernel.spec import Spec
    from assay.models import load_model
    from assay.results import load_run

__version__ = "0.1.0"

_WHERE = {
    "Attribution": "assay.kernel.attribution",
    "Card": "assay.kernel.card",
    "Phrase": "assay.kernel.sample",
    "Region": "assay.kernel.sample",
    "Sample": "assay.kernel.sample",
    "Spec": "assay.kernel.spec",
    "explain": "assay.engine.explain",
    "load_model": "assay.models",
    "load_run": "assay.results",
    "resize_maps": "assay.kernel.attribution",
    "run": "assay.engine.run",
}
_ROOMS = ("datasets", "metrics", "models", "probe", "report", "statistics")

__all__ = [
    "Attribution", "Card", "Phrase", "Region", "Sample", "Spec", "datasets", "explain", "load_model", "load_run",
    "metrics", "models", "probe", "report", "resize_maps", "run", "statistics",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f"assay.{name}")
    if name in _WHERE:
        return getattr(importlib.import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'assay' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
