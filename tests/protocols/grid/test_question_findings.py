"""RQ1 to RQ3 on rows whose effects were put there."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from karat.protocols.grid.analysis import (
    PURE,
    difference,
    dime_gain,
    effect,
    mean_of_few,
    paired_change,
    scenario,
    tidy,
)
from karat.protocols.grid.blocks import METRIC, block_scores, depths
from karat.protocols.grid.exact_reference import exact_reference
from karat.protocols.grid.findings import findings
from karat.protocols.grid.question_findings import question_findings
from karat.protocols.grid.readings import NO_BLOCKS
from tests.protocols.grid.made import made, noise, per_twin

UC = "interaction/dime(part=uc, batch=4)"
MI = "interaction/dime(batch=4)"


def depth_of(metric: str) -> int:
    return int(metric.split(" D")[1][0])


def rising(metric: str, twin: str, mode: str, i: int) -> float:
    """A block of three: the score stands with its first sample, and grows with depth on the pure twin only."""
    if i % 3:
        return float("nan")
    return 0.3 + (0.1 * depth_of(metric) if twin == "pure" else 0.0) + 0.001 * ((i * 7 + len(metric)) % 5)


def test_changes_between_twins_are_found_and_nothing_else() -> None:
    rows = tidy(made({"sees": {"distractor_mass": per_twin(0.1, 0.4)}, "blind": {"distractor_mass": noise(0.2)}}))
    seen = paired_change(rows, "t", "sees", "distractor_mass")
    assert seen.low < 0.3 < seen.high
    assert seen.low > 0.25
    assert seen.n == 36
    blind = paired_change(rows, "t", "blind", "distractor_mass")
    assert blind.low < 0 < blind.high
    found = [f for f in question_findings(rows) if f.title.startswith("Distractors, anchors")]
    assert "1 of 2 methods" in found[0].sentences[0]


def test_effects_of_area_vanish_when_corrected() -> None:
    def area(metric: str, twin: str, mode: str, i: int) -> float:
        dense = 0.2 if "d0.7" in metric else 0.0
        return 0.3 + dense + 0.01 * (i % 3) if metric.startswith("mass") else 0.01 * (i % 3)

    both = ["D1_M_F0_d0.3", "D1_M_F0_d0.7"]
    rows = scenario(tidy(made({"x": {"mass": area, "corrected_mass": area}}, both)), "t", PURE)
    plain = effect(rows, "x", "mass", "density", 0.7, 0.3)
    assert plain.value == pytest.approx(0.2)
    corrected = effect(rows, "x", "corrected_mass", "density", 0.7, 0.3)
    assert corrected.value == pytest.approx(0)
    rows = tidy(made({"x": {"mass": area, "corrected_mass": area, "iou": area}}, both))
    found = next(f for f in question_findings(rows) if f.title.startswith("What density"))
    assert any("none left once area is taken out" in line for line in found.sentences)


def test_every_score_stands_between_its_floor_and_its_ceiling() -> None:
    frame = made(
        {
            "control/random": {"own_mass": noise(0.0, 0.0)}, "control/uniform": {"own_mass": noise(-0.2, 0.0)},
            "control/oracle": {"own_mass": noise(1.0, 0.0)}, "half": {"own_mass": noise(0.5, 0.0)},
        }
    )  # fmt: skip
    found = next(f for f in question_findings(tidy(frame)) if f.title.startswith("Between floor"))
    place = {row[1]: row[-1] for row in found.rows if row[0] == "own_mass"}
    assert place == pytest.approx({"half": 0.5, "control/random": 0, "control/uniform": -0.2, "control/oracle": 1})


def test_floor_and_ceiling_are_those_of_the_same_samples() -> None:
    """The oracle lacks every sample on which the explainer is good: none of these may lift it."""

    def good_where_unknown(metric: str, twin: str, mode: str, i: int) -> float:
        return 0.2 if i < 3 else 0.9

    def known_of_three(metric: str, twin: str, mode: str, i: int) -> float:
        return 1.0 if i < 3 else float("nan")

    frame = made(
        {
            "control/uniform": {"mass": noise(0.0, 0.0)}, "control/oracle": {"mass": known_of_three},
            "x": {"mass": good_where_unknown},
        }
    )  # fmt: skip
    found = next(f for f in question_findings(tidy(frame)) if f.title.startswith("Between floor"))
    [row] = [dict(zip(found.columns, row, strict=True)) for row in found.rows if row[:2] == ("mass", "x")]
    assert (row["mean"], row["floor"], row["ceiling"], row["place"]) == pytest.approx((0.2, 0.0, 1.0, 0.2))
    assert row["used"] == "18/36"  # a floor without control/random is a floor still


def test_the_better_floor_is_the_one_nearer_to_the_truth() -> None:
    """A true map of the pure twin has nothing on distractors: less is better there."""
    frame = made(
        {
            "control/random": {"distractor_mass": noise(0.2, 0.0)},
            "control/uniform": {"distractor_mass": noise(0.1, 0.0)},
            "control/oracle": {"distractor_mass": noise(0.0, 0.0)}, "x": {"distractor_mass": noise(0.15, 0.0)},
        }
    )  # fmt: skip
    found = next(f for f in question_findings(tidy(frame)) if f.title.startswith("Between floor"))
    place = {row[1]: row[-1] for row in found.rows if row[0] == "distractor_mass"}
    assert place == pytest.approx({"x": -0.5, "control/random": -1, "control/uniform": 0, "control/oracle": 1})


def test_an_explainer_without_words_has_a_row_that_says_so() -> None:
    silent = made({"x": {"relation_mass": noise()}, "mute": {"relation_mass": lambda *_: float("nan")}})
    found = next(f for f in question_findings(tidy(silent)) if f.title.startswith("Distractors"))
    [row] = [row for row in found.rows if row[1] == "mute"]
    assert row[2:] == (None, None, None, None, None, "0/36")


def test_a_sample_of_two_datasets_counts_once() -> None:
    frame = made({"x": {"distractor_mass": per_twin(0.1, 0.6)}})
    twice = pd.concat([frame.assign(dataset="grid.pure:D*"), frame.assign(dataset="grid.pure:D[123]*"),
                       frame.assign(dataset="grid.spur")], ignore_index=True)  # fmt: skip
    assert len(tidy(twice)) == len(frame)
    assert paired_change(tidy(twice), "t", "x", "distractor_mass").n == 36


def test_blocks_of_overlapping_data_stay_together() -> None:
    """The smaller dataset comes first, and has a block of its own of the first two samples."""
    frame = made({"modality/emap": {METRIC: rising}})
    few = frame[frame["meta.index"] < 2].assign(value=lambda rows: rows["value"].where(rows["meta.index"] > 0, 0.9))
    both = pd.concat([few.assign(dataset="grid.a"), frame.assign(dataset="grid.b"), few.assign(dataset="grid.c")],
                     ignore_index=True)  # fmt: skip
    assert block_scores(tidy(both)).equals(block_scores(tidy(frame)))


def test_dime_gains_what_its_two_parts_differ_by() -> None:
    rows = tidy(made({MI: {"mass": noise(0.6, 0.01)}, UC: {"mass": noise(0.4, 0.01, seed=1)}}))
    gains = dime_gain(rows, "mass")
    assert set(gains) == {MI}
    assert gains[MI].low < 0.2 < gains[MI].high
    assert dime_gain(tidy(made({MI: {"mass": noise()}})), "mass") == {}


def test_blocks_carry_their_exact_scores() -> None:
    rows = tidy(made({"modality/emap": {"block_interaction": rising}}))
    blocks = block_scores(rows)
    assert len(blocks) == 2 * 2 * 6 * 2  # twins, modes, buckets, two blocks of three
    assert set(blocks["samples"]) == {3}
    from karat.datasets.grid import generate_batch

    one = blocks[(blocks["twin"] == "spur") & (blocks["bucket"] == "D2_M_F0_d0.3") & (blocks["mode"] == "pure")]
    exact = [exact_reference(generate_batch("D2_M_F0_d0.3", at), "matches_words") for at in (range(3), range(3, 6))]
    assert one["exact"].tolist() == pytest.approx([e.emap for e in exact])
    assert one["dividend"].tolist() == pytest.approx([e.dividend for e in exact])


def test_a_trend_is_found_where_it_is() -> None:
    rows = tidy(made({"modality/emap": {"block_interaction": rising}}))
    blocks = block_scores(rows)
    shapes = {
        twin: next(iter(depths(blocks[(blocks["twin"] == twin) & (blocks["mode"] == twin)]))).shape
        for twin in ("pure", "spur")
    }
    assert shapes == {"pure": "rises", "spur": "no trend shown"}
    fallacy = next(f for f in question_findings(rows) if f.title.startswith("Additive"))
    assert "0.40 → 0.50 → 0.60 over depth (rises; the paper wants it to rise)" in fallacy.sentences[0]
    figure = fallacy.figures[0]
    assert figure.series[0].x == (1, 2, 3)
    band = zip(figure.series[0].low, figure.series[0].y, figure.series[0].high, strict=True)
    assert all(low <= y <= high for low, y, high in band)


def test_a_block_without_a_score_is_not_part_of_the_one_before() -> None:
    frame = made({"modality/emap": {"block_interaction": rising}}, ["D2_M_F0_d0.3"])
    second = (frame["meta.index"] == 3) & (frame["model"] == "t.pure") & (frame["meta.mode"] == "pure")
    frame.loc[second, ["value", "reason"]] = [np.nan, "not defined here (NaN)"]
    blocks = block_scores(tidy(frame))
    hurt = blocks[(blocks["twin"] == "pure") & (blocks["mode"] == "pure")]
    assert hurt[["block", "samples", "of"]].to_numpy().tolist() == [[0, 3, 6]]
    assert blocks.groupby(["twin", "mode"]).size().tolist() == [1, 2, 2, 2]
    [told] = [f for f in question_findings(tidy(frame)) if f.title.startswith("Global scores")]
    assert sorted(row[4] for row in told.rows) == ["3/6", "6/6", "6/6", "6/6"]


def test_methods_without_blocks_have_none() -> None:
    frame = made({"x": {"block_interaction": lambda *_: float("nan")}}, n=3)
    assert block_scores(tidy(frame.assign(reason=NO_BLOCKS))).empty


def test_intervals_of_few_cover_as_often_as_they_say() -> None:
    rng = np.random.default_rng(0)
    three = [mean_of_few(rng.normal(size=3)) for _ in range(2000)]
    assert 0.935 < np.mean([one.low < 0 < one.high for one in three]) < 0.965
    four = [difference(rng.normal(size=4), rng.normal(size=4)) for _ in range(2000)]
    assert 0.935 < np.mean([one.low < 0 < one.high for one in four]) < 0.975  # Welch errs to the safe side
    two = mean_of_few([1.0, 2.0])
    assert two.value == 1.5
    assert np.isnan([two.low, two.high]).all()


def test_a_run_of_spur_samples_alone_has_what_it_can_have() -> None:
    frame = made({"x": {"mass": noise(), "own_mass": noise()}})
    found = [f.title for f in findings(frame[frame["meta.mode"] == "spur"])]
    assert "Between floor and ceiling: t, spur twin on spur" in found
    assert "Right answers on spur samples" in found
    assert not any("density" in title for title in found)


def test_one_density_has_no_effect_of_density() -> None:
    rows = tidy(made({"x": {m: noise() for m in ("mass", "corrected_mass", "iou")}}, ["D1_M_F0_d0.3", "D1_M_F1_d0.3"]))
    volume = next(f for f in question_findings(rows) if f.title.startswith("What density"))
    cells = dict(zip(volume.columns, volume.rows[0], strict=True))
    assert cells["used"] == "12/12"
    assert cells["density mass"] is None
    assert cells["form mass"] is not None


def test_every_scenario_is_held_against_its_own_truth() -> None:
    own = {"own_mass": per_twin(0.2, 0.8)}
    ends = {"control/oracle": {"own_mass": noise(1.0, 0.0)}, "control/random": {"own_mass": noise(0.0, 0.0)},
            "silent": {"own_mass": lambda *_: float("nan")}}  # fmt: skip
    found = {f.title.split(", ")[1]: f for f in question_findings(tidy(made({"x": own, **ends}))) if "floor" in f.title}
    assert set(found) == {"pure twin on pure", "spur twin on spur", "spur twin on pure"}
    for name, value in (("pure twin on pure", 0.2), ("spur twin on pure", 0.8)):
        [place] = [row[-1] for row in found[name].rows if row[1] == "x"]
        assert place == pytest.approx(value, abs=0.01)
        assert found[name].sentences == ("No own_mass of silent.",)


def test_means_by_sample_are_of_the_pairs_that_both_have() -> None:
    def some(metric: str, twin: str, mode: str, i: int) -> float:
        return float("nan") if twin == "pure" and i == 0 else 1.0 if i == 0 else 0.5 if twin == "pure" else 0.7

    rows = tidy(made({"x": {"relation_mass": some}}))
    [found] = [f for f in question_findings(rows) if f.title.startswith("Distractors, anchors")]
    cells = dict(zip(found.columns, found.rows[0], strict=True))
    assert (cells["score"], cells["samples"]) == ("relation_mass", "30/36")
    assert cells["spur twin"] - cells["pure twin"] == pytest.approx(cells["change"]) == pytest.approx(0.2)


def test_a_run_without_twins_still_has_accuracies() -> None:
    frame = made({"x": {"mass": noise()}}, n=2)
    frame["model"] = frame["model"].replace({"t.pure": "mine", "t.spur": "other"})
    frame["model.mechanism"] = None
    assert {f.section for f in findings(frame)} == {"The models"}


def test_an_empty_run_concludes_nothing() -> None:
    assert findings(made({"x": {"mass": noise()}}, n=1).iloc[:0]) == []


def test_findings_can_be_written_and_read() -> None:
    import json

    from karat.kernel.finding import Finding

    frame = made({"modality/emap": {"block_interaction": rising}, "x": {m: noise() for m in ("mass", "iou")}}, n=3)
    for found in findings(frame):
        back = Finding.read(json.loads(json.dumps(found.plain(), allow_nan=True)))
        assert len(back.rows) == len(found.rows)
        assert all(len(row) == len(found.columns) for row in found.rows)
        for row in found.rows:  # plain values only: a page and a JSON file must be able to hold them
            assert all(v is None or type(v) in (str, int, float, bool) for v in row), row
    assert np.isfinite(frame[frame["explainer"] == "x"]["value"]).all()
