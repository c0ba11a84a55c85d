"""Claims of paper 004 come out either way, over every rival and every seed."""

import numpy as np
import pytest
from pixel_run import CAM, GRADIENT, RISE, HandMade

from karat.protocols.pixel.analysis import Scored
from karat.protocols.pixel.claims import Judged, Kind, _against_all, _precise, together
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
