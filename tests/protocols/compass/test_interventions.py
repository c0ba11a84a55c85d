from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from karat.protocols.common.rows import rows_of
from karat.protocols.compass.analysis import labels
from karat.protocols.compass.diagnostics import Battery
from karat.protocols.compass.findings import _probes
from karat.protocols.compass.interventions import (
    Probe,
    divergence,
    partition,
    peak_shift,
    probe_agreement,
    probes,
    quadrants,
)
from karat.statistics import eta_squared

RELATIONS = ["left", "right", "above", "below"]


@given(st.integers(0, 200))
def test_a_compass_that_does_not_react_agrees_with_one_probe_in_four(seed: int) -> None:
    shares = np.random.default_rng(seed).dirichlet(np.ones(8), 5)
    four = np.repeat(shares, 4, axis=0)
    assert probe_agreement(four, RELATIONS * 5).mean() == pytest.approx(0.25)
    np.testing.assert_allclose(quadrants(shares).sum(1), 1.0)


def test_a_compass_that_follows_the_probe_agrees_always() -> None:
    eye = np.eye(8)[[4, 0, 2, 6]]  # sectors of left, right, above, below
    assert probe_agreement(eye, RELATIONS).tolist() == [1.0] * 4
    assert probe_agreement(eye, RELATIONS[::-1]).tolist() == [0.0] * 4
    assert np.isnan(probe_agreement(np.full((1, 8), np.nan), ["left"]))[0]


@given(st.integers(0, 200))
def test_divergence_is_symmetric_and_between_0_and_1(seed: int) -> None:
    p, q = np.random.default_rng(seed).dirichlet(np.full(8, 0.3), (2, 6))
    divergences = divergence(p, q)
    np.testing.assert_allclose(divergences, divergence(q, p))
    assert ((divergences >= -1e-12) & (divergences <= 1 + 1e-12)).all()
    np.testing.assert_allclose(divergence(p, p), 0.0, atol=1e-12)


def test_peaks_shift_the_short_way_round() -> None:
    eye = np.eye(8)
    assert peak_shift(eye[[0, 0, 7]], eye[[1, 4, 1]]).tolist() == [45.0, 180.0, 90.0]


def test_partition_equals_eta_squared_sector_by_sector() -> None:
    rng = np.random.default_rng(0)
    codes = np.stack([np.repeat(np.arange(10), 8), np.tile(np.repeat(np.arange(4), 2), 10), rng.integers(0, 9, 80)], 1)
    shares = rng.dirichlet(np.ones(8), 80)
    parts = partition(np.hstack([codes, shares]))
    assert parts is not None
    spread = ((shares - shares.mean(0)) ** 2).sum(0)
    for value, column in ((parts.eta2_image, 0), (parts.eta2_direction, 1), (parts.eta2_location, 2)):
        each = [eta_squared(shares[:, k], codes[:, column]).eta2 for k in range(8)]
        assert value == pytest.approx(np.average(each, weights=spread))
    assert parts.within_direction + parts.within_location == pytest.approx(1.0)


def test_partition_of_pure_direction_and_of_pure_place() -> None:
    codes = np.stack([np.repeat(np.arange(6), 8), np.tile(np.repeat(np.arange(4), 2), 6), np.tile(np.arange(8), 6)], 1)
    direction = np.eye(8)[2 * codes[:, 1]]
    parts = partition(np.hstack([codes, direction]))
    assert parts is not None
    assert parts.eta2_direction == pytest.approx(1.0)
    assert (parts.within_direction, parts.within_location) == pytest.approx((1.0, 0.0))
    place = np.eye(8)[codes[:, 2] % 2]  # alternates between the two places of every direction
    parts = partition(np.hstack([codes, place]))
    assert parts is not None
    assert (parts.within_direction, parts.within_location) == pytest.approx((0.0, 1.0))
    assert partition(np.hstack([codes, np.full((48, 8), 1 / 8)])) is None


def test_probe_finding_says_who_follows() -> None:
    rows = [(e, f"o{k}", "probe", r) for e in ("follows", "rigid") for k in range(8) for r in RELATIONS]
    frame = pd.DataFrame(rows, columns=["explainer", "origin", "kind", "variant"])
    frame = frame.assign(model="m", dataset="d", sample="s", is_control=False)
    sector = {"left": 4, "right": 0, "above": 2, "below": 6}
    shares = np.stack([np.eye(8)[sector[r] if e == "follows" else 3] for e, _, _, r in rows])
    empty = np.empty((len(frame), 0))
    table = probes(Battery(frame, shares, shares, empty, empty))
    by = {row.explainer: row for row in rows_of(table, Probe)}
    assert (by["follows"].pta.value, by["follows"].jsd.value) == (1.0, 1.0)
    assert by["rigid"].jsd.value == 0.0
    finding = _probes(table)
    assert finding is not None
    assert finding.sentences == ("Follow the probed answer more often than chance: follows.",)


def test_labels_need_a_compass() -> None:
    assert labels(np.full((1, 8), np.nan), np.array([np.nan])) == [None]
    assert labels(np.full((1, 8), 1 / 8), np.array([45.0])) == ["diffuse"]
