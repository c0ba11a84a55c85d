"""What a run of protocol `synergy` shows, in the order of the paper: verdict first, then every table and figure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from karat.kernel.errors import BadInput
from karat.kernel.finding import Figure, Finding, Series
from karat.kernel.typing import Scalar
from karat.protocols.common.controls import NOISE, ORACLE
from karat.protocols.common.words import interval, number, rounded
from karat.protocols.synergy.analysis import Coverage, Dividend, Redundant, Scored, coverage, redundancy
from karat.protocols.synergy.cost import Calibration, calibration_seconds, calibrations, frontier, pairs
from karat.protocols.synergy.tables import (
    distributions,
    every_score,
    forest,
    per_dataset,
    rank_shifts,
    rankings,
    samples_needed,
    variances,
)
from karat.statistics import Estimate, MixedModel

if TYPE_CHECKING:
    from karat.results.run import Run

ORACLES = (ORACLE, "control/box_only")
LIMITS = "Limits of deletion (section 3.2)"
_DRAWN = 400  # points a figure can show


def findings(run: Run, redundant: Redundant = "apart", margin: float = 0.05) -> list[Finding]:
    """All findings that the run has the rows for; comparisons need two explainers."""
    scored = Scored.of(run, redundant, margin)
    if not scored.explainers:
        return []
    split = redundancy(scored)
    single = [_oracle_under_deletion(run), _redundancy(scored, split), _calibration(scored, run)]
    plain = [*every_score(scored), distributions(scored)]
    if len(scored.methods) < 2:
        return [finding for finding in (*single, *plain) if finding is not None]
    try:
        scored.effects  # noqa: B018  everything below rests on it
        both = coverage(scored)
    except BadInput as error:
        return [finding for finding in (_without_effects(error), *single, *plain) if finding is not None]
    sections = [
        _verdict(scored, both, split),
        *single[:2],
        _failures(scored, both),
        rank_shifts(scored),
        single[2],
        *rankings(scored),
        per_dataset(scored),
        variances(scored),
        samples_needed(scored),
        *plain,
        _frontier(scored, run),
    ]
    return [finding for finding in sections if finding is not None]


def _without_effects(error: BadInput) -> Finding:
    return Finding(
        title="Do the features that are ranked first matter together?",
        about="The mixed model of F_syn could not be fitted, so nothing is ranked; the scores themselves are below.",
        sentences=(f"No explainer can be set above another: {error}",),
        columns=("reason",),
        rows=((str(error),),),
    )


# --- who finds what matters together ---


def _verdict(scored: Scored, both: list[Coverage], split: list[Dividend]) -> Finding:
    """Table 1 and Fig. 6: F_syn per dataset and overall, with each explainer's effect over noise."""
    fit = scored.effects
    as_noise = {one.explainer: one.as_noise for one in both}
    rows: list[tuple[Scalar, ...]] = []
    ranked = scored.all_rows("f_syn")
    ranked = ranked[~ranked["apart"]]
    for explainer in scored.explainers:
        own = ranked[ranked["explainer"] == explainer]
        cells: list[Scalar] = [explainer]
        for dataset in scored.datasets if len(scored.datasets) > 1 else ():
            part = own[own["dataset"] == dataset]["value"]
            cells += [number(part.mean()), number(part.std())]
        cells += [number(own["value"].mean()), number(own["value"].std()), number(own["value"].notna().mean())]
        if explainer in fit.coefficients.index:
            filled = as_noise[explainer]
            cells += [number(fit.coefficients.loc[explainer, name]) for name in ("coef", "low", "high", "p")]
            cells += [None] * 3 if filled is None else [number(v) for v in (filled.value, filled.low, filled.high)]
        else:
            cells += [0.0 if explainer == scored.reference else None, *[None] * 6]
        rows.append(tuple(cells))
    datasets = scored.datasets if len(scored.datasets) > 1 else ()
    columns = (
        "explainer", *(f"{dataset} {what}" for dataset in datasets for what in ("mean", "sd")), "mean", "sd",
        "coverage", "effect", "low", "high", "p", *(f"{what}, failures as noise" for what in ("effect", "low", "high")),
    )  # fmt: skip
    effects = [row[columns.index("effect")] for row in rows]
    order = np.argsort([-float(value) if isinstance(value, float) else 9.0 for value in effects], kind="stable")
    return Finding(
        title="Do the features that are ranked first matter together?",
        about="F_syn is the interaction of the first features of the image with the first of the text, averaged over "
        "their shares, with everything else there and with nothing else there. The effect is how much more of it an "
        f"explainer finds than {scored.reference}, in a mixed model with random intercepts for instance, model and "
        f"dataset ({fit.n} scores), over the explanations that there are and once more with each failed one counted as "
        "noise on its sample. Controls other than noise are references; features that the truth does not name can beat "
        "the oracle.",
        sentences=(*_ranking(scored, fit, both), *_told_apart(scored, split), *_missing(scored, both)),
        columns=columns,
        rows=tuple(rows[i] for i in order),
        figures=(
            replace(
                forest("Effect on F_syn over noise (Fig. 6)", fit.coefficients, f"effect over {scored.reference}"),
                headline=True,
            ),
        ),
    )


