"""The tables and figures of the paper's appendix: ranks (B.3, C.1), effects (B.2), every score (C.2), spread (C.3)."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd

from karat.kernel.errors import BadInput
from karat.kernel.finding import Figure, Finding, Series
from karat.kernel.typing import Scalar
from karat.protocols.common.words import number, rounded
from karat.protocols.synergy.analysis import BETTER, FAITHFULNESS, Scored, agreement
from karat.statistics import (
    Estimate,
    cliques,
    critical_difference,
    friedman,
    mean_ranks,
    rank_intervals,
    separation,
    wilcoxon_against_best,
)

NAMES = {"f_syn": "F_syn", "srg_visual": "image SRG", "srg_text": "text SRG"}
EFFECTS = "Effects (section 4.4, appendix B)"
_PAIRS = (("srg_visual", "srg_text"), ("f_syn", "srg_visual"), ("f_syn", "srg_text"))
_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def rank_shifts(scored: Scored) -> Finding:
    """Kendall's tau between the rankings by image and by text, globally and per dataset (Fig. 2, 8)."""
    rows: list[tuple[Scalar, ...]] = []
    figures, sentences = [], []
    for dataset in scored.parts:
        for first, second in _PAIRS:
            tau = agreement(scored, first, second, dataset)
            by_score = agreement(scored, first, second, dataset, by="scores")
            if tau is None or by_score is None:
                continue
            names = (dataset or "all", NAMES[first], NAMES[second])
            rows.append((*names, *_tau(tau), *_tau(by_score), tau.n))
            if (first, second) == _PAIRS[0]:
                sentences.append(_agree(dataset, tau))
        slopes = _slopes(scored, dataset)
        figures += [slopes] if slopes else []
    return Finding(
        title="Do image and text rank the explainers alike?",
        about="Kendall's tau between the orders of explainers that two metrics give, by mean rank over instances and, "
        "as in the paper, by mean score. The interval treats instances as the sample, p treats the explainers as the "
        "sample (section 4.2 of the paper).",
        sentences=tuple(sentences),
        columns=(
            "dataset", "first", "second", "tau", "low", "high", "p",
            *(f"{what}, mean scores" for what in ("tau", "low", "high", "p")), "n",
        ),
        rows=tuple(rows),
        section="Ranking instability (section 4.2, appendix B.3)",
        figures=tuple(figures),
    )  # fmt: skip


def _tau(tau: Estimate) -> tuple[float | None, ...]:
    return tuple(number(value) for value in (tau.value, tau.low, tau.high, tau.p))


def _agree(dataset: str | None, tau: Estimate) -> str:
    where = f"On {dataset}" if dataset else "Over all"
    if tau.low > 0:
        how = "agree" if tau.value > 0.5 else "agree in part"
    elif tau.high < 0:
        how = "contradict each other"
    else:
        how = "cannot be shown to agree"
    value, low, high, p = (rounded(number, 2) for number in (tau.value, tau.low, tau.high, tau.p))
    return f"{where}, the rankings by image and by text {how} (tau {value}, {low} to {high}, p {p})."


def _slopes(scored: Scored, dataset: str | None) -> Figure | None:
    """Positions of every explainer under the three metrics."""
    places: dict[str, pd.Series[float]] = {}
    for metric in ("srg_visual", "f_syn", "srg_text"):
        try:
            places[metric] = mean_ranks(scored.wide(metric, dataset), BETTER[metric]).table["position"]
        except BadInput:
            return None
    x: tuple[Scalar, ...] = tuple(NAMES[metric] for metric in places)
    series = tuple(
        Series(name, x, tuple(number(place.get(name)) for place in places.values())) for name in scored.methods
    )
    title = f"Rank shifts: {dataset or 'all datasets'} ({'Fig. 8' if dataset else 'Fig. 2'})"
    return Figure(title, "slopes", "metric", "rank", series)


