"""The how-to of a model that somebody else trained: its adapter keeps the laws, answers, and is explained."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from real_data import real_data

from karat.kernel.registry import build
from karat.kernel.row import Score
from karat.probe.session import Session
from karat.protocols.synergy import Synergy
from karat.testing import check_dataset, check_model

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "relation_network"


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> tuple[ModuleType, ModuleType]:
    monkeypatch.syspath_prepend(str(HOW_TO))
    return importlib.import_module("relation_network"), importlib.import_module("clevr")


@pytest.mark.parametrize("variant", ["original", "ir"])
def test_it_answers_as_published(modules: tuple[ModuleType, ModuleType], variant: str) -> None:
    networks, clevr = modules
    folder = str(real_data("clevr_vqa"))
    model = networks.RelationNetworks(folder, variant).load()
    asked = clevr.ClevrQuestions(folder, 24, ("attribute", "relation"))
    check_dataset(asked)
    samples = asked.load(0, 24)
    right = [given == sample.answer for given, sample in zip(model.answer(samples), samples, strict=True)]
    assert np.mean(right) >= 0.9  # 97 to 100 % on hundreds of such questions; chance is 1 in 28


def test_laws_hold_and_both_modalities_are_explained(modules: tuple[ModuleType, ModuleType]) -> None:
    networks, clevr = modules
    folder = str(real_data("clevr_vqa"))
    model, samples = networks.RelationNetworks(folder).load(), clevr.ClevrQuestions(folder, 2).load(0, 2)
    check_model(model, samples)
    session = Session(model, samples)
    given = build("explainer", "gradient/input_x_gradient", {})(session)
    outcomes = Synergy(steps=3, visual=(8, 8)).score(session, given)["f_syn"]
    assert all(isinstance(outcomes[i], Score) for i in range(2))
    np.testing.assert_allclose(outcomes.details["del_joint"][:, 0], model.score(samples, session.targets), atol=1e-5)
