"""What a run of protocol `synergy` shows, as frames and estimates: nothing here is a sentence, a table or a figure.

Two things can turn a ranking over, and both are stated wherever one is made.

*Who is left out.* Explanations that failed are not missing at random: an explainer fails where the model is hard to
explain. Every effect and rank can be made from the explanations that there are, and once more with each failure counted
as noise on that sample (`Scored.with_failures_as_noise`). What is not applicable is never filled in.

*Redundancy.* With everything perturbed, F_syn's own step is the dividend of the two modalities, f(both) - f(image) -
f(text) + f(nothing). Where it is negative each modality carries the answer, the features that matter have a *negative*
interaction, and the better an explainer finds them the lower it scores. The dividend is a fact of a model and a sample,
the same for every explainer: an instance is redundant where it lies below minus the margin.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from karat.kernel.card import Direction
from karat.kernel.errors import BadInput
from karat.kernel.identity import generator
from karat.protocols.common.controls import NOISE, ORACLE
from karat.statistics import (
    Estimate,
    GroupedFits,
    MixedModel,
    bootstrap_mean,
    mixed_model,
    mixed_model_by,
    paired_difference,
    ranking_agreement,
    wide,
)
from karat.statistics.agreement import By

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karat.results.run import Run

Redundant = Literal["apart", "keep"]
FAITHFULNESS: tuple[str, ...] = ("f_syn", "srg_visual", "srg_text")
BETTER: dict[str, Direction] = dict.fromkeys(FAITHFULNESS, "higher")
RANDOM = ("instance", "model", "dataset")
PHOTO = "meta.photo"  # of datasets that ask several questions about one photograph
_BLOCK = ("dataset", "model", "instance")
_SAMPLE = ["model", "dataset", "sample"]
_FACTS = [
    "cell",
    "explainer",
    "explainer.name",
    "explainer.is_control",
    *_SAMPLE,
    "metric",
    "value",
    "passes",
    "status",
]


@dataclass(frozen=True, eq=False)
class Scored:
    """`frame` has one row per explanation and metric: the facts of a run's rows, and

    instance  dataset and sample: what models share
    cluster   what is drawn together in a bootstrap: the instance, or all questions about its photograph
    noise     what noise scores on that model and sample; where failures are counted as noise, also their value
    dividend  of image and text;  apart  whether the row is left out of effects and ranks as redundant

    `methods` are the explainers that are ranked: all but the controls, and of these only the random one, which is what
    effects are measured from. The other controls are references: they are shown, and compete with nobody.
    """

    frame: pd.DataFrame
    redundant: Redundant = "apart"
    margin: float = 0.05
    failures: Literal["left out", "as noise"] = "left out"

    @staticmethod
    def of(run: Run, redundant: Redundant = "apart", margin: float = 0.05) -> Scored:
        """Rows of a run. Where all instances are redundant, none is set apart: nothing else would be left."""
        rows = run.scores(columns=[*_FACTS, "dataset", "sample", PHOTO])
        frame, dataset = rows[_FACTS].copy(), rows["dataset"].astype(str) + "/"
        frame["instance"] = frame["cluster"] = dataset + rows["sample"].astype(str)
        if PHOTO in rows:
            frame["cluster"] = frame["instance"].where(rows[PHOTO].isna(), dataset + rows[PHOTO].astype(str))
        frame = frame.merge(dividends(run), on=_SAMPLE, how="left")
        frame["apart"] = (frame["dividend"] < -margin) & (redundant == "apart")
        if frame["apart"].all():
            frame["apart"] = False
        frame["noise"] = _noise(run, frame)
        return Scored(frame, redundant, margin)

    def with_failures_as_noise(self) -> Scored:
        """The same rows, each failed explanation scored as noise on its sample."""
        failed = self.frame["status"] == "failure"
        return replace(
            self, frame=self.frame.assign(value=self.frame["value"].mask(failed, self.frame["noise"])),
            failures="as noise",
        )  # fmt: skip

    @cached_property
    def explainers(self) -> tuple[str, ...]:
        """Those with at least one F_syn of their own, the random control first, then by name."""
        own = self.frame[(self.frame["metric"] == "f_syn") & (self.frame["status"] == "score")]
        names = own.drop_duplicates("explainer").set_index("explainer")["explainer.name"]
        return tuple(sorted(map(str, names.index), key=lambda label: (names[label] != NOISE, label)))

    @cached_property
    def methods(self) -> tuple[str, ...]:
        facts = self.frame.drop_duplicates("explainer").set_index("explainer")
        competes = ~facts["explainer.is_control"] | (facts["explainer.name"] == NOISE)
        return tuple(label for label in self.explainers if competes[label])

    @property
    def reference(self) -> str:
        """What effects are measured from: the random control, which is first where there is one."""
        return self.methods[0]

    def called(self, name: str) -> list[str]:
        """Labels of the explainers that are registered under a name, whatever their parameters."""
        labels = self.frame.loc[self.frame["explainer.name"] == name, "explainer"].unique()
        return [label for label in self.explainers if label in set(labels)]

    @property
    def datasets(self) -> tuple[str, ...]:
        return tuple(sorted(map(str, self.frame["dataset"].unique())))

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(sorted(map(str, self.frame["model"].unique())))

    @property
    def parts(self) -> tuple[str | None, ...]:
        """All datasets together, None, then each of them where there are several."""
        return (None, *self.datasets) if len(self.datasets) > 1 else (None,)

    def all_rows(self, metric: str, dataset: str | None = None) -> pd.DataFrame:
        """Every explainer that has an F_syn, references too, redundant instances too."""
        frame = self.frame[(self.frame["metric"] == metric) & self.frame["explainer"].isin(self.explainers)]
        return frame if dataset is None else frame[frame["dataset"] == dataset]

    def rows(self, metric: str, dataset: str | None = None) -> pd.DataFrame:
        """The methods that are ranked, on the instances that they are ranked on."""
        frame = self.all_rows(metric, dataset)
        return frame[frame["explainer"].isin(self.methods) & ~frame["apart"]]

    def ranked_rows(self) -> pd.DataFrame:
        """Rows of every metric on the instances that are ranked, every explainer."""
        return self.frame[~self.frame["apart"]]

    def wide(self, metric: str, dataset: str | None = None) -> pd.DataFrame:
        """One row per instance and model, one column per method."""
        return wide(self.rows(metric, dataset), "value", "explainer", _BLOCK)

    def clusters_of(self, blocks: pd.DataFrame) -> np.ndarray[Any, Any]:
        """The cluster of each row of a wide table."""
        known = self.frame.drop_duplicates("instance").set_index("instance")["cluster"]
        return known.loc[blocks.index.get_level_values("instance")].to_numpy()

    @cached_property
    def effects(self) -> MixedModel:
        """F_syn by explainer, freed of instance, model and dataset (fsyn2026 Eq. 13)."""
        return mixed_model(self.rows("f_syn"), "value", "explainer", RANDOM, reference=self.reference)

    @cached_property
    def effects_by_dataset(self) -> GroupedFits:
        return mixed_model_by(self.rows("f_syn"), "dataset", "value", "explainer", RANDOM, reference=self.reference)

    def rng(self, what: str) -> np.random.Generator:
        """Bootstrap draws of a finding: the same whenever it is computed from the same rows."""
        return generator(0, what, "synergy/findings")


def _noise(run: Run, frame: pd.DataFrame) -> pd.Series[float]:
    """What noise scores on the sample of every row: as its failed explanation keeps it, or else (an explainer that
    raised, a record without these details) the score of the run's random attribution on that model and sample."""
    keys = [*_SAMPLE, "metric"]
    control = frame[(frame["explainer.name"] == NOISE) & (frame["metric"] != "sii")].drop_duplicates(keys)
    noise = frame.merge(control[[*keys, "value"]], on=keys, how="left", suffixes=("", " of noise"))["value of noise"]
    noise.index = frame.index
    for metric in FAITHFULNESS:
        details = run.details(metric)
        if "noise" in details.arrays:
            kept = details.keys.assign(metric=metric, kept=details.arrays["noise"])
            own = frame.merge(kept, on=["explainer", *keys], how="left")["kept"]
            noise = noise.where(own.isna().to_numpy(), own.to_numpy())
    return noise


