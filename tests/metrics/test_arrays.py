"""Shapes, kinds and blocks of arrays: what every metric on maps refuses, and what it does not mind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from karat.kernel.errors import BadInput
from karat.metrics import arrays
from karat.metrics.localization import RelevanceMass


def test_label_maps_and_strings_are_refused() -> None:
    with pytest.raises(BadInput, match="labels == class_id"):
        RelevanceMass()(np.ones((1, 2, 2)), np.array([[[0, 1], [2, 1]]]))
    with pytest.raises(BadInput, match="real numbers"):
        RelevanceMass()(np.array([[["a", "b"]]]), np.ones((1, 1, 2)))


def test_scratch_hands_on_its_memory() -> None:
    scratch = arrays.Scratch()
    first = scratch.array("a", (4, 5), np.float64)
    assert scratch.array("a", (2, 3), np.float64).base is first.base
    assert not np.shares_memory(scratch.array("b", (2, 3), np.float64), first)
    assert scratch.array("a", (40, 5), np.float64).shape == (40, 5)


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e300])
def test_tidy_rescales_by_a_power_of_two_and_empties_what_cannot_be_used(scale: float) -> None:
    rows = np.array([[1.0, 3.0], [0.0, 0.0], [np.nan, 1.0], [np.inf, 1.0]]) * scale
    tidied, usable = arrays.tidy(np, rows)
    assert usable.tolist() == [True, False, False, False]
    assert tidied[0, 1] / tidied[0, 0] == rows[0, 1] / rows[0, 0]
    assert not tidied[1:].any()


def test_16_bit_tensors_become_float32_before_they_are_summed() -> None:
    torch: Any = pytest.importorskip("torch")
    assert arrays.to_numpy(torch.ones(3, dtype=torch.bfloat16)).dtype == np.float32
    assert arrays.is_tensor(torch.ones(1))
    assert not arrays.is_tensor(np.ones(1))
