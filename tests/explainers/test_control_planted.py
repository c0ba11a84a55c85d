"""Controls for planted shortcuts: values that arithmetic gives, on the pixels of the patch and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest
from planted_worlds import SIDE, patch_reader, planted_sample

from karat.explainers.control_planted import PlantedShapley, PlantedSingleDeletion
from karat.probe import Session

WEIGHTS = np.linspace(0.01, 0.09, 9)


@pytest.mark.parametrize("control", [PlantedShapley(), PlantedSingleDeletion()], ids=repr)
def test_a_sum_is_shared_out_to_its_pixels(control: PlantedShapley | PlantedSingleDeletion) -> None:
    """What reads the patch adds up its white pixels: either way a pixel is worth its own term."""
    session = Session(patch_reader(lambda white: 0.5 + white @ WEIGHTS), [planted_sample()], ["yes"])
    [attribution] = control(session)
    expected = np.zeros((SIDE, SIDE))
    expected[planted_sample().mask("shortcut")] = WEIGHTS
    np.testing.assert_allclose(attribution.visual, expected, atol=1e-9)
    assert attribution.signed
    assert attribution.passes > 0


def test_single_deletion_cannot_tell_pixels_that_stand_in_for_one_another() -> None:
    """Any white pixel is enough: alone none of them matters, together they share the answer evenly."""
    session = Session(patch_reader(lambda white: np.where(white.any(axis=1), 0.9, 0.1)), [planted_sample()], ["yes"])
    [alone], [shared] = PlantedSingleDeletion()(session), PlantedShapley()(session)
    assert not alone.visual.any()
    np.testing.assert_allclose(shared.visual[planted_sample().mask("shortcut")], 0.8 / 9, atol=1e-9)
