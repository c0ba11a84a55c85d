"""The verdict: from the explanations alone, how well can one tell which twin made them?

Both twins explain their answers to the same pure samples. What an explanation says about distractors, anchors and
relation words goes into a classifier that is fitted on other samples, and its AUC says how well the twins come apart:
0.5 is blind, 1 sees. (By chance a cross-fitted AUC may fall below 0.5: that is blind too, and the interval says so.) An
explainer that cannot tell a model that reasons from one that takes a shortcut scores 0.5, however well its maps look.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from karat.kernel.errors import BadInput
from karat.kernel.finding import Figure, Finding, Series
from karat.kernel.identity import generator
from karat.protocols.grid.frames import ANCHORED, is_control, twin_of
from karat.statistics import Estimate, auc, cross_fitted_scores

FEATURES = ("distractor_mass", "anchor_mass", "relation_mass")
COLUMNS = ["family", "explainer", "auc", "low", "high", "samples", "of", "features"]


@dataclass(frozen=True, eq=False)
class Told:
    """Explanations of the same n samples by two models: features (2n, c), those of `other` last, samples in order."""

    features: npt.NDArray[np.float64]
    used: tuple[str, ...]
    samples: list[str]  # for which both have every feature
    of: int  # that both were asked about

    def auc(self, rng: np.random.Generator, folds: int, swapped: npt.NDArray[np.bool_] | None = None) -> Estimate:
        """How well a classifier fitted on other samples tells the two apart; `swapped` (n,) exchanges their roles."""
        n = len(self.samples)
        rows = np.arange(2 * n)
        if swapped is not None:
            rows = np.where(np.tile(swapped, 2), (rows + n) % (2 * n), rows)
        is_other, clusters = np.repeat([False, True], n), self.samples * 2
        odds = cross_fitted_scores(self.features[rows], is_other, clusters, rng=rng, folds=folds)
        # A feature that is the same for both twins on every sample says nothing; rounding must not let it speak.
        found = auc(np.round(odds, 9), is_other, clusters=clusters)
        # A classifier may be turned round, so the truth is never below one half: an interval must not exclude it there.
        return replace(found, high=max(found.high, 0.5))


def told(rows: pd.DataFrame, honest: str, other: str, *, folds: int = 5) -> dict[str, Told]:
    """Per explainer, what `honest` and `other` explained both. Explainers with too few such samples are left out."""
    rows = rows[rows["model"].isin([honest, other]) & rows["metric"].isin(FEATURES)]
    table = rows.pivot_table(index=["explainer", "model", "sample"], columns="metric", values="value", aggfunc="first")
    models = rows.groupby(["explainer", "sample"])["model"].nunique()
    asked = (models == 2).groupby("explainer").sum().to_dict()
    found: dict[str, Told] = {}
    for explainer, group in table.groupby(level="explainer"):
        used = [name for name in FEATURES if name in group and group[name].notna().any()]
        complete = group[used].dropna().droplevel("explainer")
        per_model = [set(complete.xs(name, level="model").index) for name in (honest, other) if name in complete.index]
        if len(per_model) < 2 or len(shared := sorted(per_model[0] & per_model[1])) < folds:
            continue
        features = np.concatenate([complete.loc[name].loc[shared].to_numpy() for name in (honest, other)])
        found[str(explainer)] = Told(features, tuple(used), shared, int(asked[explainer]))
    return found


def tell_apart(
    rows: pd.DataFrame, honest: str, other: str, *, folds: int = 5, seed: int = 0
) -> dict[str, dict[str, Any]]:
    """Per explainer, how well `other` is told from `honest` on the samples that both have explained."""
    found = {}
    for explainer, pair in told(rows, honest, other, folds=folds).items():
        estimate = pair.auc(generator(seed, explainer, "grid/verdict"), folds)
        found[explainer] = {
            "auc": estimate.value, "low": estimate.low, "high": estimate.high, "samples": len(pair.samples),
            "of": pair.of, "features": ", ".join(pair.used),
        }  # fmt: skip
    return found


def verdict(scores: pd.DataFrame, *, folds: int = 5, seed: int = 0) -> pd.DataFrame:
    """One row per twin family and explainer: auc, low, high (95 %), samples used, samples asked about, features used.

    `scores` are rows of protocol `grid`; families are models called `<family>.pure` and `<family>.spur`. Methods come
    before controls, each kind best first.
    """
    rows = relational(scores)
    twins = {twin_of(name): name for name in rows["model"].unique()}
    found = [
        {"family": family, "explainer": explainer, **judged}
        for family in sorted({family for family, _ in twins if family})
        if (family, "pure") in twins and (family, "spur") in twins
        for explainer, judged in tell_apart(
            rows, twins[family, "pure"], twins[family, "spur"], folds=folds, seed=seed
        ).items()
    ]
    table = pd.DataFrame(found, columns=COLUMNS)
    order = table.assign(control=table["explainer"].map(is_control).astype(bool), worst=-table["auc"])
    return table.loc[order.sort_values(["family", "control", "worst", "explainer"], kind="stable").index].reset_index(
        drop=True
    )


def relational(scores: pd.DataFrame) -> pd.DataFrame:
    """Rows on which the twins' reasons differ: pure samples of relational questions."""
    for column in ("meta.mode", "meta.qtype", "meta.depth"):
        if column not in scores:
            raise BadInput(f"the verdict reads rows of protocol grid on the grid world; these have no {column}.")
    anchored = scores["meta.qtype"].isin(ANCHORED) & ~((scores["meta.qtype"] == "CMP") & (scores["meta.depth"] == 1))
    return scores[anchored & (scores["meta.mode"] == "pure")]


