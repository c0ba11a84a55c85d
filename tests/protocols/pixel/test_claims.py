"""Claims of paper 004 come out either way, over every rival and every seed."""

import numpy as np
import pytest
from pixel_run import CAM, GRADIENT, RISE, HandMade

from karat.protocols.common.judge import samples_wanted
from karat.protocols.pixel.analysis import Scored
from karat.protocols.pixel.claims import Judged, Kind, _against_all, _images, _misses, _precise, _same_areas, together
from karat.statistics import Estimate


def gap(value, p):
    return Estimate(value, 0.01, value - 0.02, value + 0.02, 20, 0, p=p)


def test_best_of_all_is_better_than_every_rival():
    """The nearest rival by its mean need not be the one that decides."""
    assert _against_all([gap(0.3, 1e-6), gap(0.1, 1e-3)], 1.0).verdict == "agree"
    assert _against_all([gap(0.3, 1e-6), gap(0.1, 0.4)], 1.0).verdict == "cannot tell"
    assert _against_all([gap(0.3, 1e-6), gap(-0.1, 1e-3)], 1.0).verdict == "disagree"
    assert _against_all([gap(-0.3, 1e-6)], -1.0).verdict == "agree"


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        (["agree"] * 3, "agree"),
        (["agree", "agree", "disagree"], "cannot tell"),  # a seed turns it round
        (["agree", "cannot tell", "agree"], "cannot tell"),
        (["disagree", "disagree", "cannot tell"], "disagree"),
        (["disagree", "cannot tell", "cannot tell"], "cannot tell"),
        (["disagree"], "disagree"),
    ],
)
def test_a_kind_of_model_is_judged_by_all_its_seeds(verdicts, expected):
    assert together(verdicts) == expected
    kind = Kind("three", (), None, None)
    judged = {f"m{k}": Judged(one, f"{k}", "because") for k, one in enumerate(verdicts)}
    [claim] = kind.claim("it holds", "somewhere", "-", judged)
    assert (claim.text, claim.verdict) == ("three: it holds", expected)
    assert list(kind.claim("it holds", "somewhere", "-", {"m": None})) == []


@pytest.mark.parametrize(("best", "verdict"), [(0.02, "agree"), (0.3, "disagree"), (0.1, "cannot tell")])
def test_well_is_a_fifth_of_the_ceiling(best, verdict):
    """Against a ceiling of one half: 0.02 is a share of .04, 0.3 of .6, 0.1 is the bar itself."""
    scores = {"weighted_iou": {GRADIENT: 0.01, CAM: 0.01, RISE: best}, "ceiling": dict.fromkeys((GRADIENT, CAM), 0.5)}
    run = HandMade(scores)
    overlap = (run.frame["metric"] == "weighted_iou") & (run.frame["explainer"] == RISE)
    run.frame.loc[overlap, "value"] = best + np.linspace(-0.005, 0.005, 10)
    judged = _precise(Scored(run), "m")
    assert judged.verdict == verdict
    assert "of the ceiling" in judged.ours


def test_what_is_not_told_says_how_many_images_would_tell():
    kind = Kind("three", (), None, None)
    judged = {
        "a": Judged("cannot tell", "", "because", "about 60 images"),
        "b": Judged("agree", "", "because", "about 9 images"),
    }
    [claim] = kind.claim("it holds", "somewhere", "-", judged)
    assert claim.because.endswith("; needs a: about 60 images")
    [told] = kind.claim("it holds", "somewhere", "-", {"b": judged["b"]})
    assert "needs" not in told.because


def test_a_second_configuration_of_a_method_is_no_second_row_of_the_paper():
    """Two of three rows of the paper miss; captum's versions of two that hit must not turn the majority round."""
    captum = {f"elsewhere/captum(method={name})": name for name in ("GuidedBackprop", "Deconvolution")}
    hits = {GRADIENT: 0.01, CAM: 0.01, RISE: 0.99, **dict.fromkeys(captum, 0.99)}
    facts = {label: {"name": "elsewhere/captum", "method": name, "is_control": False} for label, name in captum.items()}
    scored = Scored(HandMade({"weighted_iou": dict.fromkeys(hits, 0.1), "hit": hits}, explainers=facts))
    judged = _misses(scored, "m")
    assert judged.verdict == "agree"
    assert judged.ours == "2 of 3 below half for sure, 1 above"
    assert len(scored.methods("m", "weighted_iou")) == 5


@pytest.mark.parametrize(("shift", "verdict"), [(0.0, "agree"), (1e-5, "cannot tell"), (0.1, "disagree")])
def test_areas_are_the_same_to_three_decimals_or_not(shift, verdict):
    """Areas that differ, by less than is printed, are neither one method nor two."""
    labels = ("gradient/deeplift", "gradient/input_x_gradient")
    run = HandMade({metric: dict.fromkeys(labels, 0.4) for metric in ("deletion", "addition")})
    run.frame["value"] = 0.4 + shift * (run.frame["explainer"] == labels[1])
    judged = _same_areas(Scored(run), "m", ("DeepLift", "IxG"), None, "everywhere")
    assert judged.verdict == verdict
    assert judged.ours.startswith("Del 0.400 and 0.")


@pytest.mark.parametrize(
    ("value", "needs"), [(0.05, "about 159 images"), (0.0, "more images than can be said"), (1e-3, "more than 10,000")]
)
def test_images_wanted(value, needs):
    gap = Estimate(value, 0.05, -0.05, 0.15, 20, 0)
    assert _images(samples_wanted(gap)).startswith(needs)
