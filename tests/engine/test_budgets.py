"""Budgets are held against the players of the data before a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from karat.cli.main import app
from karat.engine.budgets import too_small_budgets
from karat.engine.plan import plan
from karat.kernel.spec import Spec
from karat.models.gridprog.network import Network

BUCKETS = ["D1_M_F0_d0.3", "D2_M_F0_d0.3"]


def spec(*explainers: dict[str, Any], models: tuple[str, ...] = ("gridprog.pure",)) -> dict[str, Any]:
    dataset = {"name": "grid", "buckets": BUCKETS, "per_bucket": 2}
    return {
        "karat": 1, "name": "budgets", "protocol": "localization",
        "models": list(models), "datasets": [dataset], "explainers": list(explainers),
    }  # fmt: skip


def reasons(*explainers: dict[str, Any], **more: Any) -> list[str]:
    return too_small_budgets(plan(Spec.model_validate(spec(*explainers, **more))))


def least(reason: str) -> int:
    return int(reason.split("need a budget of ")[1].split()[0])


@pytest.mark.parametrize("name", ["shapley/kernel_shap", "shapley/permutation", "perturbation/lime"])
def test_the_least_budget_that_is_named_will_do_and_one_less_will_not(name: str) -> None:
    """The number in the sentence is the bound itself, for all samples of the shard."""
    refused = reasons({"name": name, "budget": 3})
    enough = least(refused[0])
    while again := reasons({"name": name, "budget": enough}):  # a later sample may have more words
        assert least(again[0]) > enough
        enough = least(again[0])
    assert reasons({"name": name, "budget": enough - 1})


def test_every_model_and_explainer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("the model ran")

    monkeypatch.setattr(Network, "forward", never)
    found = reasons(
        {"name": "shapley/kernel_shap", "budget": 5},
        {"name": "control/random"},
        models=("gridprog.pure", "gridprog.spur"),
    )
    assert [text.split(" on ")[0] for text in found] == [
        "gridprog.pure × shapley/kernel_shap(budget=5)",
        "gridprog.spur × shapley/kernel_shap(budget=5)",
    ]


def test_check_refuses_the_spec_and_names_the_players(tmp_path: Path) -> None:
    import yaml

    file = tmp_path / "spec.yaml"
    file.write_text(yaml.safe_dump(spec({"name": "shapley/kernel_shap"})))
    sound = CliRunner().invoke(app, ["check", str(file)])
    assert sound.exit_code == 0, sound.output
    small = CliRunner().invoke(
        app, ["check", str(file), "--set", "explainers=[{name: shapley/kernel_shap, budget: 9}]"]
    )
    assert small.exit_code != 0
    assert "36 visual" in str(small.exception)
    assert "got 9" in str(small.exception)


def test_data_that_no_sample_of_which_can_be_played_is_refused_too() -> None:
    """Patches of 8 pixels are none that the compiled twin reads: the reason is the model's own."""
    described = spec({"name": "shapley/kernel_shap"})
    described["datasets"][0]["cell"] = 8
    [reason] = too_small_budgets(plan(Spec.model_validate(described)))
    assert "gridprog.pure × shapley/kernel_shap" in reason
