"""When the shortcut decides: pixelrules2024 Eq. 1."""

from __future__ import annotations

import numpy as np
import pytest
from planted_worlds import patch_reader, planted_sample

from karat.models.pixelnet.dominance import answers


def test_dominance_is_equation_one() -> None:
    def value(white: np.ndarray) -> np.ndarray:
        return np.where(white.all(1), 0.97, np.where(white.any(1), 0.5, 0.05))

    given = answers(patch_reader(value), [planted_sample()])
    assert given.clean[0] == pytest.approx(0.05)
    assert given.perturbed[0] == pytest.approx(0.97)
    assert given.dominant(0.9).tolist() == [True]
    assert given.dominant(0.93).tolist() == [False]  # the gain is 0.92
    high = answers(patch_reader(lambda white: np.where(white.all(1), 0.99, 0.6)), [planted_sample()])
    assert high.dominant(0.1).tolist() == [False]  # without the shortcut the class wins already
