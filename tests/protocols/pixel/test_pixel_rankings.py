"""Places under several protocols, and what of the paper a model goes beside, from rows made by hand."""

import numpy as np
import pandas as pd
import pytest

from karat.protocols.pixel import Deletion
from karat.protocols.pixel.frames import Scored, paper_name
from karat.protocols.pixel.paper import _against_all
from karat.protocols.pixel.rankings import PIXEL, means_of, places, rankings, titled
from karat.results.details import Details
from karat.statistics import Estimate


class HandMade:
    """As much of a run as findings read: rows, and the datasets of its spec."""

    def __init__(self, scores, model="m", datasets=("shortcut",), deleted=0.0):
        rng = np.random.default_rng(0)
        rows = [
            {"model": model, "dataset": "d", "sample": f"s{k}", "explainer": explainer, "metric": metric,
             "value": value + rng.normal(0, 1e-3)}
            for metric, means in scores.items() for explainer, value in means.items() for k in range(8)
        ]  # fmt: skip
        self.frame, self.spec = pd.DataFrame(rows), {"datasets": list(datasets)}
        self.manifest = {"parts": {"model": {model: {"deleted": deleted}}}}

    def scores(self):
        return self.frame

    def details(self, metric):
        return Details(self.frame.iloc[:0])


GRADIENT, CAM, RISE = "gradient/gradient(channels=max)", "cam/gradcam", "perturbation/rise"
UP = {GRADIENT: 0.1, CAM: 0.2, RISE: 0.3}
DOWN = {GRADIENT: 0.3, CAM: 0.2, RISE: 0.1}


def test_protocols_that_order_alike_have_tau_one_and_opposites_minus_one():
    [found] = Deletion().findings(HandMade({"sd": UP, "ids": UP, "sds": DOWN}))
    assert [row[:4] for row in found.rows] == [(GRADIENT, 3, 3, 1), (CAM, 2, 2, 2), (RISE, 1, 1, 3)]
    slopes, taus = found.figures
    assert {series.name: series.y for series in slopes.series}["Grad-CAM"] == (2, 2, 2)
    np.testing.assert_allclose([series.y for series in taus.series], [[1, 1, -1], [1, 1, -1], [-1, -1, 1]])
    assert "Kendall's tau of SD (objects) with SDS: -1.000 (-1.000 to -1.000)." in found.sentences
    assert "First under SDS is Gradient, place 3 of 3 by SD (objects)." in found.sentences


def test_controls_and_explainers_without_a_score_take_no_place():
    scores = {"sd": {**UP, "control/random": 0.9, "gradient/deeplift": 0.5}, "ids": UP}
    [found] = Deletion().findings(HandMade(scores))
    assert {row[0] for row in found.rows} == set(UP)
    assert "control/random" not in means_of(Scored(HandMade(scores)), "m", "sd")
    assert Deletion().findings(HandMade({"sd": UP})) == []  # one order alone agrees with nothing


def test_ties_share_the_better_place():
    assert places([0.5, 0.7, 0.5, 0.1]).tolist() == [2, 1, 2, 4]


def test_sds_of_a_model_trained_with_deleted_cells_is_idsds():
    scores = {"weighted_iou": UP, "sds": DOWN}
    plain, trained = (Scored(HandMade(scores, deleted=share)) for share in (0.0, 0.5))
    assert titled(plain, "m", PIXEL)["sds"] == "SDS"
    assert titled(trained, "m", PIXEL)["sds"] == "IDSDS"
    [found] = rankings(trained, ["m"], PIXEL)
    assert found.columns == ("explainer", "place: pixel (WIoU)", "place: IDSDS", "pixel (WIoU)", "IDSDS")


@pytest.mark.parametrize(
    ("model", "datasets", "explainers", "column", "network"),
    [
        ("pixelnet.cnn", ["shortcut"], UP, "C10+ResNet", "ResNet"),
        ("mine", [{"name": "shortcut"}], {**UP, "attention/rollout": 0.1}, "C10+ViT", "ViT"),
        ("mine", ["shortcut"], {**UP, "attention/rollout": np.nan}, "C10+ResNet", "ResNet"),
        ("swin-small", [{"name": "shortcut", "preset": "cifar100"}], UP, "C100+ViT", "SwinT"),
        ("pixelnet@imagenet_vgg16", [{"name": "shortcut", "preset": "imagenet"}], UP, "IN+ResNet", "VGG"),
    ],
)
def test_a_model_goes_beside_the_nearest_of_the_papers(model, datasets, explainers, column, network):
    scored = Scored(HandMade({"weighted_iou": explainers}, model, datasets))
    assert (scored.column(model), scored.network(model)) == (column, network)


def test_names_of_the_paper_tell_baselines_apart():
    assert paper_name("gradient/integrated_gradients(steps=16)") == "IG"
    assert paper_name("gradient/integrated_gradients(baseline=uniform)") == "IG (uniform)"
    assert paper_name("mine/brightness") == "mine/brightness"


def gap(value, p):
    return Estimate(value, 0.01, value - 0.02, value + 0.02, 20, 0, p=p)


def test_best_of_all_is_better_than_every_rival():
    """The nearest rival by its mean need not be the one that decides."""
    assert _against_all({"a": gap(0.3, 1e-6), "b": gap(0.1, 1e-3)}, 1.0).verdict == "agree"
    assert _against_all({"a": gap(0.3, 1e-6), "b": gap(0.1, 0.4)}, 1.0).verdict == "cannot tell"
    assert _against_all({"a": gap(0.3, 1e-6), "b": gap(-0.1, 1e-3)}, 1.0).verdict == "disagree"
    assert _against_all({"a": gap(-0.3, 1e-6)}, -1.0).verdict == "agree"
