"""Conformance kits: what a third party runs on its own parts to prove them right.

    from karat.testing import check_explainer

    def test_mine():
        check_explainer(MyExplainer())

`check_*` raises and names every law that is broken; `*_laws` gives the laws as a list. The pytest plug-in
(`karat.testing.plugin`) does the same for everything named under `karat_check` in the pytest configuration.
"""

from __future__ import annotations

from karat.testing.control import check_control, control_laws
from karat.testing.dataset import check_dataset, dataset_laws
from karat.testing.explainer import check_explainer, explainer_laws
from karat.testing.law import Broken, Law
from karat.testing.metric import check_metric, metric_laws
from karat.testing.model import check_model, model_laws
from karat.testing.vlm import vlm_laws
from karat.testing.worlds import World, worlds_for

__all__ = [
    "Broken",
    "Law",
    "World",
    "check_control",
    "check_dataset",
    "check_explainer",
    "check_metric",
    "check_model",
    "control_laws",
    "dataset_laws",
    "explainer_laws",
    "metric_laws",
    "model_laws",
    "vlm_laws",
    "worlds_for",
]
