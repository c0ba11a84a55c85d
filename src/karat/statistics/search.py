"""Minimise a profiled deviance over relative variances tau >= 0: few numbers, a possible optimum on the boundary.

Log-scale descent from the best points of a coarse grid, Newton steps with the exact gradient, then the boundary: a
variance that does no good is set to zero, and a zero is kept only while the derivative there is not negative.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from karat.statistics.design import Floats

_LOW, _HIGH = np.log(1e-12), np.log(1e12)  # of tau; beyond these a variance is zero, or the residual is
_GRID = np.log(np.array([0.01, 0.1, 0.7, 3.0]) ** 2)
_GRID_LIMIT = 256  # points; more factors than four start from the diagonal of the grid
_SAME = 1e-10  # deviances this close are one

ValueAndGradient = Callable[[Floats], tuple[float, Floats]]


@dataclass(frozen=True)
class Optimum:
    tau: Floats  # (k,), exact zeros on the boundary
    value: float
    gradient: Floats  # by log tau where tau > 0, by tau where tau = 0 (not negative at an optimum)
    decrement: float  # how much lower a quadratic model says the deviance could still go
    converged: bool
    evaluations: int


class _Counted:
    def __init__(self, value: Callable[[Floats], float], value_and_gradient: ValueAndGradient) -> None:
        self.calls = 0
        self._value, self._both = value, value_and_gradient

    def value(self, tau: Floats) -> float:
        self.calls += 1
        return self._value(tau)

    def both(self, tau: Floats) -> tuple[float, Floats]:
        self.calls += 1
        return self._both(tau)


def minimise(
    value: Callable[[Floats], float], value_and_gradient: ValueAndGradient, k: int, *, starts: int = 3
) -> Optimum:
    """The lowest deviance found for k relative variances; `starts` grid points are followed to their optimum."""
    f = _Counted(value, value_and_gradient)
    if k == 0:
        return Optimum(np.zeros(0), f.value(np.zeros(0)), np.zeros(0), 0.0, True, f.calls)
    product = itertools.product(_GRID, repeat=k) if len(_GRID) ** k <= _GRID_LIMIT else ([g] * k for g in _GRID)
    grid = [np.array(point) for point in product]
    if starts == 1:  # an evaluation is dear: a short grid
        grid = [np.full(k, g) for g in _GRID]
    order = np.argsort([f.value(np.exp(point)) for point in grid], kind="stable")
    reached = [_quasi_newton(f, np.exp(grid[i]), np.inf) for i in order[:starts]]
    tau, low = _descend(f, *min(reached, key=lambda pair: pair[1]))
    return _certify(f, tau, low)


def _descend(f: _Counted, tau: Floats, low: float) -> tuple[Floats, float]:
    """From tau to an optimum where no variance can be dropped, and none that was dropped wants to come back."""
    for _ in range(10):
        tau, low = _drop(f, tau, low)
        tau, low = _drop(f, *_newton(f, tau, low))
        tau, low, moved = _return(f, tau, low)
        if not moved:
            break
        tau, low = _quasi_newton(f, tau, low)
    return tau, low


def _quasi_newton(f: _Counted, tau: Floats, low: float) -> tuple[Floats, float]:
    active = tau > 0
    if not active.any():
        return tau, low

    def of_log(log_tau: Floats) -> tuple[float, Floats]:
        point = tau.copy()
        point[active] = np.exp(log_tau)
        value, gradient = f.both(point)
        return value, (gradient * point)[active]

    result = minimize(
        of_log, np.log(tau[active]), jac=True, method="L-BFGS-B", bounds=[(_LOW, _HIGH)] * int(active.sum()),
        options={"ftol": 1e-12, "gtol": 1e-4, "maxiter": 200},  # Newton takes over from there
    )  # fmt: skip
    if not result.fun < low:
        return tau, low
    better = tau.copy()
    better[active] = np.exp(result.x)
    return better, float(result.fun)


def _newton(f: _Counted, tau: Floats, low: float) -> tuple[Floats, float]:
    """A few Newton steps on the log scale: quasi-Newton stops where the deviance no longer changes, this goes on
    until the gradient is gone, which is what the estimates need."""
    for _ in range(12):
        gradient, hessian, active = _curvature(f, tau)
        if not active.any() or np.abs(gradient).max() < 1e-9:
            break
        values, vectors = np.linalg.eigh(hessian)
        curve = np.maximum(np.abs(values), 1e-6)  # downhill also where the deviance is not convex
        step = -vectors @ ((vectors.T @ gradient) / curve)
        step *= min(1.0, 2.0 / max(np.abs(step).max(), 1e-300))
        for _ in range(8):
            trial = tau.copy()
            trial[active] = np.exp(np.clip(np.log(tau[active]) + step, _LOW, _HIGH))
            reached = f.value(trial)
            if reached <= low + _SAME:  # rounding noise must not stop the last, exact step
                break
            step /= 4
        else:
            break
        done = np.abs(step).max() < 1e-9
        tau, low = trial, reached
        if done:
            break
    return tau, low


def _curvature(f: _Counted, tau: Floats) -> tuple[Floats, Floats, npt.NDArray[np.bool_]]:
    """Gradient and Hessian by log tau of the positive variances; differences of the exact gradient."""
    active = (tau > 0) & (tau > 2 * np.exp(_LOW)) & (tau < np.exp(_HIGH) / 2)
    where = np.flatnonzero(active)
    gradient = (f.both(tau)[1] * tau)[active]
    hessian = np.empty((len(where), len(where)))
    h = 1e-4
    for i, j in enumerate(where):
        ends = []
        for sign in (1, -1):
            point = tau.copy()
            point[j] *= np.exp(sign * h)
            ends.append((f.both(point)[1] * point)[active])
        hessian[i] = (ends[0] - ends[1]) / (2 * h)
    return gradient, (hessian + hessian.T) / 2, active


def _drop(f: _Counted, tau: Floats, low: float) -> tuple[Floats, float]:
    """Set to zero, smallest first, what the deviance is no worse without."""
    for j in np.argsort(tau):
        if tau[j] == 0:
            continue
        trial = tau.copy()
        trial[j] = 0
        reached = f.value(trial)
        if reached <= low + _SAME:
            tau, low = trial, reached
    return tau, low


def _return(f: _Counted, tau: Floats, low: float) -> tuple[Floats, float, bool]:
    """Let a zero grow again where the derivative is negative, at the best of a range of sizes."""
    zeros = np.flatnonzero(tau == 0)
    if not len(zeros):
        return tau, low, False
    gradient = f.both(tau)[1]
    moved = False
    for j in zeros[gradient[zeros] < 0]:
        for size in np.logspace(-10, 0, 11):
            trial = tau.copy()
            trial[j] = size
            reached = f.value(trial)
            if reached < low - _SAME:
                tau, low, moved = trial, reached, True
    return tau, low, moved


def _certify(f: _Counted, tau: Floats, low: float) -> Optimum:
    """First- and second-order conditions at the point found."""
    gradient_by_tau = f.both(tau)[1]
    gradient = np.where(tau > 0, gradient_by_tau * tau, gradient_by_tau)
    inner, hessian, active = _curvature(f, tau)
    at_edge = bool((tau >= np.exp(_HIGH) / 2).any())
    if not active.any():
        return Optimum(tau, low, gradient, 0.0, not at_edge, f.calls)
    curve = np.linalg.eigvalsh(hessian)
    decrement = float(inner @ np.linalg.lstsq(hessian, inner, rcond=1e-12)[0]) / 2
    converged = not at_edge and abs(decrement) < 1e-7 and curve[0] > -1e-6 * max(curve[-1], 1.0)
    return Optimum(tau, low, gradient, abs(decrement), bool(converged), f.calls)