def sentences(table: pd.DataFrame) -> Iterator[str]:
    """The verdict in plain words: how many methods see, then every method, best first; controls at the end."""
    control = table["explainer"].map(is_control).astype(bool)
    for family, group in table[~control].groupby("family", sort=True):
        sees = group[group["low"] > 0.5]
        best = group.iloc[0]
        yield (
            f"On {family}, {len(sees)} of {len(group)} methods tell the twins apart better than chance; best is "
            f"{best['explainer']} (AUC {best['auc']:.2f})."
        )
    for row in table[~control].to_dict("records"):
        yield f"{row['explainer']} on {row['family']}: {_how(row)}."
    for row in table[control].to_dict("records"):
        yield f"Control: {row['explainer']} on {row['family']}: {_how(row)}."


def _how(row: Mapping[Any, Any]) -> str:
    if row["low"] > 0.5:
        how = "tells the twins apart" if row["auc"] > 0.9 else "tells the twins apart, though not reliably"
    else:
        how = "cannot be shown to tell the twins apart"
    return f"{how} (AUC {row['auc']:.2f}, {row['low']:.2f} to {row['high']:.2f})"


def verdict_finding(scores: pd.DataFrame, unproven: dict[str, str]) -> Finding | None:
    """`unproven` are twins that do not do what their name says: their families' verdicts say so."""
    table = verdict(scores)
    twins = [twin_of(model) for model in scores["model"].unique()]
    both = sorted({family for family, _ in twins if family and {(family, "pure"), (family, "spur")} <= set(twins)})
    if not both:
        return None
    broken = {twin_of(model)[0]: why for model, why in unproven.items()}
    table = table.assign(twins=[broken.get(family, "hold") for family in table["family"]])
    said = [f"No verdict on {family} can be trusted: {why}." for family, why in broken.items()]
    silent = [
        f"No verdict on {', '.join(unheard)} on {family}: too few scores of places or words that both twins have."
        for family in both
        if (unheard := sorted(set(scores["explainer"]) - set(table.loc[table["family"] == family, "explainer"])))
    ]
    methods = table[~table["explainer"].map(is_control).astype(bool)]
    figures = [
        Figure(f"Telling the twins apart: {family}", "intervals", "explainer", "AUC",
               (Series("AUC", *(tuple(group[c]) for c in ("explainer", "auc", "low", "high"))),),
               lines=(("blind", 0.5),))
        for family, group in methods.groupby("family", sort=True)
    ]  # fmt: skip
    return Finding(
        title="Which twin made this explanation?",
        about="Both twins answer the same questions for different reasons. The AUC says how well a classifier, "
        "fitted on other samples, tells them apart by what their explanations put on distractors, anchors and "
        "relation words (`features`: those that the explainer has): 0.5 is blind, 1 sees. A classifier may be turned "
        "round, so no interval ends below 0.5. Methods first, best first; controls below them.",
        sentences=(*said, *sentences(table), *silent),
        columns=tuple(table.columns),
        rows=tuple(table.itertuples(index=False, name=None)),
        figures=tuple(figures),
    )
