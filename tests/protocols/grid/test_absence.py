"""Absence as an axis: the same method in several absent states."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from karat.engine.run import run
from karat.kernel.claim import Agreement, Claim, Comparison
from karat.kernel.spec import Spec
from karat.protocols.grid.absence import absence_findings, absence_means, broken_states, in_state, states
from karat.protocols.grid.analysis import tidy
from karat.protocols.grid.claims import compare, over_states
from karat.protocols.grid.verdict import verdict, verdicts
from tests.protocols.grid.made import Made, made, noise, per_twin

MULTISHAP = "interaction/multishap(absence={})"
BUCKETS = ("D2_M_F0_d0.3", "D2_M_F1_d0.3")


def of_states(iou: Mapping[str, float], n: int = 12) -> pd.DataFrame:
    """MultiSHAP with another IoU in each state, and a method that hides nothing."""
    metrics: dict[str, dict[str, Made]] = {
        MULTISHAP.format(state): {"iou": noise(value, 0.01), "distractor_mass": per_twin(0.1, 0.1 + value / 2)}
        for state, value in iou.items()
    }
    return made({**metrics, "interaction/multiviz": {"iou": noise(0.03, 0.01)}}, BUCKETS, n=n, family="gridnet")


def test_a_state_that_breaks_a_model_does_not_count() -> None:
    """The claim on MultiSHAP's precision flips between white and grey; where grey breaks the model, white decides."""

    def judged(scores: pd.DataFrame) -> Mapping[str, str]:
        return {claim.text: claim.verdict for claim in compare(scores).claims}

    scores = of_states({"white": 0.8, "grey": 0.1})
    both = judged(scores)
    flips = {text for text, verdict in both.items() if verdict == "depends on absence"}
    assert flips
    sound = judged(scores.assign(**{"model.breaks_in": "black, grey"}))
    assert flips.isdisjoint(text for text, verdict in sound.items() if verdict == "depends on absence")
    assert {sound[text] for text in flips} <= {"agree", "disagree"}
    assert broken_states(tidy(scores)) == frozenset()


def test_states_are_those_that_a_method_is_crossed_over() -> None:
    rows = tidy(of_states({"white": 0.8, "grey": 0.1}))
    assert states(rows) == ["grey", "white"]
    white = in_state(rows, "white")
    assert set(white["explainer"]) == {MULTISHAP.format("white"), "interaction/multiviz"}
    assert states(tidy(of_states({"white": 0.8}))) == []


def test_what_absence_does_is_said_and_drawn() -> None:
    rows = tidy(of_states({"white": 0.8, "grey": 0.1}))
    means = absence_means(rows)
    means = means[means["metric"] == "iou"].set_index("absence")
    assert set(means["method"]) == {"interaction/multishap"}
    assert means.loc["white", "mean"] == pytest.approx(0.8, abs=0.01)
    assert means.loc["grey", "low"] < 0.1 < means.loc["grey", "high"]
    [finding] = absence_findings(rows, verdicts(rows))
    assert finding.sentences == ("interaction/multishap on gridnet: IoU is 0.10 in grey and 0.80 in white.",)
    [iou, directed] = finding.figures
    assert dict(zip(iou.series[0].x, iou.series[0].y, strict=True)) == pytest.approx(
        {"grey": 0.1, "white": 0.8}, abs=0.01
    )
    assert set(directed.series[0].x) == {"grey", "white"}


def test_a_mean_that_does_not_move_is_not_said_to() -> None:
    rows = tidy(of_states({"white": 0.5, "grey": 0.5}))
    [finding] = absence_findings(rows, verdicts(rows))
    assert finding.sentences == ()
    alone = tidy(of_states({"white": 0.5}))
    assert list(absence_findings(alone, verdicts(alone))) == []


def test_a_claim_that_flips_depends_on_absence() -> None:
    precise = "MultiSHAP is precise: IoU above 0.5"
    by_text = {claim.text: claim for claim in compare(of_states({"white": 0.8, "grey": 0.1})).claims}
    assert by_text[precise].verdict == "depends on absence"
    assert by_text[precise].ours.startswith("grey: 0.1")
    assert "; white: 0.8" in by_text[precise].ours
    assert by_text["MultiViz collapses: IoU below 0.1"].verdict == "agree"  # nothing is hidden there
    assert "white" not in by_text["MultiViz collapses: IoU below 0.1"].ours
    by_text = {claim.text: claim for claim in compare(of_states({"white": 0.8, "grey": 0.7})).claims}
    assert by_text[precise].verdict == "agree"


@pytest.mark.parametrize(
    ("given", "verdict"),
    [
        (("agree", "agree"), "agree"), (("disagree", "disagree"), "disagree"),
        (("agree", "disagree"), "depends on absence"), (("agree", "cannot tell"), "cannot tell"),
        (("agree", "cannot tell", "disagree"), "depends on absence"),
    ],
)  # fmt: skip
def test_states_are_put_together(given: tuple[Agreement, ...], verdict: str) -> None:
    claims = {f"state {k}": Claim("", "", "", f"value {k}", one) for k, one in enumerate(given)}
    assert over_states(claims).verdict == verdict


def test_dependence_is_counted_only_where_there_is_any() -> None:
    claims = tuple(Claim("", "", "", "", verdict) for verdict in ("agree", "cannot tell"))
    assert Comparison(claims).counts() == {"agree": 1, "disagree": 0, "cannot tell": 1}
    flips = (*claims, Claim("", "", "", "", "depends on absence"))
    assert Comparison(flips).counts()["depends on absence"] == 1


def test_a_run_crosses_absence_and_its_tables_name_it(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    spec = Spec.parse(
        {
            "protocol": "grid",
            "models": [{"name": "gridprog.pure", "cell": 16}, {"name": "gridprog.spur", "cell": 16}],
            "datasets": [{"name": "grid", "buckets": ["D1_M_F0_d0.3"], "per_bucket": 8, "cell": 16}],
            "explainers": ["control/uniform", "perturbation/leave_one_out"],
            "absence": ["white", "grey", "black"],
        }
    )
    finished = run(spec, tmp_path, workers=0, fail_on_error=0)
    scores = finished.scores()
    hidden = scores[scores["explainer.name"] == "perturbation/leave_one_out"]
    assert set(hidden["explainer.absence"]) == {"white", "grey", "black"}
    assert scores.loc[scores["explainer.is_control"], "explainer.absence"].isna().all()
    table = verdict(scores)
    assert table.loc[table["explainer"].str.startswith("perturbation"), "absence"].nunique() == 3
    # gridprog knows cells by their colour and holds in every state that means empty
    assert np.allclose(table.loc[table["explainer"].str.startswith("perturbation"), "directed"], 1.0)
    assert any(finding.title == "What absence does: gridprog" for finding in finished.findings())
