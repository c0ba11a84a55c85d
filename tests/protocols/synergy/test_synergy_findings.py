"""Findings and claims of whole runs, against sums done by hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from synergy_worlds import spec

from karat.engine.run import run
from karat.kernel.errors import BadInput
from karat.kernel.finding import Finding
from karat.kernel.spec import Spec
from karat.kernel.ties import tie_levels
from karat.protocols.common.published import load
from karat.protocols.paper import paper
from karat.protocols.synergy.analysis import Scored, difference
from karat.protocols.synergy.claims import compare
from karat.protocols.synergy.cost import pairs
from karat.protocols.synergy.findings import findings
from karat.results.run import Run

GOOD, BAD = "toys/finds(skill=0.7)", "toys/finds(skill=-0.7)"


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Two datasets, one model that uses the keys and one that has the answer twice; calibrated."""
    changes = {
        "protocol": {**spec()["protocol"], "calibrate": 1.0, "background": 2, "steps": 6},
        "models": [{"name": "synergy_worlds:SharesRecipe", "rule": rule} for rule in ("keys", "either")],
        "datasets": [
            {"name": "synergy_worlds:White", "n": 12},
            {"name": "synergy_worlds:White", "n": 8, "called": "whiter"},
        ],
        "explainers": [*spec()["explainers"], "control/uniform", {"name": "synergy_worlds:Finds", "part": "image"}],
    }
    return run(Spec.parse(spec(**changes)), tmp_path_factory.mktemp("keys"), workers=0)


@pytest.fixture(scope="module")
def found(keys: Run) -> list[Finding]:
    return keys.findings()


def titled(found: list[Finding], start: str) -> Finding:
    return next(finding for finding in found if finding.title.startswith(start))


def column(finding: Finding, name: str) -> dict[str, object]:
    at = finding.columns.index(name)
    key = finding.columns.index("explainer")
    return {str(row[key]): row[at] for row in finding.rows}


def test_the_verdict_names_the_best_and_its_effect(keys: Run, found: list[Finding]) -> None:
    verdict = found[0]
    scores = keys.scores().query("metric == 'f_syn' and model == 'keys'")
    means = scores.groupby("explainer")["value"].mean()
    for name, value in column(verdict, "mean").items():
        assert value == pytest.approx(means[name])
    effects = column(verdict, "effect")
    for name in (GOOD, BAD):  # balanced: the effect is the difference of means
        assert effects[name] == pytest.approx(means[name] - means["control/random"], abs=1e-9)
    assert effects["control/uniform"] is None  # a reference competes with nobody
    assert verdict.sentences[0].startswith(f"{GOOD} finds the most synergy")
    assert f"Worse than control/random: {BAD}." in verdict.sentences
    assert verdict.section == ""
    assert verdict.figures[0].kind == "intervals"


def test_a_method_without_words_has_no_f_syn_and_stays_out(keys: Run) -> None:
    scores = keys.scores()
    image_only = scores[scores["explainer"].str.contains("part=image")]
    assert set(image_only.query("metric == 'f_syn'")["status"]) == {"not_applicable"}
    assert image_only.query("metric == 'srg_visual'")["value"].notna().all()
    assert not any("part=image" in name for name in Scored.of(keys).explainers)


def test_redundant_models_are_told_and_set_apart(found: list[Finding]) -> None:
    finding = titled(found, "Do image and text bring the answer only together?")
    rows = {row[0]: dict(zip(finding.columns, row, strict=True)) for row in finding.rows}
    assert rows["keys"]["dividend"] == pytest.approx(1.0)
    assert rows["either"]["dividend"] == pytest.approx(-1.0)
    assert [rows["either"][name] for name in ("synergistic", "neither", "redundant")] == [0, 0, 20]
    assert [rows["keys"][name] for name in ("synergistic", "neither", "redundant")] == [20, 0, 0]
    assert finding.sentences[0].startswith("either: on 20 of 20 instances image and text each carry the answer")
    assert any("left out of effects and ranks: 20 of 20 of either" in sentence for sentence in found[0].sentences)


