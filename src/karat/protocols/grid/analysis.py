"""Rows of protocol `grid` with short names, and what follows from them: the models, RQ1, RQ2, the paper's tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from karat.kernel.errors import BadInput
from karat.kernel.identity import generator
from karat.models.claims import bar_for
from karat.protocols.common.controls import NOISE, ORACLE, UNIFORM
from karat.protocols.common.rows import frame_of
from karat.protocols.grid.exact_reference import known_answers
from karat.statistics import Estimate, bootstrap_mean

BUCKET = ["form", "qtype", "depth", "density"]
META = ("mode", "bucket", "preset", "seed", "index", *BUCKET)
ANCHORED = ("SO", "CO", "M", "CMP")
FLOORS, CEILING = (NOISE, UNIFORM), ORACLE
NOTHING = Estimate(np.nan, np.nan, np.nan, np.nan, 0, 0)
_PLAIN = ("model", "explainer", "metric", "sample", "answer", "expected", "value", "status", "reason")
_FACTS = {"explainer.name": "method", "explainer.is_control": "is_control"}  # every run has them
_MORE = {"explainer.part": "part", "explainer.absence": "absence", "explainer.value": "value_kind"}  # some runs have
_QTYPES = ("A", "SO", "CO", "M", "CMP", "REL")
_TWINS = {"reasons": "pure", "matches_words": "spur"}
_SHARED = ("size", "cell", "seed")  # facts in which both twins of a pair are alike
_UNLIKELY = 0.001  # that a bucket's samples show a twin to fail which does not; there are 38 buckets
_ANSWER = {"pure": "truth", "spur": "shortcut"}


@dataclass(frozen=True)
class Scenario:
    """A twin on the samples of one mode (gridvqax2026 section 5.1)."""

    twin: str
    mode: str

    @property
    def name(self) -> str:
        return f"{self.twin} twin on {self.mode}"


PURE, SPUR, CROSS = Scenario("pure", "pure"), Scenario("spur", "spur"), Scenario("spur", "pure")
SCENARIOS = (PURE, SPUR, CROSS)


# ---- rows


def tidy(scores: pd.DataFrame) -> pd.DataFrame:
    """The columns that analyses read, of `Run.scores()`.

    Of the model: `family` (its pair of twins), `architecture`, `twin` (empty for models that are no twins), `dose`,
    `model_seed`, `breaks_in` (absent states, by commas); of the explainer: `method` (registered name), `is_control`,
    `part`, `absence`, `value_kind`. A sample
    that several datasets of a run have (their buckets may overlap) counts once: the dataset with the most samples of a
    bucket stands, and as a whole, so that blocks stay together.
    """
    missing = [name for name in (*(f"meta.{name}" for name in META), *_FACTS, "model.mechanism") if name not in scores]
    if missing:
        raise BadInput(
            f"these rows are not of protocol grid on the grid world: no {missing[0]}. "
            "Run the protocol on the dataset `grid` and read its rows with `load_run(path).scores()`."
        )
    more = {name: short for name, short in _MORE.items() if name in scores}
    rows = scores[[*_PLAIN, *_FACTS, *more, *(f"meta.{name}" for name in META)]]
    if "dataset" in scores and scores["dataset"].nunique() > scores["meta.mode"].nunique():
        rows = rows[_once_each(scores)]
    rows = rows.rename(columns={**_FACTS, **more, **{f"meta.{name}": name for name in META}})
    known = models(scores)
    columns: dict[str, Any] = {short: None for short in _MORE.values() if short not in rows}
    columns |= {str(name): rows["model"].map(known[name]) for name in known}
    return rows.assign(**columns)


def models(scores: pd.DataFrame) -> pd.DataFrame:
    """The run's models by label: architecture, family, twin, dose, model_seed, each from what the models say of
    themselves. Twins of one family are alike in everything but their mechanism, their seeds included.
    """
    known = scores.drop_duplicates("model").set_index("model")
    architecture = known["model.family"].astype(object)
    dosed = known["model.variant"] == "dose" if "model.variant" in known else pd.Series(False, index=known.index)
    twin = known["model.mechanism"].astype(object).map(_TWINS).where(~dosed).fillna("")
    world = known.reindex(columns=[f"model.{name}" for name in _SHARED])
    family = dict.fromkeys(known.index, "")
    for name, own in world[(twin != "") | dosed].groupby(architecture, observed=True):
        telling = [fact for fact in _SHARED if own[f"model.{fact}"].nunique() > 1]
        for label, facts in own.iterrows():
            text = ", ".join(f"{fact} {facts[f'model.{fact}']:g}" for fact in telling)
            family[label] = f"{name} ({text})" if text else str(name)
    nothing = pd.Series(np.nan, index=known.index)
    dose = known["model.dose"].where(dosed) if "model.dose" in known else nothing
    seed = known.get("model.seed", nothing)
    broken = known.get("model.breaks_in", nothing)
    return pd.DataFrame(
        {
            "architecture": architecture, "family": pd.Series(family), "twin": twin, "dose": dose, "model_seed": seed,
            "breaks_in": broken,
        }
    )  # fmt: skip


def _once_each(scores: pd.DataFrame) -> npt.NDArray[np.bool_]:
    places = ["model", "explainer", "meta.preset", "meta.mode", "meta.bucket", "meta.seed"]
    sizes = scores.groupby([*places, "dataset"], observed=True)["sample"].nunique()
    best = pd.MultiIndex.from_tuples(sizes.groupby(level=places, observed=True).idxmax())
    return np.asarray(pd.MultiIndex.from_frame(scores[[*places, "dataset"]]).isin(best))


def families(rows: pd.DataFrame) -> list[str]:
    """Families of which both twins are there."""
    twins = rows.loc[rows["twin"] != "", ["family", "twin"]].drop_duplicates()
    return sorted(str(name) for name, own in twins.groupby("family") if set(own["twin"]) == {"pure", "spur"})


def scenario(rows: pd.DataFrame, family: str, which: Scenario) -> pd.DataFrame:
    return rows[(rows["family"] == family) & (rows["twin"] == which.twin) & (rows["mode"] == which.mode)]


def relational(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows on which the twins' reasons differ: pure samples of relational questions."""
    anchored = rows["qtype"].isin(ANCHORED) & ~((rows["qtype"] == "CMP") & (rows["depth"] == 1))
    return rows[anchored & (rows["mode"] == "pure")]