# --- redundancy ---


@dataclass(frozen=True)
class Dividend:
    """How image and text of one model go together, instance by instance."""

    model: str
    mean: Estimate
    synergistic: int  # instances whose dividend lies above the margin
    neither: int
    redundant: int  # below minus the margin
    oracle: Estimate | None  # F_syn of the oracle minus that of noise, on the redundant instances


def dividends(run: Run) -> pd.DataFrame:
    """One row per model, dataset and sample: the dividend of image and text, which is the same for all explainers."""
    kept = run.details("f_syn")
    if "syn_ins" not in kept.arrays:
        return pd.DataFrame({**dict.fromkeys(_SAMPLE, pd.Series(dtype=object)), "dividend": pd.Series(dtype=float)})
    whole = kept.arrays["syn_ins"][:, -1].astype(np.float64)
    return kept.keys.assign(dividend=whole).dropna(subset=["dividend"]).drop_duplicates(_SAMPLE)[[*_SAMPLE, "dividend"]]


def redundancy(scored: Scored) -> list[Dividend]:
    """The dividend of every model that has one, over instances, and what F_syn makes of its oracle where they turn."""
    rows = []
    known = scored.frame.dropna(subset=["dividend"])
    for model, own in known.drop_duplicates(_SAMPLE).groupby("model", observed=True):
        values = own["dividend"]
        mean = bootstrap_mean(values, rng=scored.rng(f"dividend {model}"), clusters=own["cluster"])
        low = known[(known["model"] == model) & (known["dividend"] < -scored.margin) & (known["metric"] == "f_syn")]
        table = low.pivot_table(index="cluster", columns="explainer.name", values="value", observed=True)
        gain = None
        if {ORACLE, NOISE} <= set(table.columns):
            gain = paired_difference(table[ORACLE], table[NOISE], rng=scored.rng(f"oracle {model}"))
        counts = int((values > scored.margin).sum()), int((values < -scored.margin).sum())
        rows.append(Dividend(str(model), mean, counts[0], len(values) - sum(counts), counts[1], gain))
    return rows


