"""The paper's tables, figures and claims, from a small run of a shipped classifier."""

import numpy as np
import pandas as pd
import pytest

from karat.engine.resolve import resolve
from karat.engine.run import run as carry_out
from karat.kernel.spec import Spec
from karat.protocols.common.published import load
from karat.protocols.paper import paper
from karat.protocols.pixel.analysis import TRUTH, Scored
from karat.protocols.pixel.gallery import MARK
from karat.statistics import proportion

EFFORT = {"budget": 160, "trials": 2, "error": 0.1}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    spec = {
        "protocol": {"name": "pixel", "effort": EFFORT},
        "models": ["pixelnet.cnn"],
        "datasets": [{"name": "shortcut", "n": 10}],
        "explainers": [
            "control/random",
            "gradient/gradient",
            "gradient/input_x_gradient",
            "cam/gradcam",
        ],
        "keep_maps": False,
    }
    return carry_out(Spec.parse(spec), tmp_path_factory.mktemp("pixel"), workers=0)


def test_every_table_and_figure_is_there(finished):
    found = [finding for finding in finished.findings() if not finding.section.startswith("Beside paper")]
    sections = [finding.section.partition(":")[0] for finding in found]
    assert sections == [
        "", "Tables 1 and 2", "Table 3 and figure 2", "Table 3 and figure 2", "Table 4", "Table 5", "Figure 3",
    ]  # fmt: skip
    verdict, _, _, curves, board, places, close_ups = found
    assert {row[2] for row in verdict.rows} == {"control/random", "gradient/gradient", "gradient/input_x_gradient",
                                                "cam/gradcam"}  # fmt: skip
    assert [figure.kind for figure in curves.figures] == ["lines", "lines"]
    for figure in curves.figures:
        for series in figure.series:
            assert series.x == tuple(range(26))
    deletion = {series.name: series.y for series in curves.figures[0].series}
    assert deletion["Ours"][0] == 1.0
    assert deletion["Ours"][-1] < 0.2 < deletion["control/random"][-1]
    ours = next(row for row in board.rows if row[1] == "Ours")
    ceiling = Scored(finished).ceiling("pixelnet.cnn").value
    assert 0.5 < ceiling < 1  # so little effort leaves a noisy truth
    assert ours[9] == pytest.approx(1 / ceiling)  # not cut at 1
    np.testing.assert_allclose([ours[3], ours[5], ours[6], ours[8]], 1.0)
    np.testing.assert_allclose([ours[4], ours[7]], proportion([1] * ours[-1]).low)  # eight of eight may be 63 %
    assert len(places.rows) == 3
    assert [figure.title for figure in close_ups.figures] == [
        "Figure 3: Gradient", "Figure 3: IxG", "Figure 3: Grad-CAM", "Figure 3: Ours",
    ]  # fmt: skip
    truth = close_ups.figures[-1]
    values = np.array([series.y for series in truth.series])
    marked = np.array([[row.name[0] == column[0] == MARK for column in row.x] for row in truth.series])
    assert marked.sum() == 25
    np.testing.assert_allclose(values[marked] * max(row[1] for row in close_ups.rows), [r[1] for r in close_ups.rows])
    assert not values[~marked].any()  # pixels outside the patch are worth nothing


def test_the_truth_of_the_shipped_classifier_deletes_fastest(finished):
    """The paper's sanity check on orders that do not know the patch; SD, which does, is a matter of more images."""
    scored = Scored(finished)
    for metric, sign in (("deletion", 1), ("addition", -1)):
        for name in ("control/random", "cam/gradcam", "gradient/input_x_gradient"):
            gap = scored.difference("pixelnet.cnn", metric, name, scored.truth("pixelnet.cnn"))
            assert sign * gap.value > 0
    lines = [line for finding in finished.findings() for line in finding.sentences if "the truth's" in line]
    assert len(lines) == 2


def test_accuracies_are_those_of_the_rows(finished):
    [row] = next(f for f in finished.findings() if f.section.startswith("Tables 1")).rows
    scores = finished.scores()
    once = scores[(scores["metric"] == "dominant") & (scores["explainer"] == "cam/gradcam")]
    assert row[2] == pytest.approx((once["answer"] == once["expected"]).mean())
    assert row[3] == pytest.approx(once["value"].mean())


