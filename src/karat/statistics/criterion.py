"""The profiled deviance of a linear mixed model with crossed random intercepts, and its exact gradient.

    y = X beta + sum_f Z_f b_f + e,   b_f ~ N(0, sigma² tau_f I),   e ~ N(0, sigma² I)

beta and sigma² have closed forms given the relative variances tau, so the search is over one number per factor.
With V = I + sum_f tau_f Z_f Z_f' and N = n (ML) or n - p (REML), minus twice the log-likelihood is

    log|V| + [log|X' V^-1 X|] + N (1 + log(2 pi y'Py / N))          (the bracket only for REML)

The factor with the most levels, g, has a diagonal Z_g'Z_g and is eliminated first. What is left of the columns
W = [Z_small, X, y] (m of them, a dozen or so) is

    S(tau_g) = W' V_g^-1 W = within + sum_j s_j s_j' / (n_j (1 + tau_g n_j)),

a sum of non-negative parts: `within` is W centred inside the levels of g, s_j the sum of W over level j. Levels with
the same n_j share a weight, so their s_j are replaced by the triangle of their QR. An evaluation then costs m³ plus
m² per row of the compressed sums, whatever n and the number of levels are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.linalg import lapack, solve_triangular

from karat.kernel.errors import BadInput
from karat.statistics.design import Codes, Floats, Grouping


@dataclass(frozen=True)
class Solution:
    """Everything that follows from tau. `effects` and `covariance` are for the columns of X as given."""

    value: float  # -2 log-likelihood
    sigma2: float
    effects: Floats  # (p,)
    covariance: Floats  # (p, p)
    random: tuple[Floats, ...]  # predicted intercepts of each factor, in the order given


class Criterion:
    """`value(tau)` and `value_and_gradient(tau)` for tau (k,) >= 0, in the order of `groupings`."""

    def __init__(self, y: Floats, x: Floats, names: Sequence[str], groupings: Sequence[Grouping], reml: bool) -> None:
        n, p = x.shape
        q, self._r = np.linalg.qr(x)  # an orthonormal X keeps the Cholesky below well conditioned
        _check_rank(x, self._r, names)
        self._start = q.T @ y
        rest = y - q @ self._start  # the criterion does not change when X beta is taken off y
        scale = float(np.sqrt(rest @ rest / n))
        if scale <= 1e-13 * max(float(np.abs(y).max()), 1e-300):
            raise BadInput("mixed_model: the fixed effects fit the response exactly; no variance is left to share out.")
        self.n, self.p, self.k, self.reml = n, p, len(groupings), reml
        self._scale = scale
        self._dof = n - p if reml else n
        dense = np.column_stack([q, rest / scale])

        sizes = [len(g.levels) for g in groupings]
        self._big = int(np.argmax(sizes)) if sizes else -1
        self._small = np.array([f for f in range(self.k) if f != self._big], dtype=np.intp)
        small_sizes = np.array([sizes[f] for f in self._small], dtype=np.intp)
        self._factor = np.repeat(np.arange(len(small_sizes)), small_sizes)  # of each small column
        z = _indicators([groupings[f] for f in self._small], n)
        if self.k:
            self._eliminate(groupings[self._big].codes, sizes[self._big], z, dense)
        else:
            self._counts = np.zeros(0)
            self._sums = self._rows = np.zeros((0, dense.shape[1]))
            self._row_counts = np.zeros(0)
            self._within = dense.T @ dense
        self._q = z.shape[1]
        constant = self._dof * (1 + np.log(2 * np.pi * scale**2 / self._dof))
        self._constant = constant + (2 * np.log(np.abs(np.diag(self._r))).sum() if reml else 0.0)

    def _eliminate(self, codes: Codes, levels: int, z: sp.csr_array, dense: Floats) -> None:
        n = len(codes)
        to_level = sp.csr_array((np.ones(n), (codes, np.arange(n))), shape=(levels, n))
        counts = np.bincount(codes, minlength=levels).astype(np.float64)
        dense_sums = to_level @ dense
        z_sums = (to_level @ z).toarray()
        centred = dense - (dense_sums / counts[:, None])[codes]  # centred before squaring: no cancellation
        zz = (z.T @ z).toarray() - (z_sums / counts[:, None]).T @ z_sums
        zd = z.T @ centred
        self._within = np.block([[zz, zd], [zd.T, centred.T @ centred]])
        self._counts, self._sums = counts, np.hstack([z_sums, dense_sums])
        rows, row_counts = [], []
        for count in np.unique(counts):
            same = self._sums[counts == count]
            if len(same) > same.shape[1]:
                same = np.linalg.qr(same, mode="r")
            rows.append(same)
            row_counts.append(np.full(len(same), count))
        self._rows, self._row_counts = np.vstack(rows), np.concatenate(row_counts)

    def _factorise(self, tau: Floats) -> tuple[Floats, Floats, Floats, Floats, float]:
        """S (m, m), the scaling of [Z_small, X], the lower Cholesky factor, the solution in scaled units, and y'Py."""
        big = tau[self._big] if self.k else 0.0
        weights = 1 / (self._row_counts * (1 + big * self._row_counts))
        s = self._within + (self._rows * weights[:, None]).T @ self._rows
        scaling = np.concatenate([np.sqrt(tau[self._small])[self._factor], np.ones(self.p)])
        inner = s[:-1, :-1] * scaling * scaling[:, None]
        inner[np.arange(self._q), np.arange(self._q)] += 1
        factor, failed = lapack.dpotrf(inner, lower=1, clean=1)
        if failed:
            return s, scaling, factor, scaling, np.nan
        half = lapack.dtrtrs(factor, scaling * s[:-1, -1], lower=1)[0]
        solution = lapack.dtrtrs(factor, half, lower=1, trans=1)[0]
        return s, scaling, factor, solution, float(s[-1, -1] - half @ half)

    def _deviance(self, tau: Floats, factor: Floats, rss: float) -> float:
        if not rss > 0:  # covers NaN from a failed factorisation
            return np.inf
        logs = 2 * np.log(factor.diagonal())
        big = np.log1p(tau[self._big] * self._counts).sum() if self.k else 0.0
        determinants = big + (logs.sum() if self.reml else logs[: self._q].sum())
        return float(determinants + self._dof * np.log(rss) + self._constant)

    def value(self, tau: Floats) -> float:
        """-2 log-likelihood, restricted or not; infinite where the numbers give out."""
        _, _, factor, _, rss = self._factorise(tau)
        return self._deviance(tau, factor, rss)

    def value_and_gradient(self, tau: Floats) -> tuple[float, Floats]:
        """The value and its derivative by each tau, exact, also at tau = 0.

        d/dtau_f = tr(Z_f' A Z_f) - N |Z_f' P y|² / y'Py with A = P for REML and V^-1 for ML.
        """
        s, scaling, factor, solution, rss = self._factorise(tau)
        value = self._deviance(tau, factor, rss)
        if not np.isfinite(value):
            return value, np.full(self.k, np.nan)
        keep = len(factor) if self.reml else self._q  # ML leaves X out of the projection
        half = lapack.dtrtri(factor, lower=1)[0][:keep, :keep] * scaling[:keep]  # leading block: the inverse of its own
        left = s[:keep, : self._q]
        v = np.append(-scaling * solution, 1.0)
        traces = s.diagonal()[: self._q] - ((half @ left) ** 2).sum(axis=0)
        squares = (s[: self._q] @ v) ** 2
        gradient = np.empty(self.k)
        parts = traces - self._dof * squares / rss
        gradient[self._small] = np.bincount(self._factor, parts, minlength=len(self._small))
        shrink = 1 / (1 + tau[self._big] * self._row_counts)
        shrunk = self._rows * shrink[:, None]
        trace = (self._counts / (1 + tau[self._big] * self._counts)).sum() - ((shrunk[:, :keep] @ half.T) ** 2).sum()
        gradient[self._big] = trace - self._dof * ((shrunk @ v) ** 2).sum() / rss
        return value, gradient

    def solve(self, tau: Floats) -> Solution:
        """Fixed effects, their covariance, sigma² and the predicted random intercepts, in the units of the data."""
        _, scaling, factor, solution, rss = self._factorise(tau)
        sigma2 = rss / self._dof * self._scale**2
        coefficients = scaling * solution
        effects = solve_triangular(self._r, self._start + self._scale * coefficients[self._q :])
        lower = factor[self._q :, self._q :]
        root = solve_triangular(self._r, solve_triangular(lower, np.eye(self.p), lower=True).T)
        random: list[Floats] = [np.zeros(0)] * self.k
        for i, f in enumerate(self._small):
            random[f] = self._scale * coefficients[: self._q][self._factor == i]
        if self.k:
            left = self._sums @ np.append(-coefficients, 1.0)
            random[self._big] = self._scale * tau[self._big] * left / (1 + tau[self._big] * self._counts)
        return Solution(self._deviance(tau, factor, rss), sigma2, effects, sigma2 * root @ root.T, tuple(random))


def _indicators(groupings: Sequence[Grouping], n: int) -> sp.csr_array:
    """All indicator columns side by side, (n, sum of levels)."""
    starts = np.cumsum([0, *(len(g.levels) for g in groupings)])
    shifted = [g.codes + start for g, start in zip(groupings, starts[:-1], strict=True)]
    columns = np.column_stack([np.zeros((n, 0), dtype=np.intp), *shifted])
    pointers = np.arange(n + 1) * len(groupings)
    return sp.csr_array((np.ones(columns.size), columns.ravel(), pointers), shape=(n, int(starts[-1])))


def _check_rank(x: Floats, r: Floats, names: Sequence[str]) -> None:
    lost = np.abs(np.diag(r)) <= 1e-9 * np.linalg.norm(x, axis=0)
    if lost.any():
        aliased = ", ".join(name for name, gone in zip(names, lost, strict=True) if gone)
        raise BadInput(f"mixed_model: fixed effects {aliased} repeat what earlier columns say; leave one of them out.")
