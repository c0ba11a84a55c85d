"""Who finds what matters together: the verdict with Table 1, then tables 3-5 and figures 10-12 of fsyn2026."""

from __future__ import annotations

import numpy as np
import pandas as pd

from karat.kernel.finding import Figure, Finding, Series
from karat.kernel.typing import Scalar
from karat.protocols.synergy.frames import FAITHFULNESS, NAMES, Scored, number, spread

_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def verdict(scored: Scored) -> Finding:
    """Table 1 and Fig. 6: F_syn per dataset and overall, with each explainer's effect over noise."""
    fit = scored.effects
    effects = fit.coefficients
    rows: list[tuple[Scalar, ...]] = []
    ranked = scored.all_rows("f_syn")
    ranked = ranked[~ranked["model"].isin(scored.set_apart)]
    for explainer in scored.explainers:
        own = ranked[ranked["explainer"] == explainer]
        cells: list[Scalar] = [explainer]
        for dataset in scored.datasets:
            part = own[own["dataset"] == dataset]["value"]
            cells += [number(part.mean()), number(part.std())]
        cells += [number(own["value"].mean()), number(own["value"].std()), number(own["value"].notna().mean())]
        if explainer in effects.index:
            effect = effects.loc[explainer]
            cells += [number(effect[name]) for name in ("coef", "low", "high", "p")]
        elif explainer == scored.reference:
            cells += [0.0, None, None, None]
        else:
            cells += [None] * 4
        rows.append(tuple(cells))
    per_dataset = [f"{dataset} {what}" for dataset in scored.datasets for what in ("mean", "sd")]
    return Finding(
        title="Do the features that are ranked first matter together?",
        about="F_syn is the interaction of the first features of the image with the first of the text, averaged over "
        "their shares, with everything else there and with nothing else there. The effect is how much more of it an "
        f"explainer finds than {scored.reference}, in a mixed model with random intercepts for instance, model and "
        f"dataset ({fit.n} scores){_apart(scored)}. Controls other than noise are references; features that the truth "
        "does not name can beat the oracle.",
        sentences=tuple(_sentences(scored)),
        columns=("explainer", *per_dataset, "mean", "sd", "coverage", "effect", "low", "high", "p"),
        rows=tuple(sorted(rows, key=lambda row: -(row[-4] if isinstance(row[-4], float) else -9.0))),
        figures=(forest("Effect on F_syn over noise (Fig. 6)", effects, f"effect over {scored.reference}"),),
    )


def forest(title: str, effects: pd.DataFrame, x: str) -> Figure:
    """Coefficients with their intervals, largest first."""
    shown = effects.drop("(Intercept)").sort_values("coef", ascending=False)
    columns = [tuple(number(value) for value in shown[name]) for name in ("coef", "low", "high")]
    names: tuple[Scalar, ...] = tuple(map(str, shown.index))
    series = Series("effect", names, columns[0], columns[1], columns[2])
    return Figure(title, "intervals", "explainer", x, (series,), "95 % intervals", (("noise", 0.0),))


def _sentences(scored: Scored) -> list[str]:
    fit = scored.effects
    effects = fit.coefficients.drop("(Intercept)").sort_values("coef", ascending=False)
    said = []
    if len(effects):
        best, effect = str(effects.index[0]), effects.iloc[0]
        gain = spread(effect["coef"], effect["low"], effect["high"])
        if effect["low"] > 0:
            said.append(f"{best} finds the most synergy: {gain} more than {scored.reference}.")
        else:
            said.append(
                f"No explainer can be shown to find more synergy than {scored.reference}; the best, {best}: {gain}."
            )
        pairs = fit.pairwise()
        level = [
            str(other)
            for other in effects.index[1:]
            if _holm(pairs, best, str(other)) >= 0.05 and effects.loc[other, "low"] > 0
        ]
        if level:
            said.append(f"Not told apart from {best}: {', '.join(level)}.")
        idle = [str(name) for name in effects.index if effects.loc[name, "low"] <= 0 <= effects.loc[name, "high"]]
        worse = [str(name) for name in effects.index if effects.loc[name, "high"] < 0]
        if idle:
            said.append(f"Not told apart from {scored.reference}: {', '.join(idle)}.")
        if worse:
            said.append(f"Worse than {scored.reference}: {', '.join(worse)}.")
    if scored.set_apart:
        said.append(f"Not ranked, since image and text each carry the answer there: {', '.join(scored.set_apart)}.")
    rows = scored.all_rows("f_syn")
    lacking = rows["value"].isna().mean()
    if lacking:
        why = rows[rows["value"].isna()]["status"].value_counts()
        kinds = ", ".join(f"{count} {str(kind).replace('_', ' ')}" for kind, count in why.items())
        said.append(f"{lacking:.1%} of the explanations have no F_syn ({kinds}); means are over the rest.")
    return [*said, *(f"Mixed model: {warning}" for warning in fit.warnings)]


def _apart(scored: Scored) -> str:
    return f", without the redundant {', '.join(scored.set_apart)}" if scored.set_apart else ""


def _holm(pairs: pd.DataFrame, first: str, second: str) -> float:
    key = (first, second) if (first, second) in pairs.index else (second, first)
    return float(pairs["p_holm"].to_dict()[key])


def every_score(scored: Scored) -> list[Finding]:
    """Tables 3-5: mean ± standard deviation of the three metrics, one table per dataset, one row per model."""
    found = []
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
        found.append(
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
    return found


def distributions(scored: Scored) -> Finding:
    """Figures 10-12: how the scores are spread, per metric, dataset and explainer."""
    rows: list[tuple[Scalar, ...]] = []
    figures = []
    for metric in FAITHFULNESS:
        for dataset in (None, *scored.datasets) if len(scored.datasets) > 1 else (None,):
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
