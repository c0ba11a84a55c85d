"""Names that outsiders rely on are what they say, whatever was imported before."""

from __future__ import annotations

import importlib
import pkgutil

import karat


def test_functions_are_not_shadowed_by_their_modules() -> None:
    for room in ("metrics", "models", "probe", "datasets.grid", "statistics", "report"):
        package = importlib.import_module(f"karat.{room}")
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{package.__name__}.{module.name}")
    for name in ("relevance_mass", "otsu_iou", "spuriousity", "hit", "weighted_iou", "compass", "direction_error",
                 "synergy", "insertion", "deletion"):  # fmt: skip
        assert callable(getattr(karat.metrics, name)), name
    for name in ("Game", "shapley", "interaction_index", "trace", "Session"):
        assert callable(getattr(karat.probe, name)), name
    for name in ("blackbox", "classifier", "vlm", "load_model"):
        assert callable(getattr(karat.models, name)), name
    for name in ("generate", "audit", "render", "export"):
        assert callable(getattr(karat.datasets.grid, name)), name
    assert callable(karat.report.report)
    assert callable(karat.statistics.mixed_model)
    assert callable(karat.run)
    assert callable(karat.explain)
    assert callable(karat.load_run)
    assert callable(karat.load_model)


def test_every_public_name_is_there() -> None:
    for name in karat.__all__:
        assert getattr(karat, name) is not None
