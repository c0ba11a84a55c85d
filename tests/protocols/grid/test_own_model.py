"""A user's own vision-language model on the grid: accuracies and every local score, without a known mechanism."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from karat.datasets.grid import generate
from karat.engine.run import run
from karat.kernel.answers import read_answer
from karat.kernel.registry import registered
from karat.kernel.spec import Spec
from karat.models import recipe

pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.models.tiny_llava import make_module, make_processor

    where = tmp_path_factory.mktemp("llava")
    processor = make_processor()
    make_module(processor).save_pretrained(where)
    processor.save_pretrained(where)
    return where


def test_any_vlm_runs_on_the_grid(model: Path, tmp_path: Path) -> None:
    spec = Spec.parse(
        {
            "protocol": "grid",
            "models": [{"name": "vlm", "path": str(model), "max_new_tokens": 1}],
            "datasets": [{"name": "grid", "buckets": ["D1_M_F0_d0.3", "D1_A_F1_d0.7"], "per_bucket": 2, "cell": 16}],
            "explainers": ["control/uniform", "attention/rollout", "gradient/input_x_gradient"],
        }
    )
    finished = run(spec, tmp_path, workers=0)
    scores = finished.scores()
    for explainer in ("attention/rollout", "gradient/input_x_gradient"):
        own = scores[scores["explainer"] == explainer].set_index("metric")["value"]
        assert np.isfinite(own["mass"]).any()
        assert np.isfinite(own["iou"]).any()
        assert np.isnan(own["own_mass"]).all()  # nobody knows what it must use
    reasons = scores[scores["metric"] == "own_mass"]["reason"].unique().tolist()
    assert "the sample has no truth for this" in reasons  # a model that says nothing at all is a failure
    [accuracy] = [found for found in finished.findings() if found.title == "Right answers on pure samples"]
    assert len(accuracy.rows) == 2
    assert 0 <= accuracy.rows[0][4] <= 1


def test_what_a_talking_model_says_is_read_as_an_answer() -> None:
    count, exist = (generate(name, 1, cell=8)[0] for name in ("D1_M_F0_d0.3", "D1_A_F1_d0.7"))
    assert count.choices[:3] == ("0", "1", "2")
    assert exist.choices == ("yes", "no")
    assert count.answer in count.choices
    said = read_answer("There are 3 red circles.", count.choices)
    assert said is not None
    assert said.answer == "3"
    said = read_answer("Yes, there is one.", exist.choices)
    assert said is not None
    assert said.answer == "yes"


@pytest.mark.slow
@pytest.mark.parametrize("family", ["gridnet", "gridvlm"])
def test_every_local_explainer_runs_on_learnt_twins(family: str, tmp_path: Path) -> None:
    """Whatever their models can serve gives a map or word scores, and every row has a value or a reason."""
    offered = recipe(f"{family}.pure").capabilities
    local = sorted(
        name
        for name, cls in registered("explainer").items()
        if cls.card.needs <= offered
        and cls.card.gives & {"visual", "words"}
        and not name.startswith(("elsewhere/", "control/"))
    )
    assert len(local) > 30
    spec = Spec.parse(
        {
            "protocol": "grid",
            "models": [f"{family}.pure"],
            "datasets": [{"name": "grid", "buckets": ["D2_M_F0_d0.3"], "per_bucket": 2, "cell": 16}],
            "explainers": local,
            "absence": ["white"],  # other states break gridvlm, and are refused as a default
            "keep_maps": False,
        }
    )
    scores = run(spec, tmp_path, workers=0).scores()
    assert sorted(scores["explainer"].str.split("(").str[0].unique()) == local
    lost = scores[scores["status"] == "failure"]
    others = lost[lost["reason"] != "map is all zero"]  # what some CAMs say, and a true thing to say
    assert set(others["explainer"]) <= {"gradient/guided_backprop", "gradient/deconvnet"}
    assert others["reason"].str.contains("has no ReLU").all()
    told = scores[scores["metric"].isin(["mass", "own_words"])].groupby("explainer")["value"].count()
    assert set(told.index[told == 0]) <= set(lost["explainer"])
    assert scores.loc[scores["value"].isna(), "reason"].notna().all()


def test_the_shipped_vlm_twins_are_what_they_say(tmp_path: Path) -> None:
    from karat.kernel.errors import BadInput
    from karat.models import load_model

    try:
        load_model("gridvlm.pure"), load_model("gridvlm.spur")
    except BadInput:
        pytest.skip("gridvlm is not shipped here")
    spec = Spec.parse(
        {
            "protocol": "grid",
            "models": ["gridvlm.pure", "gridvlm.spur"],
            "datasets": [{"name": "grid", "buckets": ["D1_M_F0_d0.3", "D2_M_F0_d0.3"], "per_bucket": 6}],
            "explainers": ["control/oracle", "attention/rollout"],
        }
    )
    findings = run(spec, tmp_path, workers=0).findings()
    assert findings[0].title == "Which twin made this explanation?"
    oracle = next(row for row in findings[0].rows if row[1] == "control/oracle")
    assert dict(zip(findings[0].columns, oracle, strict=True))["directed"] == 1.0
