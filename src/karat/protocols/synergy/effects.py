"""The mixed model in full: effects per dataset (Table 2, Fig. 7), where the variance lies, and samples needed."""

from __future__ import annotations

from itertools import pairwise

from karat.kernel.finding import Finding
from karat.kernel.typing import Scalar
from karat.protocols.synergy.frames import Scored, number
from karat.protocols.synergy.leaderboard import forest
from karat.statistics import separation

SECTION = "Effects (section 4.4, appendix B)"


def per_dataset(scored: Scored) -> Finding:
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
        section=SECTION,
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
        section=SECTION,
    )


def samples_needed(scored: Scored) -> Finding:
    """Power: how many instances tell neighbours of the ranking apart."""
    table = scored.wide("f_syn").groupby(level="instance").mean()  # one row per independent instance
    order = [str(name) for name in table.mean().sort_values(ascending=False).index]
    comparisons = len(order) * (len(order) - 1) // 2
    rows: list[tuple[Scalar, ...]] = []
    for first, second in pairwise(order):
        if len(table[[first, second]].dropna()) < 2:
            continue
        plan = separation(table[first], table[second], comparisons=comparisons)
        rows.append((first, second, plan.difference, plan.sd, plan.n, plan.needed, plan.detectable))
    short = [row for row in rows if row[5] is None or row[4] < row[5]]  # type: ignore[operator]  # both are counts
    said = f"{len(rows) - len(short)} of {len(rows)} neighbours differ by enough to be told apart with these instances."
    return Finding(
        title="How many instances tell two explainers apart?",
        about="Neighbours in the order of mean F_syn, each instance averaged over models: pairs needed by a paired "
        f"t-test with 80 % power at 5 %, corrected for {comparisons} comparisons, if the difference seen is the true "
        "one; and the smallest difference that this run can see.",
        sentences=(said,),
        columns=("first", "second", "difference", "sd", "n", "needed", "detectable"),
        rows=tuple(rows),
        section=SECTION,
    )
