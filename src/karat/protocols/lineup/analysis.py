"""What a run of `lineup` shows, as frames: accusations, habits, confusion, parts, doses, implants."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from karat.kernel.identity import generator
from karat.protocols.common.rows import frame_of
from karat.protocols.lineup.identification import with_facts
from karat.protocols.lineup.pointing import POINTED
from karat.statistics import Estimate, bootstrap_mean, paired_difference, ranking_agreement, wide

Floats = npt.NDArray[np.float64]
NULL = "content"  # the rule that doses of others leave over


@dataclass(frozen=True)
class Accusation:
    """How often one explainer accused rightly: of one model, or (`model` is "all") over all of them."""

    explainer: str
    is_control: bool
    model: str
    rule: str
    metric: str
    value: float
    low: float
    high: float
    n: int


@dataclass(frozen=True)
class Habit:
    """`blind`: how often an explainer's accusations of *other* models, whose rules use none of the same cues on that
    sample, would have been right. `excess`: how much more often its own are. No excess, no knowledge of the rule,
    however smooth a map is and wherever such maps lie."""

    explainer: str
    blind: float
    excess: float
    excess_low: float
    excess_high: float
    n: int


@dataclass(frozen=True)
class Accused:
    """How often an explainer accused one cue, over the models of one rule."""

    explainer: str
    rule: str
    cue: str
    share: float
    n: int


@dataclass(frozen=True)
class Parts:
    """Where a rule uses two cues: how often both are accused first, one alone, or neither."""

    explainer: str
    is_control: bool
    model: str
    rule: str
    both: float
    low: float
    high: float
    one: float
    neither: float
    n: int


@dataclass(frozen=True)
class Dose:
    """How often an explainer accused the planted cue of a model that follows it with probability `dose`. `excess` is
    that minus how often it accuses the cue where nothing was planted (dose 0), on the same samples."""

    explainer: str
    is_control: bool
    rule: str
    dose: float
    share: float
    low: float
    high: float
    excess: float
    excess_low: float
    excess_high: float
    n: int


@dataclass(frozen=True)
class Order:
    """Kendall's tau between the orders of explainers on two groups of models of the same rules."""

    first: str
    second: str
    differs_in: str
    rules: int
    tau: float
    low: float
    high: float
    samples: int


def accusations(scores: pd.DataFrame, metric: str) -> pd.DataFrame:
    """One row for each explainer and model, and one for each explainer over all models, with intervals clustered by
    photograph. Every sample that counts weighs the same, so that hits have the interval of a proportion."""
    rows = scores[(scores["metric"] == metric) & scores["value"].notna()]
    made: list[Accusation] = []
    for explainer, own in rows.groupby("explainer", observed=True, sort=False):
        control = bool(own["explainer.is_control"].iloc[0])
        groups = [
            *own.groupby(["model", "model.mechanism"], observed=True, sort=False, dropna=False),
            (("all", "all"), own),
        ]
        for (model, rule), part in groups:
            e = _mean(part["value"].to_numpy(), part["meta.photograph"].to_numpy(), metric, explainer, model)
            made.append(Accusation(str(explainer), control, str(model), str(rule), metric, e.value, e.low, e.high, e.n))
    return frame_of(made, Accusation)


def habits(rows: pd.DataFrame) -> pd.DataFrame:
    """`Habit` of every explainer, from `percentile_rows`."""
    made = []
    for explainer, own in rows.groupby("explainer", observed=True, sort=False) if len(rows) else ():
        table = own[[f"of_{cue}" for cue in POINTED]].to_numpy(dtype=np.float64)
        used = own[[f"uses_{cue}" for cue in POINTED]].to_numpy(dtype=np.float64) > 0
        accused = np.nanargmax(np.where(np.isnan(table), -1.0, table), axis=1)
        hits = used[np.arange(len(used)), accused]
        blind = np.full(len(own), np.nan)
        for places in own.reset_index(drop=True).groupby("sample", observed=True).indices.values():
            for i in places:
                others = [j for j in places if not (used[i] & used[j]).any()]
                if others:
                    blind[i] = np.mean([used[i][accused[j]] for j in others])
        excess = np.where(np.isnan(blind), np.nan, hits - np.nan_to_num(blind))
        e = _mean(excess, own["meta.photograph"].to_numpy(), "habit", explainer)
        mean = float(np.nanmean(blind)) if np.isfinite(blind).any() else float("nan")
        made.append(Habit(str(explainer), mean, e.value, e.low, e.high, e.n))
    return frame_of(made, Habit)