def _ranking(scored: Scored, fit: MixedModel, both: list[Coverage]) -> list[str]:
    """Who is above noise and above whom; explainers whose failures decide about that are not placed."""
    open_ones = {one.explainer for one in both if not one.agrees}
    effects = fit.coefficients.drop("(Intercept)").sort_values("coef", ascending=False)
    sentences = []
    placed = effects[~effects.index.isin(open_ones)]
    if len(placed):
        best, top = str(placed.index[0]), placed.iloc[0]
        gain = interval(Estimate(top["coef"], top["se"], top["low"], top["high"], fit.n, fit.n_dropped))
        if top["low"] > 0:
            sentences.append(f"{best} finds the most synergy: {gain} more than {scored.reference}.")
        else:
            sentences.append(
                f"No explainer can be shown to find more synergy than {scored.reference}; the best, {best}: {gain}."
            )
        compared = fit.pairwise()
        level = [
            str(other)
            for other in placed.index[1:]
            if _holm(compared, best, str(other)) >= 0.05 and placed.loc[other, "low"] > 0
        ]
        if level:
            sentences.append(f"Not told apart from {best}: {', '.join(level)}.")
        idle = [str(name) for name, row in placed.iterrows() if row["low"] <= 0 <= row["high"]]
        worse = [str(name) for name, row in placed.iterrows() if row["high"] < 0]
        if idle:
            sentences.append(f"Not told apart from {scored.reference}: {', '.join(idle)}.")
        if worse:
            sentences.append(f"Worse than {scored.reference}: {', '.join(worse)}.")
    if open_ones:
        sentences.append(
            f"Cannot tell, since it hangs on what failed explanations count as: {', '.join(sorted(open_ones))}."
        )
    return [*sentences, *(f"Mixed model: {warning}" for warning in fit.warnings)]


def _told_apart(scored: Scored, split: list[Dividend]) -> list[str]:
    """Redundant instances, in words and counts, whether they are set apart or not."""
    models = [one for one in split if one.redundant]
    if not models:
        return []
    counts = ", ".join(f"{one.redundant} of {one.mean.n} of {one.model}" for one in models)
    fate = "left out of effects and ranks" if scored.frame["apart"].any() else "kept in effects and ranks"
    return [
        f"Redundant instances (dividend below -{scored.margin:g}: image and text each carry the answer, and a high "
        f"F_syn is no virtue) are {fate}: {counts}."
    ]


def _missing(scored: Scored, both: list[Coverage]) -> list[str]:
    rows = scored.all_rows("f_syn")
    lacking = rows[rows["value"].isna()]
    if not len(lacking):
        return []
    kinds = ", ".join(f"{n} {str(kind).replace('_', ' ')}" for kind, n in lacking["status"].value_counts().items())
    return [f"{len(lacking) / len(rows):.1%} of the explanations have no F_syn ({kinds}); means are over the rest."]


def _holm(compared: pd.DataFrame, first: str, second: str) -> float:
    key = (first, second) if (first, second) in compared.index else (second, first)
    return float(compared["p_holm"].to_dict()[key])


def _failures(scored: Scored, both: list[Coverage]) -> Finding | None:
    """Complete cases beside failures counted as noise; nothing where no ranked explanation failed."""
    if not any(one.failed for one in both):
        return None
    sentences = [
        f"{one.explainer} ({one.failed} of {one.explanations} failed): {interval(one.left_out)} without its failures, "
        f"{interval(one.as_noise)} with each counted as noise: cannot tell."
        for one in both
        if not one.agrees and one.left_out is not None and one.as_noise is not None
    ]
    rows = tuple(
        (one.explainer, one.explanations, one.failed, one.not_applicable, *_three(one.left_out), *_three(one.as_noise),
         one.agrees)
        for one in both
    )  # fmt: skip
    return Finding(
        title="Do failed explanations decide who is better?",
        about="Explanations fail where a model is hard to explain, so leaving them out can favour whoever fails. Each "
        f"effect over {scored.reference} is computed twice: over the explanations that there are, and with every "
        "failed one counted as noise on its sample (the mean of 16 random orders). What has no score by definition is "
        "never filled in. Where the two say different things, nobody can tell.",
        sentences=tuple(sentences) or ("No: with failures counted as noise, everything stands.",),
        columns=(
            "explainer", "explanations", "failed", "not applicable", "effect", "low", "high",
            "effect, failures as noise", "low, failures as noise", "high, failures as noise", "same",
        ),
        rows=rows,
        section="Effects (section 4.4, appendix B)",
    )  # fmt: skip


