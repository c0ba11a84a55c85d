"""PID on gates whose decomposition is published, against a general solver, and on Gaussians."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from karat.explainers.partial_information import (
    gaussian_information,
    joint_information,
    least_information,
    pid,
    pid_clusters,
    pid_gaussian,
)
from karat.kernel.errors import BadInput


def gate(rule: Callable[[int, int], int], outcomes: int = 2, equal: bool = False) -> np.ndarray:
    """Two fair bits (one bit twice, if `equal`) and what a rule makes of them."""
    table = np.zeros((2, 2, outcomes))
    for a in range(2):
        for b in range(2):
            if not equal or a == b:
                table[a, b, rule(a, b)] = 1
    return table


@pytest.mark.parametrize(
    ("table", "unique1", "unique2", "redundant", "synergistic"),
    [
        (gate(lambda a, b: a ^ b), 0, 0, 0, 1),
        (gate(lambda a, b: a), 1, 0, 0, 0),
        (gate(lambda a, b: b), 0, 1, 0, 0),
        (gate(lambda a, b: a, equal=True), 0, 0, 1, 0),
        (gate(lambda a, b: a & b), 0, 0, 0.311278, 0.5),
        (gate(lambda a, b: a | b), 0, 0, 0.311278, 0.5),
        (gate(lambda a, b: 2 * a + b, 4), 1, 1, 0, 0),
        (gate(lambda a, b: 0), 0, 0, 0, 0),
    ],
    ids=["xor", "copy", "copy of the second", "duplicated", "and", "or", "both", "constant"],
)
def test_published_values(
    table: np.ndarray, unique1: float, unique2: float, redundant: float, synergistic: float
) -> None:
    bits = pid(table)
    parts = [bits.unique1, bits.unique2, bits.redundant, bits.synergistic]
    np.testing.assert_allclose(parts, [unique1, unique2, redundant, synergistic], atol=1e-5)


@given(st.integers(2, 4), st.integers(2, 4), st.integers(2, 3), st.floats(0.1, 3), st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_bounds_and_symmetry(n1: int, n2: int, ny: int, spread: float, seed: int) -> None:
    p = np.random.default_rng(seed).dirichlet(np.full(n1 * n2 * ny, spread)).reshape(n1, n2, ny)
    bits, mirrored = pid(p), pid(p.transpose(1, 0, 2))
    assert min(bits.unique1, bits.unique2, bits.redundant, bits.synergistic) >= -1e-9
    assert bits.total == pytest.approx(joint_information(p), abs=1e-9)
    assert bits.unique1 == pytest.approx(mirrored.unique2, abs=5e-6)
    assert bits.synergistic == pytest.approx(mirrored.synergistic, abs=5e-6)


def alternating(p: np.ndarray, rounds: int) -> float:
    """A slow twin by another way: min over Q and R of D(Q || R(x1, x2) p(y)), in turns (Csiszar and Tusnady).

    For a given R, the nearest Q with the marginals is R scaled by rows and columns for every y.
    """
    first, second = p.sum(axis=1), p.sum(axis=0)
    q = first[:, None, :] * second[None, :, :] / p.sum(axis=(0, 1))
    for _ in range(rounds):
        q = np.repeat(q.sum(axis=2, keepdims=True), p.shape[2], axis=2)
        for _ in range(30):
            q *= (first / q.sum(axis=1))[:, None, :]
            q *= (second / q.sum(axis=0))[None, :, :]
    return joint_information(q)


def test_another_algorithm_finds_the_same_minimum() -> None:
    rng = np.random.default_rng(1)
    for shape in ((2, 3, 2), (3, 3, 3)):
        p = rng.dirichlet(np.full(np.prod(shape), 0.7)).reshape(shape) + 0.01
        p /= p.sum()
        least, gap = least_information(p)
        slow = alternating(p, 1500)
        assert gap < 1e-5
        assert slow - 2e-4 < least < slow + 1e-6


def test_features_by_clusters() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 2, (2, 4000))

    def spread(bit: np.ndarray) -> np.ndarray:
        return np.stack([np.where(bit, 1.0, -1.0), np.ones(4000)], axis=1) + 0.05 * rng.normal(size=(4000, 2))

    x1, x2 = spread(a), spread(b)
    bits = pid_clusters(x1, x2, a ^ b, rng, clusters=2)
    assert bits.synergistic == pytest.approx(1, abs=0.02)
    bits = pid_clusters(x1, x2, a, rng, clusters=2)
    assert bits.unique1 == pytest.approx(1, abs=0.02)
    bits = pid_clusters(x1, spread(a), a, rng, clusters=2)
    assert bits.redundant == pytest.approx(1, abs=0.02)


def test_gaussian_with_one_target_is_the_minimum_of_informations() -> None:
    # y = x1 + x2 + noise, x1 and x2 correlated: Barrett's closed form
    cov = np.array([[1.0, 0.5, 1.5], [0.5, 1.0, 1.5], [1.5, 1.5, 4.0]])
    bits = gaussian_information(cov, 1, 1)
    single = 0.5 * np.log2(1 / (1 - 1.5**2 / 4))
    both = 0.5 * np.log2(4 / (4 - np.array([1.5, 1.5]) @ np.linalg.solve(cov[:2, :2], [1.5, 1.5])))
    assert bits.redundant == pytest.approx(single, rel=1e-6)
    assert bits.unique1 == pytest.approx(0, abs=1e-9)
    assert bits.synergistic == pytest.approx(both - single, rel=1e-6)


def test_gaussian_with_two_targets_that_each_source_knows_alone() -> None:
    """Independent channels: X1 reads the first target only, X2 the second: all unique, nothing shared."""
    rng = np.random.default_rng(0)
    y = rng.normal(size=(20000, 2))
    bits = pid_gaussian(y[:, :1] + rng.normal(size=(20000, 1)), y[:, 1:] + rng.normal(size=(20000, 1)), y)
    assert bits.unique1 == pytest.approx(0.5, abs=0.03)
    assert bits.unique2 == pytest.approx(0.5, abs=0.03)
    assert bits.redundant == pytest.approx(0, abs=0.03)
    assert bits.synergistic == pytest.approx(0, abs=0.03)


def test_gaussian_copies_are_redundant_and_a_degraded_source_has_nothing_of_its_own() -> None:
    """X2 is X1 with more noise (a Blackwell order): its unique information is zero, in any number of dimensions."""
    rng = np.random.default_rng(1)
    mix = rng.normal(size=(3, 3))
    signal = mix @ mix.T
    cov = np.zeros((9, 9))
    cov[:3, :3] = signal + np.eye(3)
    cov[3:6, 3:6] = signal + 3 * np.eye(3)
    cov[:3, 3:6] = cov[3:6, :3] = signal + np.eye(3)
    for block in (slice(0, 3), slice(3, 6)):
        cov[block, 6:] = mix
        cov[6:, block] = mix.T
    cov[6:, 6:] = np.eye(3)
    bits = gaussian_information(cov, 3, 3)
    second = 0.5 * np.log2(np.linalg.det(signal / 3 + np.eye(3)))
    assert bits.unique2 == pytest.approx(0, abs=1e-3)
    assert bits.redundant == pytest.approx(second, abs=1e-3)
    assert bits.synergistic == pytest.approx(0, abs=1e-3)


def test_what_is_no_table() -> None:
    for bad in (np.ones((2, 2)), -np.ones((2, 2, 2)), np.zeros((2, 2, 2)), np.full((2, 2, 2), np.nan)):
        with pytest.raises(BadInput, match="PID needs"):
            pid(bad)
    with pytest.raises(BadInput, match="N labels"):
        pid_clusters(np.ones((3, 2)), np.ones((4, 2)), [0, 1, 1], np.random.default_rng(0))
    with pytest.raises(BadInput, match="more than dimensions"):
        pid_gaussian(np.ones((3, 2)), np.ones((3, 2)), np.ones((3, 2)))