def one_photograph(rows: pd.DataFrame) -> pd.DataFrame:
    """Whom every explainer accuses of each model on one sample: the first of those that most models followed their rule
    on. Rows are rules, columns explainers; None where an explainer says nothing. From `percentile_rows`."""
    if not len(rows):
        return pd.DataFrame()
    counts = rows.groupby("sample", observed=True)["model"].nunique()
    sample = min(counts.index[counts == counts.max()])
    own = rows[rows["sample"] == sample]
    table = own[[f"of_{cue}" for cue in POINTED]].to_numpy(dtype=np.float64)
    accused = np.array(POINTED, dtype=object)[np.nanargmax(np.where(np.isnan(table), -1.0, table), axis=1)]
    return own.assign(accused=accused).pivot(index="model", columns="explainer", values="accused")


def confusion(scores: pd.DataFrame) -> pd.DataFrame:
    """Who is accused, by rule: models that follow one rule alone, whatever their samples' certificates say."""
    cues = {f"accuses_{cue}": cue for cue in POINTED}
    rows = scores[scores["metric"].isin(list(cues)) & scores["value"].notna() & scores["model.mechanism"].notna()]
    made = [
        Accused(str(explainer), str(rule), cues[str(metric)], float(part["value"].mean()), len(part))
        for (explainer, rule, metric), part in rows.groupby(
            ["explainer", "model.mechanism", "metric"], observed=True, sort=False
        )
    ]
    return frame_of(made, Accused)


def parts(scores: pd.DataFrame) -> pd.DataFrame:
    """`Parts` of every explainer and model, where two cues are needed."""
    rows = scores[(scores["metric"] == "parts_named") & scores["value"].notna()]
    made = []
    for (explainer, model), part in rows.groupby(["explainer", "model"], observed=True, sort=False):
        values = part["value"].to_numpy(dtype=np.float64)
        e = _mean((values == 1).astype(np.float64), part["meta.photograph"].to_numpy(), "parts", explainer, model)
        one, neither = float(((values > 0) & (values < 1)).mean()), float((values == 0).mean())
        control, rule = bool(part["explainer.is_control"].iloc[0]), str(part["model.mechanism"].iloc[0])
        made.append(Parts(str(explainer), control, str(model), rule, e.value, e.low, e.high, one, neither, e.n))
    return frame_of(made, Parts)


def doses(scores: pd.DataFrame) -> pd.DataFrame:
    """The share of samples on which the planted cue is accused, by dose; rules of one cue only. Dose 0 is the model of
    the same family that answers by content."""
    scores, made = with_facts(scores), []
    for cue in POINTED:
        rows = scores[(scores["metric"] == f"accuses_{cue}") & scores["value"].notna()]
        planted = rows[rows["model.variant"] == cue]
        planted = planted[planted["model.dose"] > 0]
        for (family, implant, seed), series in planted.groupby(
            ["model.family", "model.implant", "model.seed"], observed=True, sort=False
        ):
            same = (rows["model.family"] == family) & (rows["model.implant"] == implant) & (rows["model.seed"] == seed)
            null = rows[same & ((rows["model.variant"] == NULL) | (rows["model.dose"] == 0))]
            if cue == NULL or series["model.dose"].nunique() < 2 or null.empty:
                continue
            made += list(_curve(cue, series, null))
    return frame_of(made, Dose)