def _three(estimate: Estimate | None) -> tuple[float | None, ...]:
    return (None,) * 3 if estimate is None else tuple(number(v) for v in (estimate.value, estimate.low, estimate.high))


# --- limits of deletion: redundancy and oracles ---


def _redundancy(scored: Scored, split: list[Dividend]) -> Finding | None:
    """The dividend of every model, instance by instance, and what F_syn makes of its oracle."""
    if not split:
        return None
    sentences = []
    for one in split:
        if one.redundant:
            turned = one.oracle is not None and one.oracle.high < 0
            sentences.append(
                f"{one.model}: on {one.redundant} of {one.mean.n} instances image and text each carry the answer (mean "
                f"dividend of all {rounded(one.mean.value, 2)}). "
                + ("Its oracle scores below noise there, so a " if turned else "There a ")
                + "high F_syn is no sign of faithfulness."
            )
    numbers = [(number(one.mean.value), number(one.mean.low), number(one.mean.high)) for one in split]
    middle, low, high = zip(*numbers, strict=True)
    return Finding(
        title="Do image and text bring the answer only together?",
        about="The dividend is what image and text bring together beyond what each brings alone. Where it is negative, "
        "the features that matter have negative interactions: finding them lowers F_syn (section 3.2 of the paper "
        f"looks at this case for deletion only). An instance counts as redundant below -{scored.margin:g}, as "
        f"synergistic above {scored.margin:g}. The oracle is compared with noise on redundant instances.",
        sentences=tuple(sentences),
        columns=(
            "model", "n", "dividend", "low", "high", "synergistic", "neither", "redundant",
            "oracle over noise", "oracle low", "oracle high",
        ),
        rows=tuple(
            (one.model, one.mean.n, *three, one.synergistic, one.neither, one.redundant, *_three(one.oracle))
            for one, three in zip(split, numbers, strict=True)
        ),
        section=LIMITS,
        figures=(
            Figure("Dividend of image and text", "intervals", "model", "dividend",
                   (Series("dividend", tuple(one.model for one in split), middle, low, high),),
                   "95 % intervals", (("no interaction", 0.0),)),
        ),
    )  # fmt: skip


def _oracle_under_deletion(run: Run) -> Finding | None:
    """Fig. 1: what happens to the answer as the truth itself is deleted, from the image alone and from both."""
    parts = {"del_img": "image deleted", "del_txt": "text deleted", "del_joint": "both deleted"}
    kept = run.details("f_syn")
    if not set(parts) <= set(kept.arrays):
        return None
    kept = kept.complete(*parts)
    keys = kept.keys
    names = {label: facts["name"] for label, facts in run.parts["explainer"].items()}
    oracle = next((label for name in ORACLES for label in names if names[label] == name), None)
    if oracle is None or oracle not in set(keys["explainer"]):
        return None
    noise = [label for label in names if names[label] == NOISE]
    steps = kept.arrays["del_img"].shape[1]
    shares: tuple[Scalar, ...] = tuple(float(share) for share in np.linspace(0, 1, steps))
    rows: list[tuple[Scalar, ...]] = []
    figures, flat = [], []
    for model in sorted(set(keys["model"])):
        series: list[Series] = []
        for explainer in (oracle, *noise[:1]):
            own = kept.take(((keys["model"] == model) & (keys["explainer"] == explainer)).to_numpy())
            for name, words in parts.items() if len(own) else ():
                mean = own.arrays[name].mean(axis=0, dtype=np.float64).tolist()
                rows.append((model, explainer, words, len(own), *mean))
                if explainer == oracle or name == "del_img":
                    series.append(Series(f"{explainer}, {words}", shares, tuple(mean)))
                if explainer == oracle and name == "del_img" and mean[0] - min(mean) < 0.1:
                    flat.append(model)
        title = f"Deletion of an oracle: {model} (Fig. 1)"
        figures.append(Figure(title, "lines", "share deleted", "probability", tuple(series)))
    return Finding(
        title="An oracle under deletion",
        about=f"The mean probability of the answer as the first features of {oracle} are taken away, from the image, "
        "from the text, and from both. A flat image curve says that the text alone carries the answer, not that the "
        "explanation is wrong (Fig. 1 of the paper).",
        sentences=tuple(
            f"{model} hardly reacts to the deletion of the very pixels it must use: image deletion cannot judge it."
            for model in flat
        ),
        columns=("model", "explainer", "what goes", "n", *(f"{share:.0%}" for share in np.linspace(0, 1, steps))),
        rows=tuple(rows),
        section=LIMITS,
        figures=tuple(figures),
    )


