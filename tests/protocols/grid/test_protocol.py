"""Protocol `grid` on the compiled twins: controls stand where their truth says."""

from __future__ import annotations

import pandas as pd
import pytest

from karat.engine.run import run
from karat.kernel.spec import Spec

pytest.importorskip("torch")

SPEC = {
    "name": "grid",
    "protocol": "grid",
    "models": ["gridprog.pure", "gridprog.spur"],
    "datasets": [{"name": "grid", "buckets": ["D1_M_F0_d0.3", "D2_M_F0_d0.7"], "per_bucket": 6, "cell": 64}],
    "explainers": ["control/random", "control/uniform", "control/oracle", "control/inverse_oracle"],
}


@pytest.fixture(scope="module")
def scores(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    return run(Spec.parse(SPEC), tmp_path_factory.mktemp("grid"), workers=0, fail_on_error=0).scores()


def test_random_sits_at_the_floor(scores: pd.DataFrame) -> None:
    for metric in ("own_mass", "own_words"):
        chosen = scores[(scores.metric == metric) & (scores.explainer == "control/random")]["value"]
        assert abs(chosen.mean()) < 4 * chosen.std() / len(chosen) ** 0.5


def test_findings_do_not_depend_on_the_workers(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Rows in another order of arrival, and through two processes: the same findings, bit for bit."""
    spec = Spec.parse({**SPEC, "shard_size": 3, "explainers": ["control/random", "control/oracle"]})
    alone, shared = (
        run(spec, tmp_path_factory.mktemp("w"), workers=workers).store.read("findings.json") for workers in (0, 2)
    )
    assert alone == shared
    assert b"Which twin made this explanation?" in alone


def means(scores: pd.DataFrame, metric: str) -> dict[tuple[str, str], float]:
    chosen = scores[scores.metric == metric].groupby(["model", "explainer"])["value"].mean()
    return {key: float(value) for key, value in chosen.items()}


@pytest.mark.parametrize("metric", ["own_mass", "own_words"])
def test_uniform_is_the_floor_and_the_oracle_the_ceiling(scores: pd.DataFrame, metric: str) -> None:
    found = means(scores, metric)
    for model in ("gridprog.pure", "gridprog.spur"):
        assert found[model, "control/uniform"] == pytest.approx(0, abs=1e-12)
        assert found[model, "control/oracle"] == pytest.approx(1, abs=1e-12)
        worst = min(found[model, e] for e in SPEC["explainers"])
        assert found[model, "control/inverse_oracle"] == worst


def test_only_the_shortcut_twin_looks_at_distractors(scores: pd.DataFrame) -> None:
    found = means(scores, "distractor_mass")
    assert found["gridprog.pure", "control/oracle"] == 0
    assert found["gridprog.spur", "control/oracle"] > 0.3


def test_only_the_reasoning_twin_reads_relations(scores: pd.DataFrame) -> None:
    found = means(scores, "relation_mass")
    assert found["gridprog.pure", "control/oracle"] > 0.1
    assert found["gridprog.spur", "control/oracle"] == 0