def test_calibration_agrees_with_scipy(keys: Run, found: list[Finding]) -> None:
    finding = titled(found, "Does F_syn stand in")
    table = pairs(Scored.of(keys)).assign(**{m: tie_levels(pairs(Scored.of(keys))[m]) for m in ("f_syn", "sii")})
    first = dict(zip(finding.columns, finding.rows[0], strict=True))
    assert first["rho"] == pytest.approx(stats.spearmanr(table["f_syn"], table["sii"]).statistic)
    assert first["tau"] == pytest.approx(stats.kendalltau(table["f_syn"], table["sii"]).statistic)
    assert first["rho low"] <= first["rho"] <= first["rho high"]
    assert first["fewer passes"] == pytest.approx(first["passes exact"] / first["passes F_syn"])
    assert {(row[0], row[1]) for row in finding.rows} >= {("all", "all"), ("keys", "all"), ("keys", GOOD)}
    assert [figure.kind for figure in finding.figures] == ["points", "bars"]


def test_rank_shifts_hold_the_positions_of_mean_ranks(found: list[Finding]) -> None:
    finding = titled(found, "Do image and text rank")
    assert {row[0] for row in finding.rows} == {"all", "white", "whiter"}
    places = {series.name: series.y for series in finding.figures[0].series}
    assert places[GOOD] == (1, 1, 1)
    assert places[BAD] == (3, 3, 3)
    first = dict(zip(finding.columns, finding.rows[0], strict=True))
    assert first["tau"] == 1.0  # one skill moves both modalities


def test_every_table_and_figure_of_the_paper_is_there(keys: Run, found: list[Finding]) -> None:
    figures = [figure for finding in found for figure in finding.figures]
    titles = " ".join(figure.title for figure in figures)
    for number in ("2", "3", "4", "5, 9", "6", "7", "8", "13"):
        assert f"Fig. {number}" in titles
    assert {"intervals", "slopes", "grid", "points", "bars"} <= {figure.kind for figure in figures}
    tables = titled(found, "Every score on whiter")
    own = keys.scores().query("metric == 'srg_text' and model == 'keys' and dataset == 'whiter'")
    row = next(row for row in tables.rows if row[:2] == ("keys", GOOD))
    cells = dict(zip(tables.columns, row, strict=True))
    assert cells["text SRG"] == pytest.approx(own[own["explainer"] == GOOD]["value"].mean())
    assert (cells["text SRG n"], cells["text SRG of"]) == (8, 8)
    for finding in found:
        Finding.read(finding.plain())
        assert all(len(row) == len(finding.columns) for row in finding.rows)


def test_findings_are_the_same_whenever_they_are_computed(keys: Run, found: list[Finding]) -> None:
    again = [Finding.read(json.loads(json.dumps(finding.plain()))) for finding in findings(keys)]
    assert again == [finding for finding in found if not finding.section.startswith("Beside paper")]


def test_coverage_is_said(tmp_path: Path) -> None:
    models = [{"name": "synergy_worlds:SharesRecipe", "rule": "nan"}]
    made = run(Spec.parse(spec(models=models)), tmp_path, workers=0)
    verdict = made.findings()[0]
    failed = (made.scores().query("metric == 'f_syn'")["status"] == "failure").mean()
    assert 0 < failed < 0.5
    assert any(f"{failed:.1%} of the explanations have no F_syn" in sentence for sentence in verdict.sentences)
    assert column(verdict, "coverage")["control/random"] == pytest.approx(1 - failed)


def test_the_oracle_under_deletion(tmp_path: Path) -> None:
    changes = {
        "protocol": "synergy",
        "models": [{"name": "gridprog.pure", "cell": 16}, {"name": "gridprog.redundant", "cell": 16}],
        "datasets": [{"name": "grid", "cell": 16, "buckets": ["D2_M_F0_d0.3"], "per_bucket": 3}],
        "explainers": ["control/random", "control/oracle", "attention/rollout"],
    }
    made = run(Spec.parse(spec(**changes)), tmp_path, workers=0)
    finding = titled(made.findings(), "An oracle under deletion")
    curves = {row[:3]: row[4:] for row in finding.rows}
    names = {name.split()[0]: name for name, *_ in curves}
    reasons = curves[names["gridprog.pure"], "control/oracle", "image deleted"]
    twice = curves[names["gridprog.redundant"], "control/oracle", "image deleted"]
    assert reasons[0] - min(reasons) > 0.5  # deletion sees what the reasoner needs
    assert twice[0] - min(twice) < 0.1  # and is blind where the text says it too
    assert len(finding.sentences) == 1
    claims = {claim.text: claim for claim in paper("001", made).claims}
    turned = next(claim for text, claim in claims.items() if text.startswith("F_syn rewards finding"))
    assert turned.verdict == "disagree"


