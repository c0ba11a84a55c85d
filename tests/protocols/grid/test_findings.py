"""Tables 3 to 8 and the twins' proof, on rows whose means are known."""

from __future__ import annotations

import numpy as np
import pytest

from karat.datasets.grid import buckets
from karat.kernel.errors import BadInput
from karat.protocols.grid.analysis import PURE, accuracy_table, bucket_table, scenario, tidy, twin_table, unproven
from karat.protocols.grid.findings import accuracy_findings, bucket_findings, twin_finding
from tests.protocols.grid.made import made, noise, per_twin

ALL = buckets(published_only=True)


def alternating(metric: str, twin: str, mode: str, i: int) -> float:
    return float("nan") if i == 0 else 0.2 if i % 2 else 0.4


def test_mean_std_and_coverage_are_those_of_the_bucket() -> None:
    rows = scenario(tidy(made({"x": {"mass": alternating}}, n=5)), "t", PURE)
    table = bucket_table(rows, "mass")
    assert len(table) == 6
    assert table["mean"].tolist() == pytest.approx([0.3] * 6)
    assert table["std"].tolist() == pytest.approx([0.1] * 6)  # population: two of 0.2, two of 0.4
    assert set(table["used"]) == {4}
    assert set(table["of"]) == {5}
    mass = next(iter(bucket_findings(tidy(made({"x": {"mass": alternating}}, ["D1_A_F1_d0.3"], n=5)))))
    assert mass.rows == ((1, "A", 1, 0.3, "30.0 ± 10.0 (4/5)"),)


def test_all_buckets_stand_in_the_papers_order() -> None:
    found = next(iter(bucket_findings(tidy(made({"x": {"mass": noise()}}, buckets(published_only=True), n=2)))))
    assert len(found.rows) == 38
    kinds = [(row[1], row[2]) for row in found.rows if row[3] == 0.3]
    form_0 = ["A1", "SO1", "SO2", "CO1", "CO2", "M1", "M2", "M3", "CMP1", "CMP2", "CMP3"]
    assert [f"{q}{d}" for q, d in kinds] == [*form_0, "A1", "SO1", "SO2", "CO1", "CO2", "M1", "M2", "M3"]
    [figure] = found.figures
    assert len(figure.series[0].x) == 38


def test_an_explainer_without_maps_is_named_below_the_table() -> None:
    nothing = {"mass": lambda metric, twin, mode, i: float("nan")}
    found = next(iter(bucket_findings(tidy(made({"x": {"mass": noise()}, "words only": nothing})))))
    assert found.columns[4:] == ("x",)
    assert found.sentences == ("No RMA in any bucket, and so no column: words only.",)


def test_a_bucket_without_values_says_so() -> None:
    def gap(metric: str, twin: str, mode: str, i: int) -> float:
        return float("nan") if "D2" in metric else 0.5

    found = next(iter(bucket_findings(tidy(made({"x": {"mass": gap}}, n=3)))))
    cells = {(row[0], row[2]): row[4] for row in found.rows}
    assert cells[0, 1] == "50.0 ± 0.0"
    assert cells[0, 2] == "none (0/3)"


def test_accuracy_is_by_bucket_and_for_any_model() -> None:
    frame = made({"x": {"mass": noise()}}, n=8)
    table = accuracy_table(tidy(frame))
    own = table[(table["model"] == "t.pure")]
    assert (own["right"] == own["of"]).all()
    shortcut = table[(table["model"] == "t.spur") & (table["mode"] == "pure") & (table["form"] == 0)]
    assert (shortcut["right"] == 0).all()  # a certified pure sample is never answered rightly by matching words
    frame["model"] = frame["model"].replace({"t.pure": "my-vlm", "t.spur": "other"})
    [pure, _] = accuracy_findings(tidy(frame))
    assert pure.columns[4:] == ("my-vlm", "other")
    assert pure.sentences[0] == "my-vlm answers 100.0% of 48 pure questions rightly."


def test_twins_that_do_as_they_should_hold() -> None:
    rows = tidy(made({"x": {"mass": noise()}}))
    table = twin_table(rows)
    assert table["follows"].tolist() == [1.0] * 4
    assert table["holds"].all()
    assert unproven(rows) == {}
    [found] = twin_finding(rows)
    assert found.sentences[0].startswith("Every twin")


def test_a_sample_lost_under_one_explainer_is_still_answered() -> None:
    """Its row has no answer where the explainer killed its process, but other explainers' rows of it do."""
    frame = made({"a": {"mass": noise()}, "b": {"mass": noise()}}, ["D1_A_F1_d0.3"])
    frame.loc[(frame["explainer"] == "a") & (frame["meta.index"] == 0), "answer"] = None
    rows = tidy(frame)
    assert unproven(rows) == {}
    table = accuracy_table(rows)
    assert (table["right"] == table["of"]).all()


def test_a_twin_that_fails_is_named() -> None:
    rows = tidy(made({"x": {"mass": noise()}}, right=0.5))
    failed = unproven(rows)
    assert set(failed) == {"t"}
    assert "50.0% of 36" in failed["t"]
    [found] = twin_finding(rows)
    assert any("t.spur does not hold up" in line for line in found.sentences)


def test_a_twin_that_fails_in_one_bucket_is_named_with_it() -> None:
    """98 % in all, and yet none right in one bucket."""
    frame = made({"x": {"mass": noise()}}, ALL, n=10, family="gridvlm")
    lost = (frame["model"] == "gridvlm.pure") & (frame["meta.bucket"] == ALL[3])
    frame.loc[lost, "answer"] = "nonsense"
    rows = tidy(frame)
    table = twin_table(rows)
    [row] = table[(table["model"] == "gridvlm.pure") & (table["mode"] == "pure")].to_dict("records")
    assert row["follows"] > row["needed"]
    assert not row["holds"]
    assert row["worst"] == f"{ALL[3]} 0%"
    [said] = unproven(rows).values()
    assert said.endswith(f"(in bucket {ALL[3]} on 0 of 10, 93% needed there)")
    few = rows[rows["index"] == 0]  # one sample a bucket shows nothing
    assert twin_table(few)["holds"].all()


def test_questions_without_an_answer_are_counted_and_said() -> None:
    frame = made({"x": {"mass": noise()}}, n=4)
    frame.loc[(frame["model"] == "t.pure") & (frame["meta.index"] == 0), "answer"] = None
    table = accuracy_table(tidy(frame))
    assert (table.loc[table["model"] == "t.pure", "unanswered"] == 1).all()
    said = [line for found in accuracy_findings(tidy(frame)) for line in found.sentences]
    assert sum("no answer at all" in line for line in said) == 2


def test_rows_of_other_data_are_refused() -> None:
    with pytest.raises(BadInput, match=r"no meta\.mode"):
        tidy(made({"x": {"mass": per_twin(0, 1)}}, n=1).drop(columns="meta.mode"))
    assert np.isfinite(made({"x": {"mass": per_twin(0, 1)}}, n=1)["value"]).all()