# --- the exact index, and cost ---


def _calibration(scored: Scored, run: Run) -> Finding | None:
    """Spearman and Kendall between F_syn and the exact index: overall, per model, and per explainer of each model."""
    rows = calibrations(scored, run)
    if not rows:
        return None
    first, table, seconds = rows[0], pairs(scored), calibration_seconds(run)
    timed = (
        f"In this run F_syn took {seconds[0]:.3g} s per explanation, the exact index {seconds[1]:.3g} s: "
        f"{seconds[1] / seconds[0]:.1f} times as long."
        if seconds
        else "The time is in the events of the run, which are not here."
    )
    fewer = "" if np.isnan(_fewer(first)) else f"F_syn asks for {_fewer(first):.1f} times fewer coalitions. "
    points = []
    for name, part in table.groupby("explainer", observed=True):
        few = part.iloc[: max(1, _DRAWN // table["explainer"].nunique())]
        points.append(Series(str(name), tuple(map(float, few["sii"])), tuple(map(float, few["f_syn"]))))
    figures = [Figure("F_syn and the exact index (Fig. 3)", "points", "exact index", "F_syn", tuple(points))]
    if seconds:
        bars = Series("seconds per explanation", ("F_syn", "exact index"), seconds)
        figures.append(Figure("Time (Fig. 4)", "bars", "", "seconds per explanation", (bars,)))
    return Finding(
        title="Does F_syn stand in for the exact interaction index?",
        about="The exact index is the Shapley interaction of the first features of image and text in a game with six "
        "players more, who share the rest at random (appendix D), averaged over the same steps. Passes are distinct "
        "coalitions per explanation. Intervals are by a bootstrap over instances.",
        sentences=(
            f"Over {len(table)} explanations, Spearman's rho between F_syn and the exact index is "
            f"{interval(first.rho)}, Kendall's tau {interval(first.tau)}.",
            fewer + timed,
        ),
        columns=(
            "model", "explainer", "n", "rho", "rho low", "rho high", "tau", "tau low", "tau high",
            "passes F_syn", "passes exact", "fewer passes",
        ),
        rows=tuple(
            (one.model, one.explainer, one.n, *_three(one.rho), *_three(one.tau), number(one.f_syn_passes),
             number(one.exact_passes), number(_fewer(one)))
            for one in rows
        ),
        section="Calibration (section 4.3, appendix D)",
        figures=tuple(figures),
    )  # fmt: skip


def _fewer(one: Calibration) -> float:
    return one.exact_passes / one.f_syn_passes if one.f_syn_passes else float("nan")


def _frontier(scored: Scored, run: Run) -> Finding:
    """Fig. 13."""
    rows: list[tuple[Scalar, ...]] = []
    figures, sentences = [], []
    for dataset in scored.parts:
        table = frontier(scored, run, dataset)
        for name, row in table.iterrows():
            better = None if pd.isna(row["dominated_by"]) else str(row["dominated_by"])
            numbers = (number(row["passes"]), number(row["seconds"]), number(row["f_syn"]))
            rows.append((dataset or "all", str(name), *numbers, bool(row["frontier"]), better))
        cost = "seconds" if table["timed"].all() else "passes"
        series = tuple(
            Series(str(name), (number(row["cost"]),), (number(row["f_syn"]),)) for name, row in table.iterrows()
        )
        figures.append(Figure(f"{dataset or 'All datasets'} (Fig. 13)", "points", cost, "F_syn", series))
        if dataset is None:
            best = ", ".join(map(str, table[table["frontier"]].index))
            sentences.append(f"No explainer is both cheaper and better than {best}.")
    return Finding(
        title="What does an explanation cost, and what does it find?",
        about="Forward passes are those that the method itself makes. Seconds are wall time per explanation on this "
        "machine; a trace that several explainers of a run read is shared equally among them.",
        sentences=tuple(sentences),
        columns=("dataset", "explainer", "passes", "seconds", "F_syn", "on the frontier", "beaten by"),
        rows=tuple(rows),
        section="Cost (appendix C.4)",
        figures=tuple(figures),
    )