def test_claims_are_judged_by_intervals(keys: Run) -> None:
    comparison = paper("001", keys)
    claims = {claim.text: claim for claim in comparison.claims}
    assert claims["Random attribution can have a text SRG far from zero"].verdict == "disagree"
    assert claims["Attention-based explainers beat VLM-native ones"].verdict == "cannot tell"
    assert claims["vlm/tam finds more synergy than random attribution"].verdict == "cannot tell"
    assert [table.title.partition(":")[0] for table in comparison.tables][1:-1] == [f"Table {k}" for k in range(1, 6)]
    assert all(len(row) == len(table.columns) for table in comparison.tables for row in table.rows)


def test_a_contrast_of_one_explainer_with_noise_is_its_effect(keys: Run) -> None:
    fit = Scored.of(keys).effects
    found = difference(fit, [GOOD], ["control/random"])
    assert found.value == pytest.approx(fit.coefficients.loc[GOOD, "coef"])
    assert found.se == pytest.approx(fit.coefficients.loc[GOOD, "se"])
    both = difference(fit, [GOOD, BAD], ["control/random"])
    assert both.value == pytest.approx(fit.coefficients.loc[[GOOD, BAD], "coef"].mean())


def test_a_paper_wants_a_run_of_its_own_protocol(tmp_path: Path) -> None:
    other = run(Spec.parse(spec(protocol="localization", explainers=["control/random"])), tmp_path, workers=0)
    with pytest.raises(BadInput, match="is a run of protocol localization"):
        paper("001", other)


def test_one_explainer_is_compared_with_nobody(tmp_path: Path) -> None:
    made = run(Spec.parse(spec(explainers=["control/random"])), tmp_path, workers=0)
    assert "How the scores are spread" in [finding.title for finding in made.findings()]
    assert compare(made).claims == ()


def test_published_numbers_agree_with_each_other() -> None:
    """Slips of the pen show: effects are differences of means, means of tables 3-5 make up table 1."""
    tables = load("synergy").tables
    one = {row[0]: dict(zip(tables["Table 1"].columns, row, strict=True)) for row in tables["Table 1"].rows}
    two = {row[0]: dict(zip(tables["Table 2"].columns, row, strict=True)) for row in tables["Table 2"].rows}
    for row in one.values():
        assert row["effect"] == pytest.approx(row["overall"] - one["control/random"]["overall"], abs=0.0011)
    for number, dataset in (("Table 3", "RePOPE"), ("Table 4", "MMStar"), ("Table 5", "CVBench")):
        table = tables[number]
        synergy = [k for k, name in enumerate(table.columns) if name.endswith(" F_syn")]
        assert len(synergy) == 3
        for row in table.rows:
            assert np.mean([row[k] for k in synergy]) == pytest.approx(one[row[0]][dataset], abs=0.0021)
            if row[0] in two:
                gap = one[row[0]][dataset] - one["control/random"][dataset]
                assert two[row[0]][f"{dataset} effect"] == pytest.approx(gap, abs=0.0021)


def test_explainers_that_all_score_the_same_are_not_ranked(tmp_path: Path) -> None:
    """In a product of shares every order scores alike: no variance is left for a mixed model."""
    models = [{"name": "synergy_worlds:SharesRecipe", "rule": "product"}]
    made = run(Spec.parse(spec(models=models)), tmp_path, workers=0)
    assert made.findings()[0].sentences[0].startswith("No explainer can be set above another")
    assert "How the scores are spread" in [finding.title for finding in made.findings()]