def test_claims_are_judged_and_tables_set_side_by_side(finished):
    shown = paper("004", finished)
    assert {claim.verdict for claim in shown.claims} <= {"agree", "disagree", "cannot tell"}
    first = shown.claims[0]
    assert (first.where, first.verdict) == ("Table 1", "agree")
    where = {claim.where for claim in shown.claims}
    assert {"Table 1", "Table 3", "section 4.3", "section 4.4", "Table 5"} <= where
    one, three, four, five = shown.tables
    assert [table.title.partition(":")[0] for table in shown.tables] == ["Table 1", "Table 3", "Table 4", "Table 5"]
    assert one.rows[0][:4] == (
        "pixelnet.cnn",
        "ResNet",
        23.72,
        100 * Scored(finished).accuracy("pixelnet.cnn").clean,
    )
    assert [row[0] for row in five.rows] == ["Gradient", "IxG", "Grad-CAM"]
    assert five.columns[:5] == ("method", "pixel published", "pixel ours", "IDS ours", "SDS ours")
    row = next(row for row in three.rows if row[1] == "Gradient")
    assert row[2:4] == ("gradient/gradient", 0.835)
    assert row[4] == pytest.approx(Scored(finished).mean("pixelnet.cnn", "deletion", "gradient/gradient").value)
    assert next(row for row in four.rows if row[1] == "LIME")[2:5] == (None, 4.29, None)
    cam = next(row for row in four.rows if row[2] == "cam/gradcam")
    assert cam[3] == 59.93  # both in per cent
    assert cam[4] == pytest.approx(100 * Scored(finished).mean("pixelnet.cnn", "hit", "cam/gradcam").value)
    assert "DeepLift" in three.about


def test_what_the_paper_printed_is_whole_and_its_twins_are_flagged():
    published = load("pixel")
    assert published.paper == "004"
    three = published.tables["Table 3"]
    rows = {row[0]: row[1:] for row in three.rows}
    assert rows["DeepLift"] == rows["IxG"]
    assert rows["GBP"][:2] == rows["Deconvnet"][:2]
    assert rows["GBP"][4:6] == rows["Deconvnet"][4:6]
    for at in range(0, 12, 2):
        deletion = [row[at] for row in rows.values() if row[at] is not None]
        addition = [row[at + 1] for row in rows.values() if row[at + 1] is not None]
        assert rows["Ours"][at] == min(deletion)
        assert rows["Ours"][at + 1] == max(addition)
    assert published.tables["Table 1"].column("C10 DR")[1] == 56.39


def test_explainers_with_the_same_curves_are_named(finished):
    scored = Scored(finished)
    assert scored.identical("pixelnet.cnn") == []
    rows = scored.rows
    other = rows["explainer"] == "gradient/input_x_gradient"
    copy = rows[rows["explainer"] == "cam/gradcam"].assign(explainer="gradient/input_x_gradient")
    doubled = Scored(finished)
    doubled.__dict__["rows"] = pd.concat([rows[~other], copy], ignore_index=True)
    [twins] = doubled.identical("pixelnet.cnn")
    assert [one.short for one in twins] == ["IxG", "Grad-CAM"]
    floor = {"deletion": 1.0, "addition": 0.0}
    missed = doubled.rows["explainer"].isin([one.label for one in twins]) & doubled.rows["value"].notna()
    value = doubled.rows["metric"].map(floor).fillna(doubled.rows["value"])
    missing = Scored(finished)
    missing.__dict__["rows"] = doubled.rows.assign(value=doubled.rows["value"].where(~missed, value))
    assert missing.identical("pixelnet.cnn") == []  # both miss every patch: that they agree says nothing


def test_the_truth_is_that_of_the_protocol_whatever_its_effort(finished):
    """Named without parameters or not at all, the control has the protocol's effort: it scores 1."""
    scored = Scored(finished)
    assert scored.means("pixelnet.cnn", "weighted_iou")[scored.truth("pixelnet.cnn")] == pytest.approx(1)
    spec = {"protocol": {"name": "pixel", "effort": EFFORT}, "models": ["pixelnet.cnn"], "datasets": ["shortcut"]}
    named = resolve(Spec.parse({**spec, "explainers": [TRUTH, "cam/gradcam"]})).explainers
    unnamed = resolve(Spec.parse({**spec, "explainers": ["cam/gradcam"]})).explainers
    own = resolve(Spec.parse({**spec, "explainers": [{"name": TRUTH, "effort": {"budget": 999}}]})).explainers
    truths = [[one for one in parts if one.card.name == TRUTH] for parts in (named, unnamed, own)]
    assert [[one.effort.budget for one in parts] for parts in truths] == [[160], [160], [999]]
