"""Who is left out: failures counted both ways, and redundant instances told, kept or set apart."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from synergy_worlds import PLAIN, Finds, Shares, White, spec

from karat.engine.plan import plan
from karat.engine.run import run
from karat.kernel.attribution import Attribution
from karat.kernel.claim import Claim
from karat.kernel.row import Failure, NotApplicable
from karat.kernel.spec import Spec
from karat.metrics import srg, synergy
from karat.probe.session import Session
from karat.protocols.synergy import Synergy
from karat.protocols.synergy.analysis import Scored, coverage, dividends, redundancy
from karat.protocols.synergy.claims import both_ways, compare
from karat.protocols.synergy.findings import findings
from karat.protocols.synergy.protocol import NOISE_ORDERS
from karat.results.run import Run

CHOOSY = "toys/finds(skill=0.0, fails=0.6)"


@pytest.fixture(scope="module")
def choosy(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Pure noise that gives up where it is unlucky, beside noise that does not."""
    changes = {
        "datasets": [{"name": "synergy_worlds:White", "n": 200}],
        "explainers": ["control/random", {"name": "synergy_worlds:Finds", "skill": 0.0, "fails": 0.6}],
    }
    return run(Spec.parse(spec(**changes)), tmp_path_factory.mktemp("choosy"), workers=0)


def test_a_failure_keeps_what_noise_scores_on_its_sample() -> None:
    """Slow twin: sixteen orders, one after the other, by the metrics themselves."""
    session = Session(Shares("keys"), White().load(0, 2))
    [empty, full] = Finds(0.5)(session)
    scores = PLAIN.score(session, [replace(empty, visual=np.zeros((2, 10))), full])
    assert isinstance(scores["f_syn"][0], Failure)
    game, rng = PLAIN._game(session, 0), session.rng(0, "synergy/noise")
    orders = [(rng.permutation(10), rng.permutation(10)) for _ in range(NOISE_ORDERS)]
    by_hand = np.mean([synergy(game, *order).value for order in orders])
    assert scores["f_syn"].details["noise"][0] == pytest.approx(by_hand, abs=1e-12)
    by_hand = np.mean([srg(game, order[0]) for order in orders])
    assert scores["srg_visual"].details["noise"][0] == pytest.approx(by_hand, abs=1e-12)
    assert np.isnan(scores["f_syn"].details["noise"][1])
    assert "noise" not in scores["srg_text"].details  # its words are there


def test_every_explainer_that_fails_on_a_sample_shares_its_noise() -> None:
    session = Session(Shares("keys"), White().load(0, 1))
    empty = [Attribution(np.zeros((2, 5)), np.ones(10))]
    first = PLAIN.score(session, empty)
    made = session.cost.passes.made
    again = PLAIN.score(session, [Attribution(np.full((2, 5), np.nan), np.ones(10))])
    assert session.cost.passes.made == made
    assert first["f_syn"].details["noise"][0] == again["f_syn"].details["noise"][0]


def test_what_a_method_does_not_define_is_never_filled_in() -> None:
    session = Session(Shares("keys"), White().load(0, 1))
    scores = PLAIN.score(session, [Attribution(np.zeros((2, 5)))])  # no words by definition, and an empty map
    assert isinstance(scores["f_syn"][0], NotApplicable)
    assert "noise" not in scores["f_syn"].details
    assert isinstance(scores["srg_visual"][0], Failure)


def test_nobody_gains_from_failing(choosy: Run) -> None:
    """Left out, its unlucky samples make noise look better than noise; counted as noise, it is what it is."""
    scored = Scored.of(choosy)
    [one] = coverage(scored)
    assert one.explainer == CHOOSY
    assert 100 < one.failed < 180
    assert one.left_out.low > 0
    assert one.as_noise.low < one.left_out.low
    assert one.as_noise.value == pytest.approx(one.left_out.value * (1 - one.failed / one.explanations), abs=0.02)
    filled = scored.with_failures_as_noise()
    failed = scored.rows("f_syn").query("status == 'failure'")
    assert filled.rows("f_syn").loc[failed.index, "value"].tolist() == failed["noise"].tolist()
    assert failed["noise"].notna().all()


