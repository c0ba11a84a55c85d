"""Facts of parts, shares of the ceiling, orders and seeds, from rows made by hand."""

import numpy as np
import pytest
from pixel_run import CAM, DOWN, GRADIENT, RISE, UP, HandMade

from karat.protocols.common.published import load
from karat.protocols.pixel import Deletion
from karat.protocols.pixel.analysis import Explained, Network, Scored, orders, over_seeds, places, ratio_of_means
from karat.protocols.pixel.findings import PIXEL, rankings
from karat.protocols.pixel.published_tables import FIGURES, _scores


def test_protocols_that_order_alike_have_tau_one_and_opposites_minus_one():
    [found] = Deletion().findings(HandMade({"sd": UP, "ids": UP, "sds": DOWN}))
    assert [row[:4] for row in found.rows] == [(GRADIENT, 3, 3, 1), (CAM, 2, 2, 2), (RISE, 1, 1, 3)]
    slopes, taus = found.figures
    assert {series.name: series.y for series in slopes.series}["Grad-CAM"] == (2, 2, 2)
    np.testing.assert_allclose([series.y for series in taus.series], [[1, 1, -1], [1, 1, -1], [-1, -1, 1]])
    assert "Kendall's tau of SD (objects) with SDS: -1.000 (-1.000 to -1.000)." in found.sentences
    assert f"First under SDS is {GRADIENT}, place 3 of 3 by SD (objects)." in found.sentences


def test_controls_and_explainers_without_a_score_take_no_place():
    scores = {"sd": {**UP, "control/random": 0.9, "gradient/deeplift": 0.5}, "ids": UP}
    [found] = Deletion().findings(HandMade(scores))
    assert {row[0] for row in found.rows} == set(UP)
    assert Deletion().findings(HandMade({"sd": UP})) == []  # one order alone agrees with nothing
    made = orders(Scored(HandMade(scores)), "m", ("sd", "ids"))
    assert [one.label for one in made.explainers] == [GRADIENT, CAM, RISE]


def test_ties_share_the_better_place():
    assert places([0.5, 0.7, 0.5, 0.1]).tolist() == [2, 1, 2, 4]


def test_sds_is_idsds_by_a_fact_of_the_model_and_not_by_its_name():
    scores = {"weighted_iou": UP, "sds": DOWN}
    for label, deleted, title in (("plain", 0.5, "IDSDS"), ("cnn_deleted", 0.0, "SDS")):
        scored = Scored(HandMade(scores, {label: {"deleted": deleted}}))
        [found] = rankings(scored, scored.models, PIXEL)
        assert found.columns == ("explainer", "place: pixel (WIoU)", f"place: {title}", "pixel (WIoU)", title)


@pytest.mark.parametrize(
    ("network", "column"), [("ResNet", "ResNet"), ("VGG", "ResNet"), ("ViT", "ViT"), ("SwinT", "ViT"), (None, None)]
)
def test_a_model_goes_beside_the_papers_kind_by_its_facts(network, column):
    assert Network.of("swin-vit-vgg", {"network": network}).column == column


def test_two_configurations_of_one_method_have_a_row_each():
    facts = {
        "ig": {"name": "gradient/integrated_gradients", "is_control": False, "baseline": "zero", "steps": 16},
        "ig50": {"name": "gradient/integrated_gradients", "is_control": False, "baseline": "zero", "steps": 50},
        "igu": {"name": "gradient/integrated_gradients", "is_control": False, "baseline": "uniform"},
        "theirs": {"name": "elsewhere/captum", "is_control": False, "method": "GuidedBackprop"},
        "mine": {"name": "mine/brightness", "is_control": False},
    }
    known = {label: Explained.of(label, one) for label, one in facts.items()}
    assert [(one.paper, one.variant, one.short) for one in known.values()] == [
        ("IG", None, "IG"), ("IG", None, "IG"), ("IG", "uniform", "IG (uniform)"), ("GBP", "captum", "GBP (captum)"),
        (None, None, "mine"),
    ]  # fmt: skip
    scores = {name: {"ig": 0.1, "ig50": 0.3, "igu": 0.2} for name in ("weighted_iou", "hit", "deletion", "addition",
                                                                      "dominant")}  # fmt: skip
    scored = Scored(HandMade(scores, {"m": {"network": "ViT"}}, facts))
    four = _scores(scored, load("pixel").tables["Table 4"], FIGURES["Table 4"])
    ig = [row for row in four.rows if row[1] == "IG"]
    assert [(row[2], row[3], round(row[4])) for row in ig] == [
        ("ig", 48.91, 10),
        ("ig50", 48.91, 30),
        ("igu", 48.91, 20),
    ]


def test_a_share_of_the_ceiling_is_a_ratio_of_means_and_is_not_cut():
    scores = {"weighted_iou": {**UP, "control/planted_shapley": 1.0}, "ceiling": dict.fromkeys(UP, 0.5)}
    scored = Scored(HandMade(scores))
    assert scored.ceiling("m").value == pytest.approx(0.5, abs=1e-3)
    assert scored.relative("m", RISE).value == pytest.approx(0.6, abs=5e-3)
    assert scored.relative("m", "control/planted_shapley").value == pytest.approx(2.0, abs=5e-3)
    assert np.isnan(Scored(HandMade({"weighted_iou": UP})).relative("m", RISE).value)  # no ceiling was asked for
    few = ratio_of_means(np.array([[1.0, 4.0]] * 3), np.random.default_rng(0))
    assert (few.value, np.isnan(few.low)) == (0.25, True)  # too few images for an interval


def test_seeds_are_counted_by_facts():
    facts = {f"m{k}": {"images": "leaves", "network": "ResNet", "seed": k, "shortcut_seed": k} for k in range(3)}
    run = HandMade({"weighted_iou": UP, "hit": UP}, facts)
    turned = (run.frame["model"] == "m2") & (run.frame["metric"] == "weighted_iou") & (run.frame["explainer"] == CAM)
    run.frame.loc[turned, "value"] = 0.9
    by_label = {row.explainer: row for row in over_seeds(Scored(run))}
    assert (by_label[RISE].first, by_label[CAM].first, by_label[GRADIENT].first) == (2, 1, 0)
    assert by_label[CAM].models == 3
    assert (by_label[CAM].least, by_label[CAM].largest) == (pytest.approx(0.2, abs=2e-3), pytest.approx(0.9))
    assert by_label[CAM].decided == 30
    assert over_seeds(Scored(HandMade({"weighted_iou": UP}))) == []  # one model has no seeds to compare


def test_the_interval_of_a_share_holds_it():
    """Shares of one fifth on average, of ceilings that vary; 93 % less two standard errors of 200 simulations."""
    hits = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        ceiling = rng.beta(12, 3, 20)
        share = ratio_of_means(np.column_stack([ceiling * rng.beta(1, 4, 20), ceiling]), rng)
        hits += share.low <= 0.2 <= share.high
    assert hits / 200 >= 0.93 - 2 * np.sqrt(0.93 * 0.07 / 200)
