"""The optimiser on functions whose minimum is known, inside, on the boundary, and with two valleys."""

from __future__ import annotations

import numpy as np
import pytest

from karat.statistics.search import minimise


def bowl(centre: np.ndarray):  # type: ignore[no-untyped-def]  # a pair of closures
    """sum (tau - centre)²: its constrained minimum is the positive part of the centre."""

    def both(tau: np.ndarray) -> tuple[float, np.ndarray]:
        return float(((tau - centre) ** 2).sum()), 2 * (tau - centre)

    return (lambda tau: both(tau)[0]), both


@pytest.mark.parametrize("centre", [(0.5, 2.0), (1e-3, 30.0), (0.2, -1.0), (-1.0, -2.0), (0.1, 0.1, 0.1, 0.1, 5.0)])
def test_finds_the_constrained_minimum(centre: tuple[float, ...]) -> None:
    optimum = minimise(*bowl(np.array(centre)), len(centre))
    np.testing.assert_allclose(optimum.tau, np.maximum(centre, 0), rtol=1e-5, atol=1e-12)
    assert ((optimum.tau == 0) == (np.array(centre) < 0)).all()
    assert optimum.converged


def test_takes_the_deeper_of_two_valleys() -> None:
    def both(tau: np.ndarray) -> tuple[float, np.ndarray]:
        u = np.log(tau[0] + 1e-30)
        near, far = np.exp(-((u + 4) ** 2)), 2 * np.exp(-((u - 2) ** 2))
        slope = 2 * (u + 4) * near + 2 * (u - 2) * far
        return float(-near - far), np.array([slope / (tau[0] + 1e-30)])

    optimum = minimise(lambda tau: both(tau)[0], both, 1)
    assert np.log(optimum.tau[0]) == pytest.approx(2, abs=1e-3)


def test_a_minimum_at_infinity_is_not_called_converged() -> None:
    def both(tau: np.ndarray) -> tuple[float, np.ndarray]:
        return float(-np.log1p(tau).sum()), -1 / (1 + tau)

    assert not minimise(lambda tau: both(tau)[0], both, 1).converged
