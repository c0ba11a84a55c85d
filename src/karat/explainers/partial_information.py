"""Partial information decomposition: unique, redundant and synergistic bits of two sources about a target.

Of all joint distributions Q with the pair marginals (x1, y) and (x2, y) of P, the one with the least I_Q(X1 X2; Y) has
no synergy to offer; what P has more is synergy. For a table the minimum is found by a barrier method with exact Newton
steps: Q starts inside (X1 and X2 independent given Y), and every step keeps the marginals. For features there are two
ways: clusters and a histogram, or a Gaussian model.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from karat.kernel.errors import BadInput

Array = npt.NDArray[np.float64]
Table = npt.NDArray[np.float64]  # (x1, x2, y)
_RIDGE = 1e-9  # of the mean variance, so that a constant feature breaks nothing


@dataclass(frozen=True)
class Information:
    """In bits; the four add up to I(X1 X2; Y). `gap` is the size of error to expect of each."""

    unique1: float
    unique2: float
    redundant: float
    synergistic: float
    gap: float = 0.0

    @property
    def total(self) -> float:
        return self.unique1 + self.unique2 + self.redundant + self.synergistic


def pid(joint: npt.ArrayLike, tolerance: float = 1e-6) -> Information:
    """The decomposition of Bertschinger et al. 2014.

    Args:
        joint: (x1, x2, y) probabilities or counts.
        tolerance: bits by which the minimum may be missed.

    >>> xor = np.zeros((2, 2, 2)); xor[0, 0, 0] = xor[1, 1, 0] = xor[0, 1, 1] = xor[1, 0, 1] = 1
    >>> round(pid(xor).synergistic, 5)
    1.0
    """
    p = np.asarray(joint, dtype=np.float64)
    if p.ndim != 3 or not np.isfinite(p).all() or (p < 0).any() or p.sum() <= 0:
        raise BadInput(f"PID needs a table p(x1, x2, y) of numbers >= 0 that are not all 0; got shape {p.shape}.")
    p = p / p.sum()
    least, gap = least_information(p, tolerance)
    first, second, both = information(p.sum(axis=1)), information(p.sum(axis=0)), joint_information(p)
    least = min(max(least, first, second), both, first + second)  # true bounds, which rounding may cross
    return Information(least - second, least - first, first + second - least, both - least, gap)


def information(table: Table) -> float:
    """Mutual information in bits of a table (x, y)."""
    independent = table.sum(axis=1, keepdims=True) * table.sum(axis=0, keepdims=True)
    some = table > 0
    return float((table[some] * np.log2(table[some] / independent[some])).sum())


def joint_information(p: Table) -> float:
    """I(X1 X2; Y) in bits."""
    return information(p.reshape(-1, p.shape[2]))


def least_information(p: Table, tolerance: float = 1e-6) -> tuple[float, float]:
    """The least I_Q(X1 X2; Y) in bits over all Q with the marginals (x1, y) and (x2, y) of P, and how near it is."""
    first, second = p.sum(axis=1), p.sum(axis=0)  # (x1, y), (x2, y)
    free = (first[:, None, :] > 0) & (second[None, :, :] > 0)
    of_y = np.maximum(p.sum(axis=(0, 1)), np.finfo(np.float64).tiny)
    q = first[:, None, :] * second[None, :, :] / of_y
    unknowns = int(free.sum())
    barrier = 0.1 / unknowns
    while True:
        for _ in range(50):
            step, decrement = _newton(q, free, barrier, first, second)
            if decrement < 1e-9 * barrier:
                break
            q = _moved(q, step, free, barrier, decrement)
        gap = float(barrier * unknowns / np.log(2))  # of the point that the inner loop approaches
        if gap < tolerance:
            return joint_information(q), gap
        barrier *= 0.1


def _newton(q: Table, free: npt.NDArray[np.bool_], barrier: float, first: Table, second: Table) -> tuple[Table, float]:
    """The Newton step of sum q log(q / q(x1, x2)) - barrier sum log q that keeps both marginals, and its decrement.

    The Hessian of a cell (x1, x2) is diagonal less a constant, so its inverse is diagonal plus rank one; multipliers of
    the marginals then solve a system of (x1 + x2) y unknowns.
    """
    n1, n2, ny = q.shape
    safe = np.where(free, q, 1.0)
    cell = np.where(free, q, 0.0).sum(axis=2, keepdims=True)
    gradient = np.where(free, np.log(safe / np.where(cell > 0, cell, 1.0)) - barrier / safe, 0.0)
    diagonal = np.where(free, q * q / (safe + barrier), 0.0)  # inverse of 1/q + barrier/q²
    room = np.where(free, q * barrier / (safe + barrier), 0.0).sum(axis=2)  # cell less the sum of the diagonal
    scale = np.where(room > 0, 1 / np.where(room > 0, room, 1.0), 0.0)

    inverse = np.einsum("aby,abz,ab->abyz", diagonal, diagonal, scale)
    inverse[:, :, np.arange(ny), np.arange(ny)] += diagonal
    system = np.zeros(((n1 + n2) * ny,) * 2)
    left = np.zeros((n1, ny, n1, ny))
    left[np.arange(n1), :, np.arange(n1), :] = inverse.sum(axis=1)
    right = np.zeros((n2, ny, n2, ny))
    right[np.arange(n2), :, np.arange(n2), :] = inverse.sum(axis=0)
    system[: n1 * ny, : n1 * ny] = left.reshape(n1 * ny, n1 * ny)
    system[n1 * ny :, n1 * ny :] = right.reshape(n2 * ny, n2 * ny)
    system[: n1 * ny, n1 * ny :] = inverse.transpose(0, 2, 1, 3).reshape(n1 * ny, n2 * ny)
    system[n1 * ny :, : n1 * ny] = system[: n1 * ny, n1 * ny :].T

    downhill = -np.einsum("abyz,abz->aby", inverse, gradient)
    # what rounding has moved of the marginals is moved back
    strayed = [(first - q.sum(axis=1)).ravel(), (second - q.sum(axis=0)).ravel()]
    wanted = np.concatenate([downhill.sum(axis=1).ravel(), downhill.sum(axis=0).ravel()]) - np.concatenate(strayed)
    multiplier = _solved(system, wanted)
    pull = multiplier[: n1 * ny].reshape(n1, 1, ny) + multiplier[n1 * ny :].reshape(1, n2, ny)
    step = downhill - np.einsum("abyz,abz->aby", inverse, pull)
    return step, float(-(gradient * step).sum())


def _solved(system: Table, wanted: Table) -> Table:
    """A solution of a singular system that has one: adding to x1's and taking from x2's multipliers changes nothing.

    A ridge as small as rounding makes it positive definite, and it moves the solution in those directions alone; least
    squares, which need none, take several times as long.
    """
    from scipy.linalg import cho_factor, cho_solve  # a fifth of a second that `karat ls` need not pay

    unit = 1 / np.sqrt(np.maximum(np.diag(system), np.finfo(np.float64).tiny))  # near the boundary entries span decades
    scaled = unit[:, None] * system * unit
    ridge = scaled + 1e-13 * np.eye(len(scaled))
    try:
        return unit * cho_solve(cho_factor(ridge, check_finite=False), unit * wanted, check_finite=False)
    except np.linalg.LinAlgError:
        return unit * np.linalg.lstsq(scaled, unit * wanted, rcond=1e-13)[0]


def _moved(q: Table, step: Table, free: npt.NDArray[np.bool_], barrier: float, decrement: float) -> Table:
    """Backtracking line search that stays inside."""
    shrinking = free & (step < 0)
    length = min(1.0, 0.95 * float((q[shrinking] / -step[shrinking]).min())) if shrinking.any() else 1.0
    before = _objective(q, free, barrier)
    for _ in range(40):
        moved = np.where(free, q + length * step, 0.0)
        if _objective(moved, free, barrier) <= before - 0.1 * length * decrement:
            return moved
        length /= 2
    return q


def _objective(q: Table, free: npt.NDArray[np.bool_], barrier: float) -> float:
    safe = np.where(free, q, 1.0)
    cell = np.where(free, q, 0.0).sum(axis=2, keepdims=True)
    terms = np.where(free, q * np.log(safe / np.where(cell > 0, cell, 1.0)), 0.0).sum()
    return float(terms - barrier * np.log(safe).sum())


# ---- of features


def pid_clusters(
    x1: npt.ArrayLike, x2: npt.ArrayLike, labels: npt.ArrayLike, rng: np.random.Generator, clusters: int = 20
) -> Information:
    """Features (N, d1), (N, d2) and N labels: rows to unit length, two principal components, k-means, histogram, `pid`.

    With N samples and k clusters the table has k² cells per label: plug-in information is too large by about
    cells / (2 N ln 2) bits, so take N well above k².
    """
    first, second, target = np.asarray(x1, np.float64), np.asarray(x2, np.float64), np.asarray(labels)
    if not first.ndim == second.ndim == 2 or not len(first) == len(second) == len(target):
        raise BadInput(
            f"PID of features needs (N, d1), (N, d2) and N labels; got {first.shape}, {second.shape}, {target.shape}."
        )
    places = [_clustered(features, clusters, rng) for features in (first, second)]
    classes = np.unique(target, return_inverse=True)[1]
    table = np.zeros((clusters, clusters, int(classes.max()) + 1))
    np.add.at(table, (places[0], places[1], classes), 1.0)
    used = table[table.sum(axis=(1, 2)) > 0][:, table.sum(axis=(0, 2)) > 0]
    return pid(used)


def pid_gaussian(x1: npt.ArrayLike, x2: npt.ArrayLike, y: npt.ArrayLike) -> Information:
    """Features (N, d1), (N, d2) and targets (N, dy), taken for jointly Gaussian; bits.

    The union information is the least I(Y; X1 X2) over the correlation of the noises of X1 and X2 given Y. For one
    target dimension it is the larger of the two (the redundancy is the smaller), in closed form.
    """
    one, two, target = (_columns(values) for values in (x1, x2, y))
    if not len(one) == len(two) == len(target) > target.shape[1] + max(one.shape[1], two.shape[1]):
        raise BadInput(
            f"Gaussian PID needs N rows each, more than dimensions; got {len(one)}, {len(two)}, {len(target)}."
        )
    d1, dy = one.shape[1], target.shape[1]
    joint = np.cov(np.concatenate([one, two, target], axis=1), rowvar=False)
    joint += _RIDGE * np.trace(joint) / len(joint) * np.eye(len(joint))
    return gaussian_information(joint, d1, dy)


def gaussian_information(covariance: Array, d1: int, dy: int) -> Information:
    """From the covariance of (X1, X2, Y)."""
    d = len(covariance) - dy
    channel = [_channel(covariance, rows, range(d, d + dy)) for rows in (range(d1), range(d1, d), range(d))]
    first, second, both = (_bits(np.eye(dy) + h.T @ h) for h in channel)
    if dy == 1:
        union = max(first, second)
    else:
        union = min(max(_union(channel[0], channel[1]), first, second), first + second, both)
    return Information(union - second, union - first, first + second - union, both - union)


def _union(h1: Array, h2: Array) -> float:
    """The least information over noise correlations S, |S| < 1: f(K) = log|K + H H'| - log|K| is convex in K."""
    from scipy.optimize import minimize

    h = np.concatenate([h1, h2])
    d1, d2 = len(h1), len(h2)
    signal = h @ h.T

    def noise(flat: Array) -> Array:
        # any matrix W gives a correlation W (1 + W'W)^-1/2 of norm below one
        left, size, right = np.linalg.svd(flat.reshape(d1, d2), full_matrices=False)
        k = np.eye(d1 + d2)
        k[:d1, d1:] = (left * (size / np.sqrt(1 + size**2))) @ right
        k[d1:, :d1] = k[:d1, d1:].T
        return k

    def bits(flat: Array) -> float:
        k = noise(flat)
        return _bits(k + signal) - _bits(k)

    start = 0.5 * h1 @ h2.T / max(float(np.linalg.norm(h1) * np.linalg.norm(h2)), 1e-12)
    options = {"maxiter": 2000, "maxfun": 200_000, "ftol": 1e-12}
    return float(minimize(bits, start.ravel(), method="L-BFGS-B", options=options).fun)


