"""The paper's claims, judged on rows in which they hold, fail, or cannot be told."""

from __future__ import annotations

import pandas as pd
import pytest

from karat.protocols.common.published import load
from karat.protocols.grid.analysis import share
from karat.protocols.grid.claims import compare
from tests.protocols.grid.made import made, noise, per_twin

SHOWN = {"MultiSHAP": "interaction/multishap(budget=9)", "MultiViz": "interaction/multiviz", "DIME": "interaction/dime"}
BUCKETS = ("D1_A_F0_d0.3", "D1_A_F1_d0.7", "D2_M_F0_d0.3", "D2_M_F0_d0.7", "D2_M_F1_d0.3", "D3_M_F0_d0.3")


def test_a_share_of_all_is_not_certain() -> None:
    found = share(pd.Series([True] * 20))
    assert (found.value, found.high) == (1.0, 1.0)
    assert 0.8 < found.low < 0.9


@pytest.fixture(scope="module")
def scores() -> pd.DataFrame:
    """MultiSHAP prefers the spur twin, MultiViz is the same for both, DIME too; all else noise."""
    features = ("distractor_mass", "anchor_mass", "relation_mass")
    return made(
        {
            SHOWN["MultiSHAP"]: {"mass": per_twin(0.6, 0.7), "iou": noise(0.6, 0.01), "corrected_mass": noise(),
                                 "distractor_mass": per_twin(0.1, 0.5), "anchor_mass": noise(seed=1),
                                 "relation_mass": noise(seed=2)},
            SHOWN["MultiViz"]: {"mass": noise(0.44, 0.01), "iou": noise(0.03, 0.01), "corrected_mass": noise(),
                                **{name: noise(seed=k) for k, name in enumerate(features)}},
            SHOWN["DIME"]: {"mass": noise(0.3, 0.01), "iou": noise(0.2, 0.01), "corrected_mass": noise()},
        },
        BUCKETS, n=30, family="gridnet",
    )  # fmt: skip


def test_claims_are_judged_one_by_one(scores: pd.DataFrame) -> None:
    told = {claim.text: claim for claim in compare(scores).claims}
    assert told["MultiSHAP gives the spur twin a higher RMA than the pure twin"].verdict == "agree"
    assert told["MultiViz is blind: the same RMA for both twins, each on its own data"].verdict == "agree"
    assert told["MultiSHAP is precise: IoU above 0.5"].verdict == "agree"
    assert told["MultiViz collapses: IoU below 0.1"].verdict == "agree"
    assert told["MultiSHAP cannot tell the twins apart"].verdict == "disagree"
    assert told["MultiViz cannot tell the twins apart"].verdict != "disagree"
    assert told["MultiSHAP has a higher RMA than MultiViz"].verdict == "agree"
    assert told["DIME has a higher IoU than MultiViz"].verdict == "agree"
    assert told["the spur twin fails at counting mixed depth-2 targets"].verdict == "agree"
    assert told["attribute questions stay right for the spur twin on pure samples"].ours.startswith("1.000")
    for claim in told.values():
        assert claim.where
        assert claim.verdict in ("agree", "disagree", "cannot tell")
        if not claim.ours:
            assert claim.verdict == "cannot tell"
            assert claim.because


def test_twins_that_do_not_hold_prove_nothing() -> None:
    broken = made({SHOWN["MultiViz"]: {"mass": noise(0.44, 0.01)}}, BUCKETS, n=10, family="gridnet", right=0.5)
    told = {claim.text: claim for claim in compare(broken).claims}
    claim = told["MultiViz is blind: the same RMA for both twins, each on its own data"]
    assert claim.verdict == "cannot tell"
    assert "gridnet.pure follows its mechanism on 50.0%" in claim.because
    assert told["the spur twin is right on its own data"].verdict == "disagree"  # that is about the models


