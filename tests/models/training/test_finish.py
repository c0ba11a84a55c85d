"""What a training run leaves: fair evaluation, weights and a card that belong together."""

from __future__ import annotations

from pathlib import Path

import pytest

from karat.kernel.errors import BadInput
from karat.models.training import train
from karat.models.training.finish import evaluate
from karat.models.training.recipe import Recipe
from karat.models.training.twins import build_trainee

RECIPE = Recipe("gridnet", "pure", steps=3, batch=8, grounding_steps=1, detected=4, evaluate_every=2)


def test_evaluation_never_uses_training_seeds() -> None:
    module = build_trainee(RECIPE)
    with pytest.raises(BadInput, match="training seeds begin"):
        evaluate(module, "pure", per_bucket=1, seed=2**32)
    evaluation = evaluate(module, "pure", per_bucket=4)
    assert len(evaluation.buckets) == 40
    assert evaluation.overall < 0.6  # untrained
    assert evaluation.worst[1] == min(evaluation.buckets.values())


def test_train_leaves_weights_card_and_curve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from karat.models.training import finish

    monkeypatch.setattr(finish.finish, "__defaults__", (1, 2))  # two samples a bucket are enough here
    out = train("gridnet", "pure", RECIPE, tmp_path / "out")
    card = (out / "gridnet.pure.md").read_text()
    assert "| 0 | M | D3 |" in card
    assert "| 0 | SO | D1 | " in card.split("Density 0.7")[1]
    assert "paper M_spur" in card
    from karat.models.gridnet.recipe import GridNet

    trained = GridNet("pure", weights=str(out / "gridnet.pure.safetensors"))
    assert trained.revision in card
    assert trained.load().mechanism == "reasons"