def _channel(covariance: Array, rows: range, target: range) -> Array:
    """H of X = H Y + noise, both Y and the noise made white: I(X; Y) = ½ log|1 + H'H|."""
    x, y = list(rows), list(target)
    across, own = covariance[np.ix_(x, y)], covariance[np.ix_(y, y)]
    white_y = np.linalg.inv(np.linalg.cholesky(own))
    rest = covariance[np.ix_(x, x)] - across @ np.linalg.solve(own, across.T)
    floor = 1e-9 * max(np.trace(covariance[np.ix_(x, x)]) / len(x), 1e-300)  # a noiseless feature has finite bits
    return np.asarray(np.linalg.inv(np.linalg.cholesky(rest + floor * np.eye(len(x)))) @ across @ white_y.T)


def _bits(matrix: Array) -> float:
    """½ log2 of the determinant."""
    return float(np.linalg.slogdet(matrix)[1]) / (2 * np.log(2))


def _columns(values: npt.ArrayLike) -> Array:
    array = np.asarray(values, dtype=np.float64)
    return array[:, None] if array.ndim == 1 else array


def _clustered(features: Array, clusters: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    from scipy.cluster.vq import kmeans2

    length = np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-12)
    centred = features / length - (features / length).mean(axis=0)
    if centred.shape[1] > 2:
        centred = centred @ np.linalg.svd(centred, full_matrices=False)[2][:2].T
    distinct = len(np.unique(centred.round(12), axis=0))
    if distinct <= clusters:
        return np.unique(centred.round(12), axis=0, return_inverse=True)[1].ravel()
    return np.asarray(kmeans2(centred, clusters, minit="++", rng=rng, missing="warn")[1], dtype=np.int64)