def _curve(cue: str, series: pd.DataFrame, null: pd.DataFrame) -> Iterator[Dose]:
    for explainer, own in series.groupby("explainer", observed=True, sort=False):
        before = null[null["explainer"] == explainer].drop_duplicates("sample").set_index("sample")
        control = bool(own["explainer.is_control"].iloc[0])
        for dose, part in [(0.0, before.reset_index()), *own.groupby("model.dose", observed=True, sort=True)]:
            photographs = part["meta.photograph"].to_numpy()
            e = _mean(part["value"].to_numpy(), photographs, "dose", explainer, f"{cue} {dose}")
            unplanted = part["sample"].map(before["value"]).to_numpy(dtype=np.float64)
            rng = generator(0, f"{explainer} {cue} {dose}", "lineup/excess")
            more = paired_difference(part["value"].to_numpy(), unplanted, rng=rng, clusters=photographs)
            rise = (more.value, more.low, more.high) if dose else (0.0, 0.0, 0.0)
            yield Dose(str(explainer), control, cue, float(str(dose)), e.value, e.low, e.high, *rise, e.n)


def implants(scores: pd.DataFrame) -> pd.DataFrame:
    """Does the order of explainers change with how the rule got there? `Order` of every couple of implants on the rules
    that both have, and of every couple of seeds: what another training of the same kind changes."""
    scores = with_facts(scores)
    rows = scores[(scores["metric"] == "pointing") & scores["value"].notna() & ~scores["explainer.is_control"]]
    rows = rows[rows["model.dose"].fillna(1.0) == 1]
    made = []
    for _, family in rows.groupby("model.family", observed=True, sort=False):
        kinds = list(family.groupby(["model.implant", "model.seed"], observed=True, sort=True))
        for ((first, seed), one), ((second, other_seed), other) in combinations(kinds, 2):
            if (first == second) == (seed == other_seed):
                continue  # differs in both
            names = [
                f"{implant}, seed {float(str(number)):g}" for implant, number in ((first, seed), (second, other_seed))
            ]
            order = _order(one, other, names, "seed" if first == second else "implant")
            if order is not None:
                made.append(order)
    return frame_of(made, Order)


def _order(one: pd.DataFrame, other: pd.DataFrame, names: list[str], differs_in: str) -> Order | None:
    rules = sorted(set(one["model.variant"].astype(str)) & set(other["model.variant"].astype(str)))
    tables = [
        wide(rows[rows["model.variant"].isin(rules)], "value", "explainer", ("model.variant", "sample"))
        for rows in (one, other)
    ]
    both = tables[0].index.intersection(tables[1].index)
    explainers = [name for name in tables[0] if name in set(tables[1])]
    first, second = (table.loc[both, explainers].dropna(axis=1, how="all") for table in tables)
    if not rules or len(both) < 2 or min(first.shape[1], second.shape[1]) < 3:
        return None
    photographs = one.drop_duplicates("sample").set_index("sample")["meta.photograph"]
    clusters = photographs.loc[list(both.get_level_values("sample"))].to_numpy()
    rng = generator(0, " ".join(names), "lineup/implants")
    e = ranking_agreement(first, second, by="scores", rng=rng, clusters=clusters)
    return Order(names[0], names[1], differs_in, len(rules), e.value, e.low, e.high, e.n)


def followed(scores: pd.DataFrame) -> Iterator[tuple[str, str, int, int]]:
    """Model, rule, samples on which it followed its rule, samples in all."""
    rows = scores[(scores["metric"] == "pointing") & scores["model.mechanism"].notna()]
    for (model, rule), part in rows.groupby(["model", "model.mechanism"], observed=True, sort=False):
        counts = part.groupby("explainer", observed=True)["value"].agg(["count", "size"])
        kept, of = counts.max()
        yield str(model), str(rule), int(kept), int(of)


def _mean(values: npt.ArrayLike, clusters: npt.NDArray[Any], *name: object) -> Estimate:
    rng = generator(0, " ".join(map(str, name)), "lineup/mean")
    return bootstrap_mean(np.asarray(values, dtype=np.float64), rng=rng, clusters=clusters)