def rankings(scored: Scored) -> list[Finding]:
    """Mean ranks with Wilcoxon tests against the best, and the grid of ranks over metrics and datasets (Fig. 5, 9)."""
    tests: list[tuple[Scalar, ...]] = []
    grid: dict[tuple[str, str], dict[str, float]] = {}
    sentences = []
    for metric in FAITHFULNESS:
        for dataset in scored.parts:
            table = scored.wide(metric, dataset)
            try:
                ranks = rank_intervals(
                    table, BETTER[metric], rng=scored.rng(f"{metric}{dataset}"), clusters=scored.clusters_of(table)
                )
            except BadInput as error:
                sentences.append(f"{NAMES[metric]}, {dataset or 'all'}: not ranked: {error}")
                continue
            against = wilcoxon_against_best(table, BETTER[metric])
            overall = friedman(table) if table.shape[1] > 2 else None
            for name, row in ranks.table.iterrows():
                test = against.loc[str(name)] if name in against.index else None
                tests.append(
                    (
                        NAMES[metric], dataset or "all", str(name), float(row["mean_rank"]), float(row["low"]),
                        float(row["high"]), int(row["position_low"]), int(row["position_high"]), float(row["p_best"]),
                        *(None if test is None else number(test[key]) for key in ("p", "p_bonferroni", "p_holm")),
                        ranks.n, ranks.n_dropped,
                    )
                )  # fmt: skip
            grid[metric, dataset or "all"] = {str(name): float(r) for name, r in ranks.table["mean_rank"].items()}
            if overall is not None and dataset is None:
                differ = "differ" if overall.p_f < 0.05 else "cannot be shown to differ"
                sentences.append(
                    f"{NAMES[metric]}: the explainers {differ} (Friedman p {overall.p_f:.2g}); mean ranks must be "
                    f"{critical_difference(table.shape[1], ranks.n):.2f} apart."
                )
                tied = cliques(ranks)
                if tied:
                    together = "; ".join(", ".join(names) for names in tied)
                    sentences.append(f"{NAMES[metric]}: not told apart by rank: {together}.")
    columns: tuple[Scalar, ...] = tuple(f"{NAMES[metric]}, {dataset}" for metric, dataset in grid)
    cells = tuple(Series(name, columns, tuple(g.get(name) for g in grid.values())) for name in scored.methods)
    return [
        Finding(
            title="Mean ranks, and who differs from the best",
            about="Ranks within each instance and model, 1 = best, over blocks where every explainer has a score. "
            "Scores within a millionth of the largest tie. Low and high bound the mean rank, first and last place the "
            "position, by a bootstrap over instances. p is Wilcoxon's signed-rank test against the best, which was "
            "chosen on the same data.",
            sentences=tuple(sentences),
            columns=(
                "metric", "dataset", "explainer", "mean rank", "low", "high", "first place", "last place", "p best",
                "p", "p Bonferroni", "p Holm", "n", "dropped",
            ),
            rows=tuple(tests),
            section="Ranks (section 4.4, appendix C.1)",
            figures=(Figure("Mean ranks by metric and dataset (Fig. 5, 9)", "grid", "", "mean rank", cells),),
        )
    ]  # fmt: skip


def forest(title: str, effects: pd.DataFrame, x: str) -> Figure:
    """Coefficients with their intervals, largest first."""
    sorted_effects = effects.drop("(Intercept)").sort_values("coef", ascending=False)
    columns = [tuple(number(value) for value in sorted_effects[name]) for name in ("coef", "low", "high")]
    names: tuple[Scalar, ...] = tuple(map(str, sorted_effects.index))
    series = Series("effect", names, columns[0], columns[1], columns[2])
    return Figure(title, "intervals", "explainer", x, (series,), "95 % intervals", (("noise", 0.0),))


def per_dataset(scored: Scored) -> Finding:
    """Table 2 and Fig. 7."""
    fits = scored.effects_by_dataset
    rows: list[tuple[Scalar, ...]] = []
    for dataset, fit in fits.fits.items():
        for explainer, effect in fit.coefficients.drop("(Intercept)").iterrows():
            cells = (number(effect[name]) for name in ("coef", "se", "z", "p", "low", "high"))
            rows.append((dataset, str(explainer), *cells))
    failed = tuple(f"{dataset}: not fitted: {reason}" for dataset, reason in fits.failures.items())
    warned = tuple(f"{dataset}: {warning}" for dataset, fit in fits.fits.items() for warning in fit.warnings)
    return Finding(
        title="Effects on each dataset",
        about=f"One mixed model per dataset, effects against {scored.reference} (Table 2 and Fig. 7 of the paper); "
        "intervals and p are Wald's.",
        sentences=failed + warned,
        columns=("dataset", "explainer", "effect", "se", "z", "p", "low", "high"),
        rows=tuple(rows),
        section=EFFECTS,
        figures=tuple(
            forest(f"{dataset} (Fig. 7)", fit.coefficients, f"effect over {scored.reference}")
            for dataset, fit in fits.fits.items()
        ),
    )