def once(rows: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """One row for each `by`: one with an answer, if any has. Where an explainer was lost, its row has none."""
    return rows.sort_values("answer", key=pd.isna, kind="stable").drop_duplicates(by).sort_index()


def in_paper_order(table: pd.DataFrame) -> pd.DataFrame:
    """Form 0 before form 1, types as the paper lists them, then depth and density."""
    by = [column for column in BUCKET if column in table]
    return table.sort_values(by, key=_rank, kind="stable", ignore_index=True)


def _rank(column: Any) -> Any:
    return column.map({name: place for place, name in enumerate(_QTYPES)}) if column.name == "qtype" else column


def coverage(rows: pd.DataFrame, metric: str) -> str:
    """How many of the rows of a metric have a value, and how many there are."""
    values = rows.loc[rows["metric"] == metric, "value"]
    return f"{values.count()}/{len(values)}"


def with_values(rows: pd.DataFrame, metric: str) -> list[str]:
    """Explainers that have a value of a metric somewhere: methods first, controls below them."""
    known = rows[(rows["metric"] == metric) & rows["value"].notna()].drop_duplicates("explainer")
    return [str(name) for name in known.sort_values(["is_control", "explainer"])["explainer"]]


# ---- estimates


def mean_with_interval(values: npt.ArrayLike, name: str) -> Estimate:
    """The mean with a 95 % bootstrap interval; the stream of draws is that of the name."""
    return bootstrap_mean(np.asarray(values, dtype=np.float64), rng=generator(0, name, "grid/findings"), resamples=1000)


def mean_of_few(values: npt.ArrayLike) -> Estimate:
    """The mean with a 95 % interval by Student's t, which holds for a few blocks too; no interval below three."""
    given = np.asarray(values, dtype=np.float64)
    kept = given[~np.isnan(given)]
    n, dropped = len(kept), len(given) - len(kept)
    if n < 3:
        return Estimate(float(kept.mean()) if n else np.nan, np.nan, np.nan, np.nan, n, dropped)
    value, se = float(kept.mean()), float(kept.std(ddof=1) / np.sqrt(n))
    half = float(stats.t.ppf(0.975, n - 1)) * se
    return Estimate(value, se, value - half, value + half, n, dropped)


def difference(first: npt.ArrayLike, second: npt.ArrayLike) -> Estimate:
    """Mean of first less mean of second, of different samples, with a 95 % interval (Welch)."""
    one, two = (np.asarray(v, dtype=np.float64) for v in (first, second))
    dropped = int(np.isnan(one).sum() + np.isnan(two).sum())
    one, two = one[~np.isnan(one)], two[~np.isnan(two)]
    n = len(one) + len(two)
    if len(one) < 2 or len(two) < 2:
        return Estimate(np.nan, np.nan, np.nan, np.nan, n, dropped)
    value = float(one.mean() - two.mean())
    parts = np.array([one.var(ddof=1) / len(one), two.var(ddof=1) / len(two)])
    se = float(np.sqrt(parts.sum()))
    freedom = parts.sum() ** 2 / (parts**2 / [len(one) - 1, len(two) - 1]).sum() if se else n - 2.0
    half = float(stats.t.ppf(0.975, freedom)) * se
    return Estimate(value, se, value - half, value + half, n, dropped)


def share(right: pd.Series[bool]) -> Estimate:
    """A proportion with Wilson's interval, which does not shrink to nothing where all are right."""
    n, k = len(right), int(right.sum())
    if not n:
        return NOTHING
    low, high = stats.binomtest(k, n).proportion_ci(method="wilson")
    return Estimate(k / n, np.nan, float(low), float(high), n, 0)


# ---- RQ1: the same scores in three scenarios, and on both twins by sample


def paired_change(rows: pd.DataFrame, family: str, explainer: str, metric: str) -> Estimate:
    """Spur twin less pure twin on the very same pure samples."""
    both = both_twins(rows[(rows["explainer"] == explainer) & (rows["metric"] == metric)], family)
    return mean_with_interval(both["spur"] - both["pure"], f"{family} {explainer} {metric}")


def both_twins(rows: pd.DataFrame, family: str) -> pd.DataFrame:
    """Columns pure and spur, a row for every pure sample that both twins were asked about."""
    parts = {which.twin: scenario(rows, family, which).set_index("sample")["value"] for which in (PURE, CROSS)}
    return pd.concat(parts, axis=1, join="inner")


def own_data_change(rows: pd.DataFrame, family: str, explainer: str, metric: str) -> Estimate:
    """Spur twin on spur less pure twin on pure: what the paper compares. Other samples, so unpaired."""
    mine = rows[(rows["explainer"] == explainer) & (rows["metric"] == metric)]
    pure, spur = (scenario(mine, family, which)["value"] for which in (PURE, SPUR))
    return difference(spur, pure)


# ---- RQ2: relations, or the area of the mask?


def effect(rows: pd.DataFrame, explainer: str, metric: str, column: str, high: float, low: float) -> Estimate:
    """Mean where `column` is `high` less mean where it is `low`, over the question types that have both."""
    if high == low:
        return difference([], [])
    mine = rows[(rows["explainer"] == explainer) & (rows["metric"] == metric)]
    if column == "form":
        mine = mine[mine["qtype"] != "CMP"]  # comparisons come in one form only
    return difference(mine[mine[column] == high]["value"], mine[mine[column] == low]["value"])


def dime_gain(rows: pd.DataFrame, metric: str) -> dict[str, Estimate]:
    """Interaction map less unimodal map of DIME on the same samples; where a run has several settings of DIME, the
    parts of one absence belong together."""
    mine = rows[(rows["method"] == "interaction/dime") & (rows["metric"] == metric)]
    gains = {}
    for _, own in mine.groupby("absence", dropna=False, observed=True):
        labels = {part: sorted(own.loc[own["part"] == part, "explainer"].unique()) for part in ("mi", "uc")}
        for name, other in zip(labels["mi"], labels["uc"], strict=False):
            both = own.pivot_table(index=["model", "sample"], columns="explainer", values="value")
            both = both.reindex(columns=[name, other])  # one of them may have no value at all
            gains[str(name)] = mean_with_interval((both[name] - both[other]).to_numpy(), f"{name} {metric}")
    return gains


@dataclass(frozen=True)
class Place:
    """Where an explainer stands between its floor (0) and its ceiling (1), on the samples that all of them have."""

    mean: float
    floor: float
    ceiling: float
    place: float
    used: int


def placed(values: pd.DataFrame, name: str, floors: list[str], ceilings: list[str]) -> Place:
    """`values` (samples × explainers). Without floors or ceiling there is no place, only the mean."""
    scale = [each for each in (*floors, *ceilings) if each in values]
    shared = values[list(dict.fromkeys([name, *scale]))].dropna()
    if not len(shared):
        return Place(np.nan, np.nan, np.nan, np.nan, 0)
    means = shared.mean()
    top = means.reindex(ceilings).max() if ceilings else np.nan
    low = means.reindex(floors) if floors else pd.Series([np.nan])
    # the better of them is the nearer one: a true map of the pure twin has less on distractors than noise has
    floor = float(low.min() if top < low.min() else low.max())
    room = float(top) - floor
    place = (float(means[name]) - floor) / room if abs(room) > 1e-9 else np.nan
    return Place(float(means[name]), floor, float(top), place, len(shared))


# ---- the paper's tables


def bucket_table(rows: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Long form: form, qtype, depth, density, explainer, mean, std (population, as published), used, of.

    `used` counts the samples that have a value, `of` all samples: what is missing is said, never averaged over.
    """
    chosen = rows[rows["metric"] == metric]
    grouped = chosen.groupby([*BUCKET, "explainer"], observed=True)["value"]
    table = grouped.agg(mean="mean", std=lambda v: v.std(ddof=0), used="count", of="size").reset_index()
    return in_paper_order(table)


def cell(mean: float, std: float, used: int, of: int) -> str:
    """In per cent; how many samples have a value, where not all have.

    >>> cell(0.5, 0.25, 3, 3), cell(0.5, 0.25, 2, 3), cell(0, 0, 0, 3)
    ('50.0 ± 25.0', '50.0 ± 25.0 (2/3)', 'none (0/3)')
    """
    if not used:
        return f"none (0/{of})"
    text = f"{100 * mean:.1f} ± {100 * std:.1f}"
    return text if used == of else f"{text} ({used}/{of})"


def accuracy_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Long form: model, mode, form, qtype, depth, density, right, unanswered (which count as wrong), of."""
    answered = once(rows, ["model", "mode", "sample"])
    answered = answered.assign(right=answered["answer"] == answered["expected"], unanswered=answered["answer"].isna())
    grouped = answered.groupby(["model", "mode", *BUCKET], observed=True)
    table = grouped.agg(right=("right", "sum"), unanswered=("unanswered", "sum"), of=("right", "size"))
    return in_paper_order(table.reset_index())


# ---- is each twin what its name says?


@dataclass(frozen=True)
class Proof:
    """A twin on one mode: `follows` is how often it said what its mechanism says, `needed` what its family must reach
    (`karat.models.claims`; NaN where nothing is asked of it), `worst` the bucket that speaks most against it."""

    family: str
    model: str
    mode: str
    right: float
    follows: float
    of: int
    needed: float
    worst: str
    holds: bool
    missed: str  # which of the bars, in words


def twin_table(rows: pd.DataFrame) -> pd.DataFrame:
    """A `Proof` per twin and mode. A pure twin answers for pure samples only, since nothing was asked of it on others.
    On its own data a twin must hold in every bucket too, as far as the samples can show that it does not."""
    twins = once(rows[rows["twin"] != ""], ["model", "mode", "sample"])
    known = known_answers(twins)
    proofs = []
    keys = ["model", "family", "architecture", "twin", "mode"]
    for (model, family, architecture, twin, mode), group in twins.groupby(keys, observed=True):
        own = known.loc[group["sample"], _ANSWER[str(twin)]].to_numpy()
        followed = pd.Series(group["answer"].to_numpy() == own, index=group["bucket"].to_numpy())
        follows, bar = float(followed.mean()), bar_for(str(architecture))
        needed = bar.overall if twin == mode else bar.follows if twin == "spur" else float("nan")
        buckets = followed.groupby(level=0).agg(["sum", "size"])
        chance = stats.binom.cdf(buckets["sum"].to_numpy(), buckets["size"].to_numpy(), bar.each)
        worst = int(chance.argmin())
        bucket, right, of = str(buckets.index[worst]), int(buckets["sum"].iloc[worst]), int(buckets["size"].iloc[worst])
        below, fails = follows < needed - 1e-9, twin == mode and chance[worst] < _UNLIKELY
        missed = [f"{needed:.0%} needed"] if below else []
        missed += [f"in bucket {bucket} on {right} of {of}, {bar.each:.0%} needed there"] if fails else []
        proofs.append(
            Proof(str(family), str(model), str(mode), float((group["answer"] == group["expected"]).mean()), follows,
                  len(group), needed, f"{bucket} {right / of:.0%}", not missed, "; ".join(missed))
        )  # fmt: skip
    return frame_of(proofs, Proof)


def unproven(rows: pd.DataFrame) -> dict[str, str]:
    """Twins that do not do what their name says, by family, and what they did instead."""
    table = twin_table(rows)
    reasons: dict[str, list[str]] = {}
    for row in table[~table["holds"]].to_dict("records"):
        reasons.setdefault(row["family"], []).append(
            f"{row['model']} follows its mechanism on {row['follows']:.1%} of {row['of']} {row['mode']} samples only "
            f"({row['missed']})"
        )
    return {family: "; ".join(of_twins) for family, of_twins in reasons.items()}
