"""Accuracy against direction, on scores whose changes are known."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from karat.protocols.compass.claims import accuracy_claims
from karat.protocols.compass.gains import gains_finding, gains_table

N = 60
#: Accuracy and DAE of each model; the DAE is off by up to 5 degrees from sample to sample.
MODELS = {
    "twin": (0.5, 60.0), "twin + answers": (0.9, 60.0), "twin + direction": (0.9, 40.0),
    "twin + localisation": (0.9, 75.0), "twin + contrastive": (0.9, 60.0), "other": (0.5, 10.0),
}  # fmt: skip


@pytest.fixture(scope="module")
def scores() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows = []
    for model, (accuracy, dae) in MODELS.items():
        for k in range(N):
            for explainer in ("attention/grad_rollout", "control/box_only"):
                error = dae + rng.uniform(-5, 5)
                values = {"accuracy": float(k < accuracy * N), "compass/direction_error": error,
                          "edge_accuracy": float(error <= 45), "excess_error": error}  # fmt: skip
                rows += [(model, "d", explainer, f"s{k}", metric, value) for metric, value in values.items()]
    return pd.DataFrame(rows, columns=["model", "dataset", "explainer", "sample", "metric", "value"])


def test_changes_are_those_of_the_trained_model_from_its_own_base(scores: pd.DataFrame) -> None:
    table = gains_table(scores).set_index("objective")
    assert list(table.index) == ["none", "answers", "contrastive", "direction", "localisation"]
    assert set(table["base"]) == {"twin"}  # nothing was trained from the other
    assert set(table["explainer"]) == {"attention/grad_rollout"}  # controls have nothing to gain
    assert table.loc["direction", "accuracy change"] == pytest.approx(0.4)
    assert table.loc["direction", "dae change"] == pytest.approx(-20.0, abs=2.0)
    assert table.loc["direction", "dae high"] < 0 < table.loc["localisation", "dae low"]
    assert table.loc["contrastive", "dae low"] < 0 < table.loc["contrastive", "dae high"]
    assert np.isnan(table.loc["none", "dae change"])


def test_the_finding_says_it_and_draws_it(scores: pd.DataFrame) -> None:
    found = gains_finding(scores)
    assert found is not None
    said = {sentence.split("`")[1]: sentence for sentence in found.sentences}
    assert "accuracy 0.50 to 0.90" in said["direction"]
    assert "attention/grad_rollout falls" in said["direction"]
    assert "attention/grad_rollout rises" in said["localisation"]
    assert [figure.kind for figure in found.figures] == ["points", "intervals"]
    assert gains_finding(scores[scores["model"].isin(["twin", "other"])]) is None


def test_one_objective_that_loses_direction_bears_the_paper_out(scores: pd.DataFrame) -> None:
    found = gains_finding(scores)
    assert found is not None
    shown = {found.title: pd.DataFrame(list(found.rows), columns=list(found.columns))}
    claims = {claim.text: claim for claim in accuracy_claims(shown)}
    assert claims["All three training objectives improve the answers"].verdict == "agree"
    assert claims["None of them improves the direction reliably"].verdict == "agree"
    better = {name: pd.concat([table[table["objective"] == "direction"]] * 2) for name, table in shown.items()}
    claims = {claim.text: claim for claim in accuracy_claims(better)}
    assert claims["None of them improves the direction reliably"].verdict == "disagree"
