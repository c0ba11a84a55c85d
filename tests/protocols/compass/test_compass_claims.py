"""Verdicts follow intervals: on the claim's side, across it, or on the other side."""

from __future__ import annotations

import pandas as pd
import pytest

from karat.protocols.compass.battery_claims import centre_claims, intervention_claims, reading_claims
from karat.protocols.compass.claims import layout_claims, order_claims
from karat.protocols.compass.robustness import READINGS


def main(rows: list[tuple[str, str, float, float, float]]) -> pd.DataFrame:
    """(model, explainer, DAE, half its interval, gap to the box); the gap's interval is as wide."""
    made = [
        {"model": model, "dataset": "d", "explainer": explainer, "dae": dae, "dae low": dae - half,
         "dae high": dae + half, "ea": 0.5, "excess dae": 90.0, "gap to box-only": gap, "gap low": gap - half,
         "gap high": gap + half}
        for model, explainer, dae, half, gap in rows
    ]  # fmt: skip
    return pd.DataFrame(made)


@pytest.mark.parametrize(("gap", "verdict"), [(40.0, "agree"), (31.0, "cannot tell"), (10.0, "disagree")])
def test_the_gap_to_the_box(gap: float, verdict: str) -> None:
    claim = next(iter(layout_claims(main([("m", "a", 60, 4, 45), ("m", "b", 60, 4, gap)]))))
    assert claim.verdict == verdict


@pytest.mark.parametrize(
    ("dae", "half", "verdict"), [(91.0, 4.0, "agree"), (80.0, 30.0, "cannot tell"), (50.0, 5.0, "disagree")]
)
def test_noise_at_chance(dae: float, half: float, verdict: str) -> None:
    claims = list(layout_claims(main([("m", "control/random", dae, half, 0)])))
    assert [claim.verdict for claim in claims] == ["cannot tell", verdict]


def test_who_points_best() -> None:
    rollout = "attention/grad_rollout"
    clear = main([("m", rollout, 40, 3, 0), ("m", "b", 60, 3, 0), ("k", "b", 40, 3, 0), ("k", rollout, 60, 3, 0)])
    first, second = order_claims(clear)
    assert (first.verdict, second.verdict) == ("disagree", "agree")  # best for one model, clearly not for the other
    close = main([("m", rollout, 40, 30, 0), ("m", "b", 60, 30, 0)])
    assert [claim.verdict for claim in order_claims(close)] == ["cannot tell", "cannot tell"]
    alone = main([("m", rollout, 40, 3, 0), ("m", "b", 60, 3, 0)])
    assert [claim.verdict for claim in order_claims(alone)] == ["agree", "cannot tell"]


@pytest.mark.parametrize(
    ("low", "high", "verdict"), [(0.2, 0.3, "agree"), (0.2, 0.4, "cannot tell"), (0.3, 0.6, "disagree")]
)
def test_probes(low: float, high: float, verdict: str) -> None:
    table = pd.DataFrame([{"explainer": "a", "pta": (low + high) / 2, "pta low": low, "pta high": high}])
    assert next(iter(intervention_claims({"Target intervention": table}))).verdict == verdict


@pytest.mark.parametrize(("p", "verdict"), [(0.93, "agree"), (0.2, "cannot tell"), (0.001, "disagree")])
def test_centres(p: float, verdict: str) -> None:
    table = pd.DataFrame(
        [{"explainer": "a", "centre": name, "dae": 50.0, "p (true is lower)": p}
         for name in ("random", "target (to the reference)", "target (as asked)")]
    )  # fmt: skip
    assert next(iter(centre_claims({"Reference-centre randomisation": table}))).verdict == verdict


def test_other_settings() -> None:
    changes = {"width 0.3": 5.0, "width 2": 2.0, "sectors 4": -5.0, "box noise 50": 3.5}
    rows = [
        {"explainer": "a", "setting": name, "dae": 50.0, "change": changes.get(name, 0.0),
         "low": changes.get(name, 0.0) - 0.5, "high": changes.get(name, 0.0) + 0.5}
        for name in READINGS[7:]
    ]  # fmt: skip
    found = {claim.text: claim.verdict for claim in reading_claims({"Other settings": pd.DataFrame(rows)})}
    assert found == {
        "A width of 0.3 is too narrow": "agree", "Widths of 0.6 to 2.0 read alike": "agree",
        "Four sectors are too coarse": "disagree", "Boxes that are 50 pixels off hardly matter": "cannot tell",
    }  # fmt: skip
