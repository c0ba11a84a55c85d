"""The audit judges metrics: on made-up metrics whose worth is known, and on a small run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from karat.engine.run import run
from karat.kernel.spec import Spec
from karat.protocols.audit.ladder import RANDOM, SWAPS, Trial, order, trials
from karat.protocols.audit.shuffled import noticed
from karat.protocols.audit.trust import prefers, trust
from karat.protocols.common.controls import ORACLE

N = 40


def _trial(values: dict[str, np.ndarray], metric: str = "m", model: str = "twin", whole: str | None = None) -> Trial:
    index = pd.MultiIndex.from_product([["d"], range(N)], names=["dataset", "sample"])
    return Trial(metric, model, pd.DataFrame(values, index=index), whole)


def _falling(slope: float, noise: float, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {rung: 1 - slope * k / 10 + noise * rng.standard_normal(N) for k, rung in enumerate(SWAPS)}


def test_a_metric_that_falls_with_every_rung_is_in_order_and_sees_the_first_swap() -> None:
    found = order(_trial(_falling(1.0, 0.01)), SWAPS)
    assert found is not None
    assert (found.tau, found.adjacent, found.sees) == (1.0, 10, 0.1)


def test_a_metric_of_noise_orders_nothing() -> None:
    found = order(_trial(_falling(0.0, 1.0)), SWAPS)
    assert found is not None
    assert found.low < 0.5
    assert found.sees is None


def test_a_constant_metric_is_all_ties() -> None:
    found = order(_trial(_falling(0.0, 0.0)), SWAPS)
    assert found is not None
    assert (found.tau, found.adjacent) == (0.0, 0)


def test_the_least_swap_that_is_seen_grows_with_the_noise_of_the_metric() -> None:
    seen = [order(_trial(_falling(1.0, noise)), SWAPS) for noise in (0.05, 0.5)]
    assert all(one is not None and one.sees is not None for one in seen)
    assert seen[0].sees < seen[1].sees  # type: ignore[union-attr, operator]


def test_two_rungs_are_no_ladder() -> None:
    assert order(_trial({ORACLE: np.ones(N), RANDOM: np.zeros(N)}), SWAPS) is None


def test_a_ladder_hangs_from_the_oracle() -> None:
    assert (
        order(_trial({rung: values for rung, values in _falling(1.0, 0.01).items() if rung != ORACLE}), SWAPS) is None
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "Trust m to rank explanations of models like these."),
        ({"control/other_twin": 1.2}, "Trust m to find objects, not reasons"),
        ({"control/other_twin": 1.0}, "these samples do not tell"),
        ({"control/other_twin": 0.2, "control/edges": 0.9}, "control/edges fool it"),
        ({RANDOM: 2.0}, "it prefers noise to the truth"),
    ],
)
def test_advice_follows_from_what_was_seen(changes: dict[str, float], said: str) -> None:
    values = _falling(1.0, 0.01) | {"control/other_twin": np.full(N, 0.2)}
    values |= {name: np.full(N, value) for name, value in changes.items()}
    assert said in trust([_trial(values)]).advice


def test_a_preference_is_shown_denied_or_open() -> None:
    rng = np.random.default_rng(2)
    oracle, noise = np.linspace(0.5, 0.9, N), rng.standard_normal(N)
    others = {"yes": oracle - 0.1, "no": oracle + 0.1, "cannot tell": oracle + 0.1 * (noise - noise.mean())}
    for wanted, other in (*others.items(), ("no", oracle)):
        assert prefers([_trial({ORACLE: oracle, "other": other})], ORACLE, "other") == wanted
    both = [_trial({ORACLE: oracle, "other": others[kind]}, model=kind) for kind in ("yes", "cannot tell")]
    assert prefers(both, ORACLE, "other") == "cannot tell"
    assert prefers([*both, _trial({ORACLE: oracle, "other": oracle})], ORACLE, "other") == "no"
    assert prefers(both, ORACLE, "absent") is None


def test_blind_on_one_model_is_said_although_another_is_fine() -> None:
    fine, blind = _falling(1.0, 0.01), _falling(0.0, 1.0, seed=3)
    found = trust([_trial(fine, model="a"), _trial(blind, model="b")])
    assert found.blind_on == ("b",)
    assert found.advice.startswith("Do not rank explainers by m alone: on b")


def test_shuffled_weights_are_noticed_by_a_metric_that_looks() -> None:
    whole = {ORACLE: np.linspace(0.8, 0.9, N), RANDOM: np.linspace(0.1, 0.2, N)}
    same = {ORACLE: np.linspace(0.1, 0.2, N), RANDOM: np.linspace(0.1, 0.2, N)}
    shuffled = "any name"  # what it was made from is a fact, not part of its label
    trials_ = [
        _trial(whole, "looks"),
        _trial(same, "looks", shuffled, "twin"),
        _trial(whole, "map"),
        _trial(whole, "map", shuffled, "twin"),
    ]
    [told] = noticed(trials_)
    assert [(row[0], row[1], row[4]) for row in told.rows] == [("looks", shuffled, "yes"), ("map", shuffled, "no")]
    assert noticed([_trial(whole, "looks")]) == []
    assert noticed([_trial(same, "dull"), _trial(same, "dull", shuffled, "twin")]) == []  # it saw nothing before either


def test_lower_is_better_is_turned_round() -> None:
    rows = [("low", "twin", "d", str(i), rung, k / 10) for i in range(3) for k, rung in enumerate(SWAPS)]
    frame = pd.DataFrame(rows, columns=["metric", "model", "dataset", "sample", "explainer", "value"])
    [trial] = trials(frame, {"low": "lower", "none": "none"})
    assert order(trial, SWAPS).tau == 1.0  # type: ignore[union-attr]


def test_a_small_run_concludes(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    names = ["control/oracle", "control/random", "control/uniform", "control/edges"]
    rungs = [{"name": "control/degraded", "how": "swap", "level": level} for level in (0.3, 0.6)]
    spec = {
        "protocol": {"name": "audit", "steps": 3},
        "models": ["gridprog.pure", {"name": "randomised", "of": "gridprog.pure"}],
        "datasets": [{"name": "grid", "buckets": ["D2_M_F0_d0.3"], "per_bucket": 6}],
        "explainers": [*names, *rungs, {"name": "control/degraded", "how": "other_twin"}],
        "batch_size": 6,
    }
    finished = run(Spec.parse(spec), tmp_path, workers=0)
    assert not (finished.scores()["status"] == "failure").any()
    verdict, ladder, fooled, models, noticed_, agreement = finished.findings()
    by_metric = {row[0]: dict(zip(verdict.columns, row, strict=True)) for row in verdict.rows}
    assert by_metric["own_mass"]["tau"] == 1.0
    assert by_metric["own_mass"]["own reasons"] == "yes"
    assert by_metric["mass"]["own reasons"] == "yes"  # on the reasoning twin the paper's truth is its own
    assert len(verdict.sentences) == len(verdict.rows)
    assert {figure.kind for figure in ladder.figures} == {"lines"}
    assert fooled.columns[2:] == ("edges", "other_twin", "uniform")
    assert models.columns[:2] == ("metric", "gridprog.pure")
    assert {row[1] for row in noticed_.rows} == {"gridprog.pure randomised (cascading 1)"}
    assert {row[2] for row in ladder.rows} == {"gridprog.pure"}
    assert agreement.figures[0].kind == "grid"
