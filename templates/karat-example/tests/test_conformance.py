"""Karat's kit on our parts, with parameters and promises of our own. `karat_check` in pyproject.toml does the rest."""

from __future__ import annotations

import pytest
from karat_example.dataset import Stripes
from karat_example.explainer import Surprise
from karat_example.metric import Coverage
from karat_example.model import bright

import karat
from karat.testing import check_dataset, check_explainer, check_metric, check_model


def test_explainer():
    check_explainer(Surprise(), axioms=["finds", "dummy", "symmetry"])


@pytest.mark.parametrize("level", [0.1, 0.9])
def test_metric(level):
    check_metric(Coverage(level))


def test_dataset():
    check_dataset(Stripes(n=6))


def test_model():
    check_model(karat.models.blackbox(bright, text=False), Stripes().load(0, 3))
