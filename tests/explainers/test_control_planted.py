"""The truth about planted shortcuts: values known by arithmetic, asked for once a session."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from planted_worlds import patch_reader, planted_sample

from karat.explainers.control_planted import PlantedShapley, PlantedSingleDeletion, patch_deletion, patch_shapley
from karat.kernel.errors import BadInput
from karat.kernel.sample import Sample
from karat.probe.session import Session
from karat.probe.trials import Effort

WEIGHTS = np.linspace(0.02, 0.18, 9)  # sum 0.9
EXACT = Effort(budget=512)


def additive(white: np.ndarray) -> np.ndarray:
    return white @ WEIGHTS


def test_shapley_values_of_an_additive_rule_are_its_weights_on_the_patch_and_zero_elsewhere() -> None:
    session = Session(patch_reader(additive), [planted_sample()])
    [attribution] = PlantedShapley(EXACT)(session)
    mask = session.samples[0].mask("shortcut")
    np.testing.assert_allclose(attribution.visual[mask], WEIGHTS, atol=1e-12)
    assert not attribution.visual[~mask].any()
    assert attribution.passes == 512


def test_pixels_that_are_needed_together_share_evenly() -> None:
    session = Session(patch_reader(lambda white: white[:, [0, 4, 8]].all(1).astype(float)), [planted_sample()])
    expected = np.zeros(9)
    expected[[0, 4, 8]] = 1 / 3
    np.testing.assert_allclose(patch_shapley(session, [0], EXACT)[0].values, expected, atol=1e-12)
    # each alone seems to be worth everything
    np.testing.assert_allclose(patch_deletion(session, [0])[0], expected * 3, atol=1e-12)


def test_single_deletion_is_blind_to_pixels_that_stand_in_for_each_other() -> None:
    session = Session(patch_reader(lambda white: white[:, [0, 4]].any(1).astype(float)), [planted_sample()])
    [attribution] = PlantedSingleDeletion()(session)
    assert not attribution.visual.any()
    np.testing.assert_allclose(patch_shapley(session, [0], EXACT)[0].values[[0, 4]], 0.5)


def test_the_truth_is_asked_for_once_a_session() -> None:
    session = Session(patch_reader(additive), [planted_sample(f"s{k}") for k in range(2)])
    first = patch_shapley(session, [0], EXACT)
    assert session.cost.passes.made == 512
    again = patch_shapley(session, [0, 1], EXACT)
    patch_deletion(session, [0, 1])
    assert session.cost.passes.made == 1024
    assert again[0] is first[0]
    patch_shapley(session, [0], Effort(budget=1024))  # another effort is another truth, from remembered answers
    assert session.cost.passes.made == 1024


def test_the_truth_does_not_outlive_its_session() -> None:
    session = Session(patch_reader(additive), [planted_sample()])
    truth = weakref.ref(patch_shapley(session, [0], EXACT)[0])
    gone = weakref.ref(session)
    del session
    gc.collect()
    assert gone() is None
    assert truth() is None


def test_samples_without_a_clean_twin_are_refused() -> None:
    session = Session(patch_reader(additive), [Sample("a", np.zeros((12, 12, 3), np.uint8), answer="yes")])
    with pytest.raises(BadInput, match="clean twin"):
        patch_shapley(session, [0], Effort())
