"""PID of features: by clusters and a histogram (discrete), or under a Gaussian model (continuous)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from karat.explainers.modality.pid import Information, pid
from karat.kernel.errors import BadInput

Array = npt.NDArray[np.float64]
_RIDGE = 1e-9  # of the mean variance, so that a constant feature breaks nothing


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
    found = minimize(
        bits, start.ravel(), method="L-BFGS-B", options={"maxiter": 2000, "maxfun": 200_000, "ftol": 1e-12}
    )
    return float(found.fun)


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
