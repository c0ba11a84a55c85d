"""Other readings on maps whose change is known: what a battery holds, and whether an order stays."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from karat.protocols.common.rows import rows_of
from karat.protocols.compass.analysis import clustered_mean
from karat.protocols.compass.diagnostics import Battery, Stable, Varied, stability, varied
from karat.protocols.compass.variations import VARIATIONS

N = 40


def battery(errors: dict[str, tuple[float, float]]) -> Battery:
    """Explainers with their usual error and that under widths above 0.6; single samples differ by up to 80 degrees."""
    rng = np.random.default_rng(0)
    rows, readings = [], []
    for explainer, (usual, wide) in errors.items():
        of_sample = np.random.default_rng(1).uniform(-40, 40, N)  # the same for all: comparisons are paired
        for k in range(N):
            rows.append(("m", "d", explainer, f"s{k}", explainer, False, f"s{k}", "plain"))
            value = usual + of_sample[k] + rng.normal(0, 1)
            moved = wide + of_sample[k] + rng.normal(0, 1)
            readings.append([moved if how.kind == "width" and how.amount > 0.6 else value for how in VARIATIONS])
    names = ["model", "dataset", "explainer", "sample", "name", "is_control", "picture", "kind"]
    shares = np.full((len(rows), 8), 1 / 8)
    return Battery(pd.DataFrame(rows, columns=names), shares, shares, shares, np.array(readings))


def test_an_order_that_another_reading_turns_round_is_found() -> None:
    table = rows_of(stability(battery({"a": (50.0, 60.0), "b": (55.0, 55.0), "c": (50.0, 50.0)})), Stable)
    leads = {(row.better, row.worse, row.reading): row.lead for row in table if row.among == "explainer"}
    assert {(better, worse) for better, worse, _ in leads} == {("a", "b"), ("c", "b")}  # a and c are not told apart
    assert leads["a", "b", "width 1"].high < 0  # turned round
    assert leads["c", "b", "width 1"].low > 0
    assert leads["a", "b", "width 0.6"].low > 0
    assert not any(row.among == "model" for row in table)  # one model only


def test_changes_are_paired_and_equal_readings_do_not_differ_by_rounding() -> None:
    table = {(row.explainer, row.reading): row for row in rows_of(varied(battery({"a": (50.0, 52.0)})), Varied)}
    assert table["a", "width 2"].change.value == pytest.approx(2.0, abs=0.6)
    assert table["a", "width 2"].change.low > 0
    assert (table["a", "blur 1"].change.value, table["a", "blur 1"].tau) == (0.0, 1.0)
    tiny = clustered_mean(np.full(50, -2.1e-13) * np.random.default_rng(0).random(50))
    assert (tiny.value, tiny.p) == (0.0, 1.0)


def test_intervals_over_clusters_hold_what_they_promise() -> None:
    """Four rows of one picture are one draw: intervals that counted rows would cover two thirds."""
    rng = np.random.default_rng(0)
    clusters = np.repeat(np.arange(15), 4)
    covered, naive = 0, 0
    for _ in range(400):
        values = rng.normal(0, 3, 15)[clusters] + rng.normal(0, 1, 60)
        covered += abs(clustered_mean(values, clusters).value) < clustered_mean(values, clusters).high - values.mean()
        naive += abs(clustered_mean(values).value) < clustered_mean(values).high - values.mean()
    assert covered / 400 == pytest.approx(0.95, abs=0.04)
    assert naive / 400 < 0.8