def variances(scored: Scored) -> Finding:
    """Where the scatter of F_syn lies, and what each explainer would score by itself."""
    fit = scored.effects
    means = fit.marginal_means().sort_values("mean", ascending=False)
    parts = [
        ("variance", str(name), number(row["variance"]), number(row["sd"]), number(row["share"]), None)
        for name, row in fit.variances.iterrows()
    ]
    levels = [
        ("marginal mean", str(name), number(row["mean"]), number(row["se"]), number(row["low"]), number(row["high"]))
        for name, row in means.iterrows()
    ]
    return Finding(
        title="Where the scatter lies",
        about="Variance components (variance, standard deviation, share) and estimated marginal means (mean, standard "
        f"error, low, high) of the global mixed model; REML criterion {fit.criterion:.3f}.",
        sentences=(),
        columns=("what", "of", "value", "spread", "share or low", "high"),
        rows=(*parts, *levels),
        section=EFFECTS,
    )


def samples_needed(scored: Scored) -> Finding:
    """Power: how many instances tell neighbours of the ranking apart."""
    blocks = scored.wide("f_syn")
    table = blocks.groupby(scored.clusters_of(blocks)).mean()  # one row per independent instance
    order = [str(name) for name in table.mean().sort_values(ascending=False).index]
    comparisons = len(order) * (len(order) - 1) // 2
    plans = [
        (first, second, separation(table[first], table[second], comparisons=comparisons))
        for first, second in pairwise(order)
        if len(table[[first, second]].dropna()) >= 2
    ]
    enough = sum(plan.needed is not None and plan.n >= plan.needed for _, _, plan in plans)
    return Finding(
        title="How many instances tell two explainers apart?",
        about="Neighbours in the order of mean F_syn, each instance averaged over models: pairs needed by a paired "
        f"t-test with 80 % power at 5 %, corrected for {comparisons} comparisons, if the difference seen is the true "
        "one; and the smallest difference that this run can see.",
        sentences=(f"{enough} of {len(plans)} neighbours differ by enough to be told apart with these instances.",),
        columns=("first", "second", "difference", "sd", "n", "needed", "detectable"),
        rows=tuple((a, b, plan.difference, plan.sd, plan.n, plan.needed, plan.detectable) for a, b, plan in plans),
        section=EFFECTS,
    )


def every_score(scored: Scored) -> list[Finding]:
    """Tables 3-5: mean ± standard deviation of the three metrics, one table per dataset, one row per model."""
    findings = []
    for dataset in scored.datasets:
        tables = [
            scored.all_rows(metric, dataset).groupby(["model", "explainer"], observed=True)["value"].agg(
                ["mean", "std", "count", "size"]
            )
            for metric in FAITHFULNESS
        ]  # fmt: skip
        rows: list[tuple[Scalar, ...]] = []
        for model, explainer in sorted(tables[0].index):
            cells: list[Scalar] = [str(model), str(explainer)]
            for table in tables:
                mean, sd, n, of = table.loc[(model, explainer)]
                cells += [number(mean), number(sd), int(n), int(of)]
            rows.append(tuple(cells))
        columns = [f"{NAMES[m]}{what}" for m in FAITHFULNESS for what in ("", " sd", " n", " of")]
        findings.append(
            Finding(
                title=f"Every score on {dataset}",
                about="Means and standard deviations over instances, not adjusted for anything; n of all explanations "
                "have a value (tables 3-5 of the paper).",
                sentences=(),
                columns=("model", "explainer", *columns),
                rows=tuple(rows),
                section="Every score (appendix C.2)",
            )
        )
    return findings


def distributions(scored: Scored) -> Finding:
    """Figures 10-12: how the scores are spread, per metric, dataset and explainer."""
    rows: list[tuple[Scalar, ...]] = []
    figures = []
    for metric in FAITHFULNESS:
        for dataset in scored.parts:
            series = []
            for model in scored.models:
                part = scored.all_rows(metric, dataset)
                part = part[(part["model"] == model) & part["value"].notna()]
                cuts = {
                    str(name): np.quantile(own["value"], _QUANTILES).tolist()
                    for name, own in part.groupby("explainer", observed=True)
                }
                rows += [(NAMES[metric], dataset or "all", model, name, *cut) for name, cut in cuts.items()]
                low, middle, high = (tuple(cut[k] for cut in cuts.values()) for k in (1, 2, 3))
                if cuts:
                    series.append(Series(model, tuple(cuts), middle, low, high))
            title = f"{NAMES[metric]}: {dataset or 'all datasets'}"
            figures.append(
                Figure(title, "intervals", "explainer", NAMES[metric], tuple(series), "median and quartiles")
            )
    return Finding(
        title="How the scores are spread",
        about="Quantiles over instances; the figures show median and quartiles (figures 10-12 of the paper).",
        sentences=(),
        columns=("metric", "dataset", "model", "explainer", *(f"{q:.0%}" for q in _QUANTILES)),
        rows=tuple(rows),
        section="Distributions (appendix C.3)",
        figures=tuple(figures),
    )
