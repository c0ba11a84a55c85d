"""The mixed model against R's lme4 (data/make_lme4_reference.R), closed forms, and its own rules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from karat.kernel.errors import BadInput
from karat.statistics import MixedModel, mixed_model, mixed_model_by
from karat.statistics.criterion import Criterion
from karat.statistics.design import build_design
from tests.statistics.designs import crossed

DATA = Path(__file__).parent / "data"
REFERENCE = json.loads((DATA / "lme4_reference.json").read_text())["cases"]
RANDOM = ("instance", "model", "dataset")


def fit_case(name: str, method: str) -> tuple[MixedModel, dict[str, Any]]:
    case = REFERENCE[name]
    parts = [part.strip() for part in case["formula"].split("~")[1].split("+")]
    fixed = [part for part in parts if part[0] not in "(1"]
    random = [part[len("(1|") : -1] for part in parts if part[0] == "("]
    fit = mixed_model(pd.read_csv(DATA / case["file"]), "score", fixed, random, reml=method == "reml")
    return fit, case[method]


@pytest.mark.parametrize("method", ["reml", "ml"])
@pytest.mark.parametrize("name", list(REFERENCE))
def test_agrees_with_lme4(name: str, method: str) -> None:
    fit, reference = fit_case(name, method)
    for run in ("default", "tight"):
        assert fit.criterion <= reference[run]["criterion"] + 1e-6
    converged = reference["tight"]
    assert fit.criterion == pytest.approx(converged["criterion"], abs=1e-6)
    coef, se = (np.array(list(converged[key].values())) for key in ("coef", "se"))
    np.testing.assert_allclose(fit.coefficients["coef"], coef, atol=1e-5)
    np.testing.assert_allclose(fit.coefficients["se"], se, rtol=1e-3)
    for column, variance in converged["variance"].items():
        ours = fit.variances.loc[column]
        if ours["boundary"]:
            assert variance < 1e-8 * converged["variance"]["Residual"]
        else:
            assert ours["variance"] == pytest.approx(variance, rel=1e-3)
    for column, effects in converged["random"].items():
        ours = fit.random_effects[column]
        for level, effect in effects.items():
            assert ours[level] == pytest.approx(effect, rel=1e-4, abs=1e-4 * fit.variances.loc[column, "sd"] + 1e-9)
    assert fit.converged
    assert fit.singular == converged["singular"]


def test_reference_holds_every_kind_of_design() -> None:
    assert {"balanced", "unbalanced", "singular", "unbalanced_singular"} <= set(REFERENCE)
    assert REFERENCE["singular"]["reml"]["tight"]["singular"]
    assert not REFERENCE["balanced"]["reml"]["tight"]["singular"]


@pytest.mark.parametrize("seed", range(8))
def test_no_better_optimum_on_a_dense_grid(seed: int) -> None:
    """Small, ragged, noisy designs, where deviances are crooked: nothing on a grid of 3,375 points lies lower."""
    sd = [(0.1, 0.05, 0.05, 0.1), (0.01, 0.0, 0.2, 0.1), (0.0, 0.0, 0.0, 0.1), (1.0, 0.02, 0.0, 0.05)][seed % 4]
    frame = crossed(seed, instances=8, explainers=3, sd=sd, keep=0.6)
    fit = mixed_model(frame, "score", "explainer", RANDOM, reml=seed % 2 == 0)
    design = build_design(frame, "score", ("explainer",), RANDOM, None)
    criterion = Criterion(design.y, design.x, design.names, design.groupings, seed % 2 == 0)
    sizes = [0.0, *np.logspace(-5, 4, 14)]
    lowest = min(criterion.value(np.array([a, b, c])) for a in sizes for b in sizes for c in sizes)
    assert fit.criterion <= lowest + 1e-9
    assert fit.converged


def test_balanced_one_way_has_the_closed_form_of_anova() -> None:
    frame = crossed(11, instances=30, models=1, datasets=1, explainers=4)
    fit = mixed_model(frame, "score", "explainer", "instance")
    table = frame.pivot(index="instance", columns="explainer", values="score").to_numpy()
    n, k = table.shape
    rows, columns = table.mean(axis=1, keepdims=True), table.mean(axis=0, keepdims=True)
    residual = ((table - rows - columns + table.mean()) ** 2).sum() / ((n - 1) * (k - 1))
    between = k * ((rows - table.mean()) ** 2).sum() / (n - 1)
    assert fit.variances.loc["Residual", "variance"] == pytest.approx(residual, rel=1e-6)
    assert fit.variances.loc["instance", "variance"] == pytest.approx((between - residual) / k, rel=1e-6)
    np.testing.assert_allclose(fit.coefficients["coef"][1:], (columns - columns[0, 0])[0, 1:], atol=1e-12)
    assert fit.coefficients.loc["e1", "se"] == pytest.approx(np.sqrt(2 * residual / n), rel=1e-6)


def test_without_random_columns_it_is_least_squares() -> None:
    frame = crossed(12)
    fit = mixed_model(frame, "score", "explainer")
    x = np.column_stack([np.ones(len(frame)), *((frame["explainer"] == e) * 1.0 for e in ("e1", "e2", "e3"))])
    beta, rss = np.linalg.lstsq(x, frame["score"].to_numpy(), rcond=None)[:2]
    sigma2 = rss[0] / (len(frame) - 4)
    np.testing.assert_allclose(fit.coefficients["coef"], beta, atol=1e-12)
    np.testing.assert_allclose(fit.coefficients["se"] ** 2, sigma2 * np.diag(np.linalg.inv(x.T @ x)), rtol=1e-9)
    assert fit.variances.loc["Residual", "variance"] == pytest.approx(sigma2)


def test_wald_columns_follow_from_coef_and_se() -> None:
    table = mixed_model(crossed(13), "score", "explainer", RANDOM, confidence=0.9).coefficients
    np.testing.assert_allclose(table["z"], table["coef"] / table["se"])
    np.testing.assert_allclose(table["p"], 2 * stats.norm.sf(table["z"].abs()))
    np.testing.assert_allclose(table["high"] - table["coef"], 1.6448536 * table["se"], rtol=1e-6)
    np.testing.assert_allclose(table["coef"] - table["low"], table["high"] - table["coef"])


def test_reference_level_is_sorted_categorical_or_named() -> None:
    frame = crossed(14)
    plain = mixed_model(frame, "score", "explainer", RANDOM)
    assert list(plain.coefficients.index) == ["(Intercept)", "e1", "e2", "e3"]
    ordered = pd.Categorical(frame["explainer"], ["unused", "e2", "e0", "e3", "e1"])
    by_category = mixed_model(frame.assign(explainer=ordered), "score", "explainer", RANDOM)
    assert list(by_category.coefficients.index) == ["(Intercept)", "e0", "e3", "e1"]
    named = mixed_model(frame, "score", "explainer", RANDOM, reference="e2")
    assert list(named.coefficients.index) == ["(Intercept)", "e0", "e1", "e3"]
    assert named.criterion == pytest.approx(by_category.criterion, abs=1e-8)
    assert named.coefficients.loc["e1", "coef"] == pytest.approx(by_category.coefficients.loc["e1", "coef"], abs=1e-8)
    with pytest.raises(BadInput, match="no level of 'explainer'"):
        mixed_model(frame, "score", "explainer", RANDOM, reference="e9")


def test_marginal_means_do_not_depend_on_the_reference_and_pairs_match_coefficients() -> None:
    frame = crossed(15, keep=0.7)
    plain = mixed_model(frame, "score", "explainer", RANDOM)
    other = mixed_model(frame, "score", "explainer", RANDOM, reference="e3")
    means = plain.marginal_means()
    pd.testing.assert_frame_equal(means, other.marginal_means().loc[means.index], rtol=1e-6)
    assert means.loc["e0", "mean"] == pytest.approx(plain.coefficients.loc["(Intercept)", "coef"])
    pairs = plain.pairwise()
    assert pairs.loc[("e0", "e2"), "coef"] == pytest.approx(-plain.coefficients.loc["e2", "coef"])
    assert pairs.loc[("e0", "e2"), "p"] == pytest.approx(plain.coefficients.loc["e2", "p"])
    assert (pairs["p_holm"] >= pairs["p"]).all()


def test_several_fixed_columns() -> None:
    frame = crossed(16, keep=0.8)
    frame["depth"] = frame["instance"].str[1:].astype(int) % 4
    fit = mixed_model(frame, "score", ["explainer", "model", "depth"], "instance")
    names = ["(Intercept)", *(f"explainer=e{k}" for k in (1, 2, 3)), "model=m1", "model=m2", "depth"]
    assert list(fit.coefficients.index) == names
    coef = fit.coefficients["coef"]
    expected = coef["(Intercept)"] + (coef["model=m1"] + coef["model=m2"]) / 3 + coef["depth"] * frame["depth"].mean()
    assert fit.marginal_means("explainer").loc["e0", "mean"] == pytest.approx(expected)
    with pytest.raises(BadInput, match="categorical fixed column"):
        fit.marginal_means("depth")


def test_missing_rows_are_dropped_and_counted() -> None:
    frame = crossed(17)
    holes = frame.copy()
    holes.loc[[3, 8], "score"] = np.nan
    holes.loc[5, "model"] = None
    fit = mixed_model(holes, "score", "explainer", RANDOM)
    whole = mixed_model(frame.drop(index=[3, 5, 8]), "score", "explainer", RANDOM)
    assert (fit.n, fit.n_dropped) == (len(frame) - 3, 3)
    assert fit.criterion == whole.criterion
    assert any("3 rows" in line for line in fit.warnings)


def test_row_order_and_scale_do_not_matter() -> None:
    frame = crossed(18, keep=0.8)
    fit = mixed_model(frame, "score", "explainer", RANDOM)
    shuffled = mixed_model(frame.sample(frac=1, random_state=1), "score", "explainer", RANDOM[::-1])
    assert shuffled.criterion == pytest.approx(fit.criterion, abs=1e-8)
    scaled = mixed_model(frame.assign(score=1e4 * frame["score"] - 3e5), "score", "explainer", RANDOM)
    np.testing.assert_allclose(scaled.coefficients["se"], 1e4 * fit.coefficients["se"], rtol=1e-6)
    np.testing.assert_allclose(scaled.variances["share"], fit.variances["share"], rtol=1e-5)


def test_columns_that_cannot_be_estimated_are_left_out_with_a_reason() -> None:
    frame = crossed(19, models=1)
    frame["row"] = np.arange(len(frame))
    frame["copy"] = "x" + frame["instance"]
    fit = mixed_model(frame, "score", "explainer", ("instance", "model", "row", "copy"))
    plain = mixed_model(frame, "score", "explainer", "instance")
    assert fit.criterion == pytest.approx(plain.criterion, abs=1e-9)
    assert fit.variances.loc[["model", "row", "copy"], "variance"].isna().all()
    text = " ".join(fit.warnings)
    assert "one level" in text
    assert "one row per level" in text
    assert "exactly as 'instance'" in text


def test_singular_fit_says_so() -> None:
    fit, _ = fit_case("singular", "reml")
    assert fit.singular
    assert fit.variances.loc["dataset", "variance"] == 0.0
    assert any("singular fit" in line and "'dataset'" in line for line in fit.warnings)


def test_one_fit_per_dataset_leaves_the_dataset_out() -> None:
    frame = crossed(20, instances=30)
    grouped = mixed_model_by(frame, "dataset", "score", "explainer", RANDOM)
    alone = mixed_model(frame[frame["dataset"] == "d1"], "score", "explainer", ("instance", "model"))
    assert list(grouped.fits) == ["d0", "d1", "d2"]
    pd.testing.assert_frame_equal(grouped.fits["d1"].coefficients, alone.coefficients)
    pd.testing.assert_frame_equal(grouped.coefficients.loc["d1"], alone.coefficients)
    frame.loc[frame["dataset"] == "d2", "score"] = np.nan
    broken = mixed_model_by(frame, "dataset", "score", "explainer", RANDOM)
    assert list(broken.fits) == ["d0", "d1"]
    assert "missing value" in broken.failures["d2"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"score": 1.0}, "fit the response exactly"),
        ({"score": np.nan}, "nothing is left"),
        ({"score": np.inf}, "infinite"),
        ({"score": "high"}, "must be numbers"),
    ],
)
def test_bad_responses(change: dict[str, object], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        mixed_model(crossed(21).assign(**change), "score", "explainer", RANDOM)


def test_bad_columns() -> None:
    frame = crossed(22)
    with pytest.raises(BadInput, match="no column 'nope'"):
        mixed_model(frame, "score", "nope", RANDOM)
    with pytest.raises(BadInput, match="one role"):
        mixed_model(frame, "score", "model", RANDOM)
    with pytest.raises(BadInput, match="repeat what earlier"):
        mixed_model(frame.assign(same=frame["explainer"].str.upper()), "score", ["explainer", "same"], "instance")


def test_coverage_of_the_intervals() -> None:
    """95 % intervals of an explainer's effect hold the truth, 0.03, in about 95 % of 100 draws."""
    hits = 0
    for seed in range(100):
        table = mixed_model(crossed(1000 + seed, instances=12, keep=0.9), "score", "explainer", RANDOM).coefficients
        hits += table.loc["e1", "low"] <= 0.03 <= table.loc["e1", "high"]
    assert 88 <= hits <= 99  # a share of .95 leaves this range once in 115 seeds
