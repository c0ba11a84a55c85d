"""Verdicts follow families of tests: all on the claim's side, one clearly against it after correction, or neither."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t

from karat.protocols.common.rows import frame_of
from karat.protocols.compass import claims
from karat.protocols.compass.analysis import Order, Reading
from karat.protocols.compass.comparisons import Gain, Generation
from karat.protocols.compass.diagnostics import Centre, Stable, Varied
from karat.protocols.compass.interventions import Partitioned, Probe, Swap
from karat.protocols.compass.variations import VARIATIONS
from karat.statistics import Estimate

NONE = Estimate(np.nan, np.nan, np.nan, np.nan, 0, 0)


def estimate(value: float, se: float = 1.0, n: int = 100) -> Estimate:
    return Estimate(value, se, value - 2 * se, value + 2 * se, n, 0)


def reading(explainer: str, dae: float = 60.0, gap: float = 40.0, se: float = 2.0) -> Reading:
    return Reading("m", "d", explainer, explainer, explainer.startswith("control/"), estimate(dae, se), 0.5, 60.0, NONE,
                   90.0, estimate(1.0), estimate(0.1, 0.1), 90.0, NONE, 0.5, estimate(gap, se), 100, 0)  # fmt: skip


@pytest.mark.parametrize(("gap", "verdict"), [(40.0, "agree"), (31.0, "cannot tell"), (10.0, "disagree")])
def test_the_gap_to_the_box(gap: float, verdict: str) -> None:
    claim = next(iter(claims.layout_claims(frame_of([reading("a", gap=45), reading("b", gap=gap)], Reading))))
    assert claim.verdict == verdict
    assert "of 2; nearest to the box" in claim.because


def test_one_row_of_many_that_is_a_little_off_refutes_nothing() -> None:
    """Fifty rows for it and one at p = .02 against it: by chance alone one of 51 is."""
    rows = [reading(f"a{k}", gap=50) for k in range(50)] + [reading("b", gap=30 - 2.06 * 2)]
    claim = next(iter(claims.layout_claims(frame_of(rows, Reading))))
    assert claim.verdict == "cannot tell"
    assert claim.because.startswith("50 for, 0 against, 1 open of 51")
    rows[-1] = reading("b", gap=10)
    claim = next(iter(claims.layout_claims(frame_of(rows, Reading))))
    assert claim.verdict == "disagree"
    assert claim.because.startswith("50 for, 1 against, 0 open of 51")


@pytest.mark.parametrize(
    ("dae", "se", "verdict"), [(91.0, 2.0, "agree"), (80.0, 15.0, "cannot tell"), (50.0, 2.5, "disagree")]
)
def test_noise_at_chance(dae: float, se: float, verdict: str) -> None:
    table = frame_of([reading("control/random", dae=dae, se=se)], Reading)
    assert [claim.verdict for claim in claims.layout_claims(table)] == ["cannot tell", verdict]


def order(model: str, lead: float, se: float = 1.0) -> Order:
    low, high = lead - 2 * se, lead + 2 * se
    p = float(2 * t.sf(abs(lead) / se, 99))
    return Order(model, "d", "attention/grad_rollout", "b", Estimate(lead, se, low, high, 100, 0, 0.95, p))


@pytest.mark.parametrize(
    ("leads", "best", "depends"),
    [
        ({"m": 20.0, "k": -20.0}, "disagree", "agree"),  # ahead on one model, clearly behind on the other
        ({"m": 20.0, "k": 20.0}, "agree", "disagree"),  # clearly ahead everywhere: it does not depend
        ({"m": 1.0, "k": -1.0}, "cannot tell", "cannot tell"),
        ({"m": 20.0}, "agree", "cannot tell"),
    ],
)
def test_who_points_best(leads: dict[str, float], best: str, depends: str) -> None:
    table = frame_of([order(model, lead) for model, lead in leads.items()], Order)
    assert [claim.verdict for claim in claims.order_claims(table, {"attention/grad_rollout"})] == [best, depends]
    assert claims.order_claims(table, set()).__next__().verdict == "cannot tell"


@pytest.mark.parametrize(("change", "verdict"), [(8.0, "agree"), (0.5, "cannot tell"), (-8.0, "disagree")])
def test_better_models(change: float, verdict: str) -> None:
    rows = [Generation("d", "small", "large", 0.5, 0.7, estimate(change))]
    [claim] = claims.accuracy_claims(frame_of(rows, Generation))
    assert claim.verdict == verdict


def gain(objective: str, accuracy: float, dae: float, se: float = 0.5, seeds: int = 3) -> Gain:
    changes = Estimate(accuracy, 0.01, accuracy, accuracy, seeds, 0), Estimate(dae, se, dae, dae, seeds, 0)
    name = "attention/grad_rollout"
    return Gain("d", "base", objective, name, name, 0.7, 60.0, 0.5, *changes, NONE, seeds, 100)


@pytest.mark.parametrize(
    ("dae", "accuracy", "verdicts"),
    [
        ((0.0, 10.0, 5.0), 0.2, ("agree", "agree")),
        ((0.0, -40.0, 5.0), -0.2, ("disagree", "disagree")),  # one gains direction, none gains accuracy
        ((0.0, -1.0, 5.0), 0.005, ("cannot tell", "cannot tell")),
    ],
)
def test_training(dae: tuple[float, ...], accuracy: float, verdicts: tuple[str, str]) -> None:
    objectives = ("direction", "localisation", "contrastive")
    rows = [gain(name, accuracy, change) for name, change in zip(objectives, dae, strict=True)]
    rows += [gain("none", 0.0, 0.0), gain("answers", 0.3, -90.0)]  # neither is an objective on the evidence
    judged = list(claims.training_claims(frame_of(rows, Gain)))
    assert tuple(claim.verdict for claim in judged) == verdicts
    assert "over 3 seeds" in judged[0].because


@pytest.mark.parametrize(
    ("pta", "se", "verdict"), [(0.25, 0.02, "agree"), (0.3, 0.05, "cannot tell"), (0.45, 0.05, "disagree")]
)
def test_probes(pta: float, se: float, verdict: str) -> None:
    table = frame_of([Probe("m", "d", "a", False, estimate(pta, se), NONE, 16)], Probe)
    nothing = frame_of([], Swap), frame_of([], Partitioned)
    assert next(iter(claims.intervention_claims(table, *nothing))).verdict == verdict


@pytest.mark.parametrize(
    ("shift", "lead", "verdicts"),
    [(60.0, 0.2, ["agree", "agree"]), (22.0, 0.01, ["cannot tell"] * 2), (2.0, -0.2, ["disagree"] * 2)],
)
def test_swaps_and_partitions(shift: float, lead: float, verdicts: list[str]) -> None:
    swaps = frame_of([Swap("m", "d", "a", False, 90.0, 40.0, 80.0, estimate(shift), 16)], Swap)
    part = Partitioned("m", "d", "a", False, 0.1, 0.1 + lead, 0.5, 0.5, 0.5, estimate(lead, 0.02), 128)
    judged = list(claims.intervention_claims(frame_of([], Probe), swaps, frame_of([part], Partitioned)))
    assert [claim.verdict for claim in judged] == ["cannot tell", *verdicts]


@pytest.mark.parametrize(("change", "verdict"), [(-1.0, "agree"), (1.5, "cannot tell"), (9.0, "disagree")])
def test_centres(change: float, verdict: str) -> None:
    se = 3.0 if change == 1.5 else 1.0
    rows = [Centre("m", "d", "a", False, name, 50.0, estimate(change, se), 100)
            for name in ("random", "target (to the reference)", "target (as asked)")]  # fmt: skip
    assert next(iter(claims.centre_claims(frame_of(rows, Centre)))).verdict == verdict


def varied(changes: dict[str, float]) -> pd.DataFrame:
    return frame_of(
        [Varied("m", "d", "a", "a", False, how.kind, how.amount, how.name, 50.0, 0.5, 1.0,
                estimate(changes.get(how.name, 0.0), 0.3), 100) for how in VARIATIONS], Varied,
    )  # fmt: skip


def test_other_readings() -> None:
    table = varied({"rotation 90": 9.0, "width 0.3": 5.0, "width 2": 2.0, "sectors 4": -5.0, "box noise 50": 3.5})
    assert {claim.text: claim.verdict for claim in claims.reading_claims(table)} == {
        "Turning the maps by a quarter costs direction": "agree", "A width of 0.3 is too narrow": "agree",
        "Widths of 0.6 to 2.0 read alike": "agree", "Four sectors are too coarse": "disagree",
        "Boxes that are 50 pixels off hardly matter": "cannot tell",
    }  # fmt: skip
    other = varied({"rotation 90": -9.0, "width 0.3": -5.0, "width 2": 9.0, "sectors 4": 5.0, "box noise 50": 30.0})
    verdicts = [claim.verdict for claim in claims.reading_claims(other)]
    assert verdicts == ["disagree", "disagree", "agree", "disagree", "disagree"]


@pytest.mark.parametrize(
    ("leads", "verdict"), [((9.0, 4.0), "agree"), ((9.0, 0.3), "cannot tell"), ((9.0, -9.0), "disagree")]
)
def test_orders_that_stay(leads: tuple[float, ...], verdict: str) -> None:
    rows: list[Any] = [Stable("explainer", "m", "d", "a", "b", "width", "width 1", estimate(lead)) for lead in leads]
    judged = {claim.text: claim for claim in claims.stability_claims(frame_of(rows, Stable))}
    assert judged["Widths of 0.6 to 2.0 order the explainers alike"].verdict == verdict
    models = judged["Widths of 0.6 to 2.0 order the models alike"]
    assert (models.verdict, models.ours) == ("cannot tell", "the usual reading tells no two models apart")


def test_families_of_true_nulls_are_refuted_one_time_in_twenty() -> None:
    """Every row lies exactly on the bound: whatever their number, a verdict against is an error of 5 %."""
    rng = np.random.default_rng(0)
    wrong = 0
    for _ in range(400):
        values = rng.normal(30, 5, (20, 60))
        sides = [claims.above(Estimate(v.mean(), v.std(ddof=1) / 60**0.5, 0, 0, 60, 0), 30.0) for v in values]
        wrong += claims.Question("", "", "").judged("", sides).verdict == "disagree"
    assert wrong / 400 < 0.05 + 3 * (0.05 * 0.95 / 400) ** 0.5
    assert wrong > 2  # the test has its level, it is not merely silent
