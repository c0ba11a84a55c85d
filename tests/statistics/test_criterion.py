"""The profiled deviance against its textbook form with a dense covariance matrix, and its gradient."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from karat.statistics.criterion import Criterion
from karat.statistics.design import Design, build_design
from tests.statistics.designs import crossed

RANDOM = ("instance", "model", "dataset")


def dense_twin(design: Design, tau: np.ndarray, reml: bool) -> tuple[float, float, np.ndarray, np.ndarray]:
    """-2 log-likelihood, sigma², beta and its covariance straight from V = I + sum tau ZZ'."""
    v = np.eye(len(design.y))
    for t, g in zip(tau, design.groupings, strict=True):
        v += t * (g.codes[:, None] == g.codes[None, :])
    inverse = np.linalg.inv(v)
    information = design.x.T @ inverse @ design.x
    beta = np.linalg.solve(information, design.x.T @ inverse @ design.y)
    rest = design.y - design.x @ beta
    rss = float(rest @ inverse @ rest)
    n, p = design.x.shape
    dof = n - p if reml else n
    deviance = np.linalg.slogdet(v)[1] + dof * (1 + np.log(2 * np.pi * rss / dof))
    if reml:
        deviance += np.linalg.slogdet(information)[1]
    return float(deviance), rss / dof, beta, rss / dof * np.linalg.inv(information)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 10_000),
    st.lists(st.one_of(st.just(0.0), st.floats(1e-4, 50.0)), min_size=3, max_size=3),
    st.booleans(),
    st.floats(0.4, 1.0),
)
def test_value_and_solution_are_those_of_the_dense_twin(seed: int, tau: list[float], reml: bool, keep: float) -> None:
    design = build_design(crossed(seed, instances=12, keep=keep), "score", ("explainer",), RANDOM, None)
    criterion = Criterion(design.y, design.x, design.names, design.groupings, reml)
    deviance, sigma2, beta, covariance = dense_twin(design, np.array(tau), reml)
    solution = criterion.solve(np.array(tau))
    assert criterion.value(np.array(tau)) == pytest.approx(deviance, abs=1e-8)
    assert solution.value == pytest.approx(deviance, abs=1e-8)
    assert solution.sigma2 == pytest.approx(sigma2, rel=1e-9)
    np.testing.assert_allclose(solution.effects, beta, atol=1e-10)
    np.testing.assert_allclose(solution.covariance, covariance, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("reml", [True, False])
@pytest.mark.parametrize("tau", [(0.3, 0.7, 0.2), (0.0, 0.5, 0.0), (20.0, 1e-3, 4.0)])
def test_gradient_is_the_slope_of_the_twin(reml: bool, tau: tuple[float, ...]) -> None:
    design = build_design(crossed(3, instances=15, keep=0.7), "score", ("explainer",), RANDOM, None)
    criterion = Criterion(design.y, design.x, design.names, design.groupings, reml)
    point = np.array(tau)
    value, gradient = criterion.value_and_gradient(point)
    assert value == pytest.approx(dense_twin(design, point, reml)[0], abs=1e-8)
    for j in range(3):
        h = 1e-4 * np.eye(3)[j] * max(point[j], 0.01)
        # at zero only the right side exists: a three-point one-sided slope
        if point[j] == 0:
            ends = [dense_twin(design, point + k * h, reml)[0] for k in (0, 1, 2)]
            slope = (-3 * ends[0] + 4 * ends[1] - ends[2]) / (2 * h[j])
        else:
            slope = (dense_twin(design, point + h, reml)[0] - dense_twin(design, point - h, reml)[0]) / (2 * h[j])
        assert gradient[j] == pytest.approx(slope, rel=1e-4, abs=1e-4)


def test_predicted_intercepts_solve_the_normal_equations() -> None:
    design = build_design(crossed(5, instances=10, keep=0.6), "score", ("explainer",), RANDOM, None)
    tau = np.array([0.4, 0.2, 0.1])
    solution = Criterion(design.y, design.x, design.names, design.groupings, True).solve(tau)
    left = design.y - design.x @ solution.effects
    for g, b in zip(design.groupings, solution.random, strict=True):
        left = left - b[g.codes]
    for t, g, b in zip(tau, design.groupings, solution.random, strict=True):
        np.testing.assert_allclose(t * np.bincount(g.codes, left), b, atol=1e-11)


def test_large_common_offset_does_not_blur_the_deviance() -> None:
    frame = crossed(7)
    tau = np.array([0.5, 0.5, 0.5])
    values = []
    for offset in (0.0, 1e6):
        design = build_design(frame.assign(score=frame["score"] + offset), "score", ("explainer",), RANDOM, None)
        values.append(Criterion(design.y, design.x, design.names, design.groupings, True).value(tau))
    assert values[0] == pytest.approx(values[1], abs=1e-5)
