"""The verdict on explanations whose worth is known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from karat.engine.run import run
from karat.kernel.errors import BadInput
from karat.kernel.spec import Spec
from karat.protocols.grid.dose import detection_threshold, dose_curve, dose_findings
from karat.protocols.grid.verdict import sentences, tell_apart, verdict, verdict_finding


def frame(shift: dict[str, float], n: int = 200, seed: int = 0) -> pd.DataFrame:
    """Rows in which the distractor mass of each model is noise plus its shift."""
    rng = np.random.default_rng(seed)
    rows = [
        {"model": model, "explainer": "x", "metric": metric, "sample": str(i), "value": value,
         "meta.mode": "pure", "meta.qtype": "M", "meta.depth": 2}
        for i in range(n) for model, extra in shift.items()
        for metric, value in (("distractor_mass", rng.normal() + extra), ("anchor_mass", rng.normal()))
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_the_auc_is_that_of_the_shift() -> None:
    [row] = verdict(frame({"t.pure": 0.0, "t.spur": 1.0})).itertuples()
    assert row.low < 0.7602 < row.high  # Phi(1 / sqrt 2)
    assert row.samples == 200
    assert row.features == "distractor_mass, anchor_mass"


def test_no_difference_is_hardly_ever_seen() -> None:
    """2.5 % of intervals may lie above one half by chance; cross-fitting errs to the other side."""
    seen = [
        row.low > 0.5
        for seed in range(40)
        for row in verdict(frame({"t.pure": 0.0, "t.spur": 0.0}, n=60, seed=seed)).itertuples()
    ]
    assert len(seen) == 40
    assert sum(seen) <= 3


def test_blind_is_never_excluded_from_below() -> None:
    for seed in range(20):
        [row] = verdict(frame({"t.pure": 0.0, "t.spur": 0.0}, n=20, seed=seed)).itertuples()
        assert row.high >= 0.5


def test_the_dose_curve_rises_and_has_a_threshold() -> None:
    doses = {"t.pure": 0.0, "t.dose(0.1)": 0.05, "t.dose(0.5)": 1.0, "t.dose(0.9)": 2.0, "t.spur": 3.0}
    curve = dose_curve(frame(doses), "t")
    assert curve["dose"].tolist() == [0.1, 0.5, 0.9, 1.0]
    assert curve["auc"].is_monotonic_increasing
    assert detection_threshold(curve)["x"] == 0.5


def test_what_is_missing_is_counted_and_who_says_nothing_is_named() -> None:
    rows = frame({"t.pure": 0.0, "t.spur": 1.0})
    rows.loc[(rows["sample"] == "7") & (rows["model"] == "t.pure"), "value"] = np.nan
    silent = rows.assign(explainer="silent", value=np.nan)
    found = verdict_finding(pd.concat([rows, silent]), {})
    assert found is not None
    [row] = [dict(zip(found.columns, row, strict=True)) for row in found.rows]
    assert (row["explainer"], row["samples"], row["of"]) == ("x", 199, 200)
    assert found.sentences[-1] == ("No verdict on silent on t: too few scores of places or words that both twins have.")


def test_the_dose_is_seen_on_compiled_twins_of_any_cell_size(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    spec = Spec.parse(
        {
            "protocol": "grid",
            "models": [{"name": "gridprog.pure", "cell": 16}, {"name": "gridprog", "dose": 0.5, "cell": 16},
                       {"name": "gridprog.spur", "cell": 16}],
            "datasets": [{"name": "grid", "buckets": ["D1_M_F0_d0.3", "D2_SO_F1_d0.7"], "per_bucket": 15, "cell": 16}],
            "explainers": ["gradient/input_x_gradient", "control/random"],
        }
    )  # fmt: skip
    [found] = [f for f in run(spec, tmp_path, workers=0).findings() if f.title.startswith("How strong must")]
    cells = [dict(zip(found.columns, row, strict=True)) for row in found.rows]
    assert sorted({row["dose"] for row in cells}) == [0.5, 1.0]
    assert {row["detected"] for row in cells if row["explainer"] == "control/random"} == {"no"}
    assert any(row["detected"] == "yes" for row in cells if row["explainer"] == "gradient/input_x_gradient")


def test_too_few_shared_samples_give_no_verdict() -> None:
    assert tell_apart(frame({"t.pure": 0.0, "t.spur": 1.0}, n=3), "t.pure", "t.spur") == {}


def test_rows_of_another_kind_are_refused() -> None:
    with pytest.raises(BadInput, match=r"no meta\.mode"):
        verdict(pd.DataFrame({"model": ["a"]}))


def test_the_oracle_sees_and_noise_is_blind(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    spec = Spec.parse(
        {
            "protocol": "grid",
            "models": ["gridprog.pure", "gridprog.spur"],
            "datasets": [{"name": "grid", "buckets": ["D1_M_F0_d0.3", "D2_SO_F1_d0.7"], "per_bucket": 15}],
            "explainers": ["control/oracle", "control/random", "control/uniform"],
        }
    )
    table = verdict(run(spec, tmp_path, workers=0).scores()).set_index("explainer")
    assert table.loc["control/oracle", "auc"] == 1.0
    assert table.loc["control/oracle", "low"] > 0.8
    for blind in ("control/random", "control/uniform"):
        assert table.loc[blind, "low"] <= 0.5 <= table.loc[blind, "high"]
    told = list(sentences(table.reset_index()))
    assert told[0].startswith("Control: control/oracle on gridprog: tells the twins apart (AUC 1.00")
    assert any("control/random on gridprog: cannot be shown" in line for line in told)


def test_the_best_comes_first_and_controls_last() -> None:
    parts = [
        frame({"t.pure": 0.0, "t.spur": shift}, seed=k).assign(explainer=name)
        for k, (name, shift) in enumerate({"fair": 1.0, "control/oracle": 9.0, "good": 3.0, "blind": 0.0}.items())
    ]
    table = verdict(pd.concat(parts))
    assert table["explainer"].tolist() == ["good", "fair", "blind", "control/oracle"]
    told = list(sentences(table))
    assert told[0].startswith("On t, 2 of 3 methods tell the twins apart better than chance; best is good")
    assert [line.split(" on t")[0] for line in told[1:]] == ["good", "fair", "blind", "Control: control/oracle"]


def test_a_broken_twin_is_said_first() -> None:
    found = verdict_finding(frame({"t.pure": 0.0, "t.spur": 1.0}), {"t.spur": "t.spur follows its mechanism on 3 %"})
    assert found is not None
    assert found.sentences[0] == "No verdict on t can be trusted: t.spur follows its mechanism on 3 %."
    assert "t.spur follows" in found.rows[0][-1]


def test_the_null_has_nothing_to_find() -> None:
    """Dose 0 is the same mechanism: it is hardly ever detected (5 % by chance), dose 0.5 always is."""
    curves = [
        dose_curve(frame({"t.pure": 0.0, "t.dose(0)": 0.0, "t.dose(0.5)": 3.0}, n=50, seed=seed), "t")
        for seed in range(12)
    ]
    table = pd.concat(curves)
    assert table[table["dose"] == 0.0]["detected"].sum() <= 3
    assert table[table["dose"] == 0.5]["detected"].all()
    assert (table["null"] < 0.75).all()
    [found] = dose_findings(frame({"t.pure": 0.0, "t.dose(0.5)": 3.0}), "RQ1")
    assert found.sentences[0].startswith("x shows the shortcut of t from dose 0.5 on (AUC 0.9")
    assert found.figures[0].series[-1].name.startswith("null")


def test_a_dose_without_scores_is_not_one_that_is_missed() -> None:
    rows = frame({"t.pure": 0.0, "t.dose(0.5)": 3.0, "t.spur": 3.0})
    silent = rows.assign(explainer="oracle")
    silent.loc[silent["model"] == "t.dose(0.5)", "value"] = np.nan
    curve = dose_curve(pd.concat([rows, silent]), "t")
    assert np.isnan(detection_threshold(curve)["oracle"])
    assert detection_threshold(curve)["x"] == 0.5
    [found] = dose_findings(pd.concat([rows, silent]), "RQ1")
    assert "oracle has no scores at dose 0.5: no threshold of t." in found.sentences
    assert "oracle" not in {series.name for series in found.figures[0].series}
    said = {(row[0], row[1]): row[-2] for row in found.rows}
    assert said == {("oracle", 0.5): "no scores", ("oracle", 1.0): "yes", ("x", 0.5): "yes", ("x", 1.0): "yes"}


def test_what_is_seen_at_a_small_dose_alone_is_not_called_unseen() -> None:
    [found] = dose_findings(frame({"t.pure": 0.0, "t.dose(0.5)": 3.0, "t.spur": 0.0}), "RQ1")
    assert found.sentences[0] == "x shows the shortcut of t at dose 0.5, but not from any dose on."


def test_no_verdict_at_all_says_why() -> None:
    rows = frame({"t.pure": 0.0, "t.spur": 1.0}).assign(value=np.nan)
    found = verdict_finding(rows, {})
    assert found is not None
    assert found.rows == ()
    assert found.sentences[0].startswith("No verdict on x on t: too few")
    assert verdict_finding(frame({"t.pure": 0.0}), {}) is None  # one twin alone is no question
