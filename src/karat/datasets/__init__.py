"""Datasets: where samples come from. None of them imports torch."""

from __future__ import annotations

import importlib
from typing import Any

DECLARES = ("arrays", "grid_samples", "segmentation", "vqa", "shortcut", "spatial", "cues")


def __getattr__(name: str) -> Any:
    """`karat.datasets.grid` without an import line of its own, loaded when first used."""
    if name in ("arrays", "cues", "grid", "segmentation", "shortcut", "spatial"):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
