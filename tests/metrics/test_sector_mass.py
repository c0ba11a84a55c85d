"""Sums over sectors, cell by cell beside block by block; and far from everything, where weights underflow."""

from __future__ import annotations

import numpy as np
import pytest

from karat.metrics import sector_mass as module
from karat.metrics.sector_mass import Spokes, far_mass, sector_mass


def scene(n: int, h: int, w: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, h, w)), rng.uniform(0, (w, h), (n, 2)).T, rng.uniform(0.01, 0.4, n), np.ones(n)


def literal(maps: np.ndarray, at: np.ndarray, precision: np.ndarray, sectors: int) -> np.ndarray:
    """Cell by cell: the sector whose centre is nearest in angle takes the cell's positive evidence, weighted."""
    mass = np.zeros((len(maps), sectors))
    for i, row, column in np.ndindex(maps.shape):
        x, y = column + 0.5 - at[0, i], at[1, i] - (row + 0.5)
        if x or y:
            k = int(np.floor(np.arctan2(y, x) * sectors / (2 * np.pi) + 0.5)) % sectors
            mass[i, k] += max(maps[i, row, column], 0.0) * np.exp(-(x**2 + y**2) * precision[i] / 2)
    return mass


@pytest.mark.parametrize("sectors", [2, 3, 5, 8, 13])
def test_equals_the_sum_cell_by_cell(sectors: int) -> None:
    maps, at, precision, aspect = scene(5, 7, 9)
    at[:, 0] = (4.5, 3.5)  # the centre of a cell, which has no direction
    np.testing.assert_allclose(
        sector_mass(maps, at, precision, aspect, sectors), literal(maps, at, precision, sectors), rtol=1e-9, atol=1e-14
    )


def test_blocks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is handed from block to block, and the last one is smaller."""
    maps, at, precision, aspect = scene(23, 6, 5)
    at[:, 3] = at[:, 22] = (2.5, 2.5)
    whole = sector_mass(maps, at, precision, aspect, 8)
    monkeypatch.setattr(module, "_BLOCK", 2 * 6 * 5)
    monkeypatch.setattr(module, "_JOINED", 3)
    np.testing.assert_array_equal(sector_mass(maps, at, precision, aspect, 8), whole)


def test_spokes_start_straight_down_and_count_both_sides() -> None:
    for sectors in (2, 3, 4, 7, 8):
        spokes = Spokes.of(sectors)
        assert spokes.easts + spokes.wests == sectors
    assert Spokes.of(4).first == 3  # sectors of 90 degrees: the one around 270 points down
    np.testing.assert_array_equal(Spokes.of(8).right, Spokes.of(8).left)  # every ray goes on to the other side


def test_far_mass_is_relative_to_the_nearest_evidence() -> None:
    evidence = np.zeros((9, 9))
    evidence[4, 6], evidence[0, 4] = 2.0, 1.0  # two cells to the right, four up
    mass = far_mass(np, evidence, np.array([4.5, 4.5]), 0.5, 1.0, 4)
    np.testing.assert_allclose(mass, [2.0, np.exp(-(16 - 4) * 0.25), 0.0, 0.0])
    [plain] = sector_mass(evidence[None], np.array([[4.5], [4.5]]), np.array([0.5]), np.ones(1), 4)
    np.testing.assert_allclose(mass / mass.sum(), plain / plain.sum())