def test_failures_are_told_and_a_verdict_that_hangs_on_them_is_none(choosy: Run) -> None:
    finding = next(f for f in findings(choosy) if f.title == "Do failed explanations decide who is better?")
    row = dict(zip(finding.columns, finding.rows[0], strict=True))
    assert (row["explainer"], row["explanations"]) == (CHOOSY, 200)
    assert row["failed"] == (choosy.scores().query("metric == 'f_syn'")["status"] == "failure").sum()


CLAIM = Claim("It is so", "Table 1", "0.1", "0.1 (0.0 to 0.2)", "agree")


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [
        ("agree", "agree", "agree"),
        ("disagree", "disagree", "disagree"),
        ("agree", "cannot tell", "cannot tell"),
        ("disagree", "agree", "cannot tell"),
    ],
)
def test_claims_stand_where_both_ways_of_counting_agree(first: Any, second: Any, verdict: str) -> None:
    one = replace(CLAIM, verdict=first)
    merged = both_ways(one, replace(CLAIM, verdict=second, ours="0.0 (-0.1 to 0.1)"))
    assert merged.verdict == verdict
    assert merged.ours == "0.1 (0.0 to 0.2); failures as noise: 0.0 (-0.1 to 0.1)"
    assert both_ways(one, one) == one


# --- redundancy ---


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One model that reasons, one that has the answer twice on every other sample, one that hardly moves."""
    changes = {
        "models": [{"name": "synergy_worlds:SharesRecipe", "rule": rule} for rule in ("keys", "sometimes", "faint")],
        "datasets": [{"name": "synergy_worlds:White", "n": 16}],
    }
    return run(Spec.parse(spec(**changes)), tmp_path_factory.mktemp("mixed"), workers=0)


def test_instances_are_set_apart_and_not_models(mixed: Run) -> None:
    split = {one.model: one for one in redundancy(Scored.of(mixed))}
    counts = {model: (one.synergistic, one.neither, one.redundant) for model, one in split.items()}
    assert counts == {"keys": (16, 0, 0), "sometimes": (8, 0, 8), "faint": (0, 16, 0)}
    ranked = Scored.of(mixed).rows("f_syn").drop_duplicates(["model", "sample"])["model"].value_counts()
    assert ranked.to_dict() == {"keys": 16, "faint": 16, "sometimes": 8}


def test_the_margin_and_the_option_decide_who_is_apart(mixed: Run) -> None:
    blocks = {
        options: len(Scored.of(mixed, *options).wide("f_syn"))
        for options in (("apart", 0.05), ("keep", 0.05), ("apart", 0.0), ("apart", 1.5))
    }
    assert list(blocks.values()) == [40, 48, 24, 48]


@pytest.mark.parametrize(("option", "fate"), [("apart", "left out of"), ("keep", "kept in")])
def test_redundant_instances_are_always_told(mixed: Run, option: Any, fate: str) -> None:
    verdict = findings(mixed, option)[0]
    [sentence] = [s for s in verdict.sentences if s.startswith("Redundant instances")]
    assert f"{fate} effects and ranks: 8 of 16 of sometimes" in sentence
    assert "dividend below -0.05" in sentence


def test_where_all_is_redundant_nothing_is_set_apart(tmp_path: Path) -> None:
    models = [{"name": "synergy_worlds:SharesRecipe", "rule": "either"}]
    made = run(Spec.parse(spec(models=models)), tmp_path, workers=0)
    assert not Scored.of(made).frame["apart"].any()
    assert (dividends(made)["dividend"] < -0.9).all()


def test_what_is_concluded_does_not_change_the_cells(tmp_path: Path) -> None:
    plain, kept = (Spec.parse(spec(protocol={**spec()["protocol"], **more})) for more in ({}, {"redundant": "keep"}))
    assert [cell.id for cell in plan(plain).cells] == [cell.id for cell in plan(kept).cells]
    other = Spec.parse(spec(protocol={**spec()["protocol"], "steps": 5}))
    assert {cell.id for cell in plan(plain).cells}.isdisjoint(cell.id for cell in plan(other).cells)
    assert Synergy().redundant == "apart"


def test_the_paper_is_told_of_redundant_instances(mixed: Run) -> None:
    titles = [table.title for table in compare(mixed).tables]
    assert "Who is left out of effects and ranks" in titles