# --- effects and agreement ---


def effect(fit: MixedModel, explainer: str) -> Estimate | None:
    """The effect of an explainer over the reference, with Wald's interval; None where the fit has none."""
    return difference(fit, [explainer], []) if explainer in fit.coefficients.index else None


def effects_of(fit: MixedModel, names: Sequence[str]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Effects of some explainers, the reference being zero, and their covariance."""
    known = list(fit.coefficients.index)
    pick = np.zeros((len(names), len(known)))
    for row, name in enumerate(names):
        if name in known:
            pick[row, known.index(name)] = 1.0
    return pick @ fit.coefficients["coef"].to_numpy(), pick @ fit.covariance.to_numpy() @ pick.T


def difference(fit: MixedModel, first: Sequence[str], second: Sequence[str]) -> Estimate:
    """Mean effect of some explainers minus that of others (of the reference, if there are none), with its interval."""
    effects, covariance = effects_of(fit, [*first, *second])
    weights = np.array([1 / len(first)] * len(first) + [-1 / max(len(second), 1)] * len(second))
    value, se = float(weights @ effects), float(np.sqrt(weights @ covariance @ weights))
    return Estimate(value, se, value - 1.959964 * se, value + 1.959964 * se, fit.n, fit.n_dropped)


@dataclass(frozen=True)
class Coverage:
    """What an explainer's failures do to its effect: with them left out, and with each counted as noise."""

    explainer: str
    explanations: int
    failed: int
    not_applicable: int
    left_out: Estimate | None
    as_noise: Estimate | None

    @property
    def agrees(self) -> bool:
        """Whether both say the same about the explainer and the reference: better, worse, or not told apart."""
        return _side(self.left_out) == _side(self.as_noise)


def _side(estimate: Estimate | None) -> int | None:
    return None if estimate is None else int(estimate.low > 0) - int(estimate.high < 0)


def coverage(scored: Scored) -> list[Coverage]:
    """Every ranked explainer but the reference, those with most failures first."""
    filled = scored.with_failures_as_noise()
    rows = []
    for explainer, own in scored.rows("f_syn").groupby("explainer", observed=True):
        if explainer == scored.reference:
            continue
        counts = own["status"].value_counts()
        rows.append(
            Coverage(
                str(explainer), len(own), int(counts.get("failure", 0)), int(counts.get("not_applicable", 0)),
                effect(scored.effects, str(explainer)), effect(filled.effects, str(explainer)),
            )
        )  # fmt: skip
    return sorted(rows, key=lambda one: (-one.failed, one.explainer))


def agreement(scored: Scored, first: str, second: str, dataset: str | None, by: By = "ranks") -> Estimate | None:
    """Kendall's tau between the orders of explainers under two metrics; None where too few are ranked."""
    a, b = scored.wide(first, dataset), scored.wide(second, dataset)
    both = a.index.intersection(b.index)
    a, b = a.loc[both], b.loc[both]
    try:
        rng = scored.rng(f"{first}{second}{dataset}")
        clusters = scored.clusters_of(a)
        return ranking_agreement(a, b, (BETTER[first], BETTER[second]), by=by, rng=rng, clusters=clusters)
    except BadInput:
        return None
