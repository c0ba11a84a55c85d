"""Models beside models, on scores whose differences are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from karat.protocols.common.rows import rows_of
from karat.protocols.compass.analysis import readings
from karat.protocols.compass.comparisons import Gain, Generation, best_explainers, gains, generations, twins
from karat.protocols.compass.findings import _gains, moved
from karat.statistics import Estimate

N = 60
SEEDS = (1, 2, 3)
#: Accuracy and DAE after each objective; the DAE is off by up to 5 degrees from sample to sample.
OBJECTIVES = {
    "none": (0.5, 60.0), "answers": (0.9, 60.0), "direction": (0.9, 40.0), "localisation": (0.9, 75.0),
    "contrastive": (0.9, 60.0),
}  # fmt: skip


def frame(models: dict[str, tuple[float, float]], seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    rows = []
    for model, (accuracy, dae) in models.items():
        for k in range(N):
            for explainer in ("attention/grad_rollout", "control/box_only"):
                error = dae + rng.uniform(-5, 5)
                values = {"accuracy": float(k < accuracy * N), "compass/direction_error": error,
                          "edge_accuracy": float(error <= 45), "excess_error": error}  # fmt: skip
                control = explainer.startswith("control/")
                rows += [(model, "d", explainer, f"s{k}", m, value, explainer, control) for m, value in values.items()]
    names = ["model", "dataset", "explainer", "sample", "metric", "value", "explainer.name", "explainer.is_control"]
    return pd.DataFrame(rows, columns=names)


def trained(seeds: tuple[int, ...], drift: float = 0.0) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Scores and parts of every objective and seed; `drift` is by how much the gain of direction differs by seed."""
    models, parts = {"other": (0.5, 10.0)}, {"other": {"name": "other"}}
    for seed in seeds:
        for objective, (accuracy, dae) in OBJECTIVES.items():
            label = f"twin, {objective}, {seed}"
            models[label] = (accuracy, dae + (drift * (seed - 2) if objective == "direction" else 0.0))
            parts[label] = {"of": "twin", "strategy": objective, "seed": seed, "shaken": 0.6}
    return frame(models), {"model": parts}


def test_changes_are_those_of_the_trained_model_from_its_own_base() -> None:
    table = gains(*trained((1,)))
    rows = {row.objective: row for row in rows_of(table, Gain)}
    assert set(rows) == set(OBJECTIVES)
    assert {row.base for row in rows.values()} == {"twin shaken 0.6"}  # nothing was trained from the other
    assert {row.explainer for row in rows.values()} == {"attention/grad_rollout"}  # controls have nothing to gain
    assert rows["direction"].accuracy_change.value == pytest.approx(0.4)
    assert rows["direction"].dae_change.value == pytest.approx(-20.0, abs=2.0)
    assert rows["direction"].dae_change.high < 0 < rows["localisation"].dae_change.low
    assert rows["contrastive"].dae_change.low < 0 < rows["contrastive"].dae_change.high
    assert rows["none"].dae_change.value == 0.0
    assert {row.seeds for row in rows.values()} == {1}


def test_intervals_are_over_seeds_where_there_are_several() -> None:
    """A gain that changes its size from seed to seed is not certain, however many samples each seed has."""
    steady = {row.objective: row for row in rows_of(gains(*trained(SEEDS)), Gain)}["direction"]
    drifting = {row.objective: row for row in rows_of(gains(*trained(SEEDS, drift=25.0)), Gain)}["direction"]
    assert (steady.seeds, steady.dae_change.n) == (3, 3)
    assert steady.dae_change.high < 0
    assert drifting.dae_change.value == pytest.approx(-20.0, abs=2.0)
    assert drifting.dae_change.low < -60 < 20 < drifting.dae_change.high


def test_a_base_that_stands_in_the_run_by_itself_is_found() -> None:
    scores = frame({"vlm": (0.5, 60.0), "vlm + direction": (0.9, 40.0)})
    parts: Any = {"model": {"vlm": {"name": "vlm"}, "vlm + direction": {
        "of": "vlm", "strategy": "direction", "seed": 1, "shaken": 0.0}}}  # fmt: skip
    assert [row.objective for row in rows_of(gains(scores, parts), Gain)] == ["none", "direction"]


def test_the_finding_says_it_and_draws_it() -> None:
    finding = _gains(gains(*trained(SEEDS)))
    assert finding is not None
    sentences = {sentence.split("`")[1]: sentence for sentence in finding.sentences}
    assert "(3 seeds): accuracy 0.50 to 0.90" in sentences["direction"]
    assert "attention/grad_rollout falls" in sentences["direction"]
    assert "attention/grad_rollout rises" in sentences["localisation"]
    assert [figure.kind for figure in finding.figures] == ["points", "intervals"]
    assert _gains(gains(frame({"other": (0.5, 10.0)}), {"model": {"other": {}}})) is None
    assert moved(Estimate(1.0, 1.0, -1.0, 3.0, 9, 0)) == "does not change clearly"


def test_models_are_compared_by_sample() -> None:
    """Errors that go up and down with the sample, 2 degrees apart: only a paired comparison sees it."""
    rng = np.random.default_rng(0)
    base = rng.uniform(0, 170, N)
    scores = frame({"small": (0.5, 0.0), "large": (0.8, 0.0)})
    errors = {"small": base, "large": base + 2 + rng.normal(0, 0.5, N)}
    is_error = scores["metric"] == "compass/direction_error"
    real = is_error & ~scores["explainer.is_control"]
    rows = zip(scores["model"][real], scores["sample"][real], strict=True)
    scores.loc[real, "value"] = [errors[model][int(sample[1:])] for model, sample in rows]
    parts: Any = {"model": {"small": {}, "large": {}}}
    best = best_explainers(readings(scores), parts)
    [pair] = rows_of(generations(scores, best), Generation)
    assert (pair.worse, pair.better) == ("small", "large")
    assert pair.change.value == pytest.approx(2.0, abs=0.2)
    assert pair.change.low > 1.5
    # unpaired, the intervals of the two means overlap almost wholly
    assert best["dae"].iloc[1].low < best["dae"].iloc[0].value


def test_twins_are_told_by_their_facts() -> None:
    scores = frame({"one": (1.0, 20.0), "two": (0.2, 50.0), "three": (0.2, 50.0)})
    parts: Any = {"model": {
        "one": {"family": "f", "variant": "pure", "mechanism": "reasons"},
        "two": {"family": "f", "variant": "spur", "mechanism": "matches_words"},
        "three": {"family": "f", "variant": "spur", "mechanism": None},  # trained: nobody knows how it answers
    }}  # fmt: skip
    table = twins(scores, parts)
    assert set(table["explainer"]) == {"attention/grad_rollout"}
    row = table[table["metric"] == "compass/direction_error"].iloc[0]
    assert row["difference"].value == pytest.approx(-30.0, abs=2.0)
    assert row["p_adjusted"] < 0.01