def test_published_means_are_those_of_the_tables(scores: pd.DataFrame) -> None:
    told = {claim.text: claim.published for claim in compare(scores).claims}
    assert told["DIME's RMA is higher in dense grids"] == "0.254 → 0.305"
    assert told["DIME's IoU is no higher in dense grids"] == "0.206 → 0.210"
    assert told["DIME gives the spur twin about the RMA it gives the pure twin"] == "0.272 against 0.279"
    assert told["MultiSHAP is precise: IoU above 0.5"] == "0.505"
    assert told["MultiViz collapses: IoU below 0.1"] == "0.048"


def test_tables_stand_beside_each_other(scores: pd.DataFrame) -> None:
    tables = {table.title.split(":")[0]: table for table in compare(scores).tables}
    assert list(tables) == [f"Table {k}" for k in range(3, 9)]
    row = next(row for row in tables["Table 5"].rows if row[:3] == (0, "M", 2))
    cells = dict(zip(tables["Table 5"].columns, row, strict=True))
    assert cells["MultiSHAP d0.3, paper"] == "70.4 ± 10.8"
    mean, std = map(float, str(cells["MultiSHAP d0.3, gridnet"]).split(" ± "))
    assert mean == pytest.approx(60, abs=1)
    assert std > 0
    assert "30 samples a bucket" in tables["Table 5"].about
    row = next(row for row in tables["Table 3"].rows if row[:3] == (0, "M", 2))
    cells = dict(zip(tables["Table 3"].columns, row, strict=True))
    assert (cells["spur, paper"], cells["Gemma-3-4B, paper"], cells["gridnet.pure"]) == (8, 30, 100)
    missing = next(row for row in tables["Table 5"].rows if row[:3] == (0, "CMP", 3))
    assert dict(zip(tables["Table 5"].columns, missing, strict=True))["DIME d0.7, gridnet"] is None


def test_without_twins_nothing_can_be_told() -> None:
    frame = made({"x": {"mass": noise()}}, n=1)
    frame["model"], frame["model.mechanism"] = "mine", None
    found = compare(frame)
    [claim] = found.claims
    assert claim.verdict == "cannot tell"
    assert [table.title.split(":")[0] for table in found.tables] == ["Table 3", "Table 4"]
    row = next(row for row in found.tables[0].rows if row[-1] is not None)
    assert found.tables[0].columns[3:] == (
        "Qwen2.5-VL-3B, paper", "Gemma-3-4B, paper", "LLaVA-1.5-7B, paper", "Qwen3-VL-30B, paper", "spur, paper",
        "pure, paper", "mine",
    )  # fmt: skip
    assert 0 <= float(row[-1] or 0) <= 100


def test_every_family_says_what_it_says(scores: pd.DataFrame) -> None:
    other = scores.assign(model=scores["model"].str.replace("gridnet", "gridprog"), **{"model.family": "gridprog"})
    other.loc[other["metric"] == "iou", "value"] = 0.3
    found = compare(pd.concat([other, scores], ignore_index=True))
    assert found.claims[0].ours.count("gridnet") == 1  # nearest to the paper's
    table = found.tables[0]
    said = {str(row[0]): dict(zip(table.columns, row, strict=True)) for row in table.rows}
    assert len(said) == len(found.claims)
    precise = said["MultiSHAP is precise: IoU above 0.5"]
    assert (precise["gridnet"], precise["gridprog"]) == ("agree", "disagree")


def test_a_lower_overlap_is_no_higher_one(scores: pd.DataFrame) -> None:
    dense = scores["meta.density"] == 0.7
    lower = scores.assign(value=scores["value"].mask((scores["metric"] == "iou") & dense, 0.05))
    told = {claim.text: claim for claim in compare(lower).claims}
    assert told["DIME's IoU is no higher in dense grids"].verdict == "agree"


def test_published_numbers_are_whole() -> None:
    published = load("grid")
    assert published.paper == "000"
    assert [(name, len(table.rows)) for name, table in published.tables.items()] == [
        (f"Table {k}", 19) for k in range(3, 9)
    ]
    assert published.tables["Table 5"].column("DIME d0.3")[0] == 26.7
    assert published.tables["Table 8"].column("MultiViz d0.7 std")[-1] == 3.6
    assert published.tables["Table 4"].column("pure").count(100.0) == 18
