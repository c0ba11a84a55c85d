"""What absence does: the same method in several absent states, on the same samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from karat.kernel.finding import Figure, Finding, Series
from karat.protocols.common.rows import frame_of
from karat.protocols.common.words import number, table_rows
from karat.protocols.grid.analysis import PURE, families, mean_with_interval, scenario
from karat.protocols.grid.verdict import Verdict

SECTION = "Absence: what a hidden cell looks like"
METRICS = {"own_mass": "own mass", "mass": "RMA", "iou": "IoU"}
_MANY = 0.1  # a mean that moves by more than this between states is called dependent on absence


@dataclass(frozen=True)
class AbsenceMean:
    """A method's mean score in one absent state: the pure twin on pure samples."""

    family: str
    method: str
    metric: str
    absence: str
    mean: float
    low: float
    high: float
    samples: int
    of: int


def crossed(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of methods that the run has in several absent states; `method` tells the parts of a method apart."""
    known = rows[rows["absence"].notna()]
    known = known.assign(method=known["method"].astype(str) + np.where(known["part"] == "uc", " (uc)", ""))
    states = known.groupby("method", observed=True)["absence"].transform("nunique")
    return known[states > 1]


def states(rows: pd.DataFrame) -> list[str]:
    """The absent states that the run crosses; none where every method has one."""
    return sorted(str(state) for state in crossed(rows)["absence"].unique())


def broken_states(rows: pd.DataFrame) -> frozenset[str]:
    """States in which one of the rows' models no longer answers as it does (`karat train verify`): what a method says
    there is about the state, so they do not count."""
    told: list[object] = list(rows["breaks_in"].dropna().unique()) if "breaks_in" in rows else []
    return frozenset(state for text in told for state in str(text).split(", "))


def in_state(rows: pd.DataFrame, state: str) -> pd.DataFrame:
    """Rows of one absent state, with those of methods that the run has in one state only, or that hide nothing."""
    others = rows.index.isin(crossed(rows).index) & (rows["absence"] != state)
    return rows[~others]


def absence_means(rows: pd.DataFrame) -> pd.DataFrame:
    """An `AbsenceMean` for every family, method, metric and state."""
    means = []
    for family in families(rows):
        mine = crossed(scenario(rows, family, PURE))
        mine = mine[mine["metric"].isin(METRICS)]
        for (metric, method, state), own in mine.groupby(["metric", "method", "absence"], observed=True):
            mean = mean_with_interval(own["value"], f"{family} {method} {metric} {state}")
            means.append(
                AbsenceMean(family, str(method), str(metric), str(state), mean.value, mean.low, mean.high, mean.n,
                            len(own))
            )  # fmt: skip
    return frame_of(means, AbsenceMean)


def absence_findings(rows: pd.DataFrame, table: Sequence[Verdict]) -> Iterator[Finding]:
    """One finding for each family, if the run crosses absence."""
    means = absence_means(rows)
    verdicts = crossed(rows).drop_duplicates(["method", "explainer"]).set_index("explainer")
    for family, group in means.groupby("family"):
        figures = []
        for metric, title in METRICS.items():
            own = group[group["metric"] == metric].dropna(subset="mean")
            series = tuple(
                Series(str(method), *(tuple(each[c]) for c in ("absence", "mean")))
                for method, each in own.groupby("method")
            )
            if series:
                figures.append(Figure(f"{title} by absence: {family}, {PURE.name}", "bars", "absence", title, series))
        directed = [one for one in table if one.family == family and one.explainer in verdicts.index]
        series = tuple(
            Series(
                str(method),
                tuple(one.absence for one in directed if one.explainer in own.index),
                tuple(number(one.directed) for one in directed if one.explainer in own.index),
            )
            for method, own in verdicts.groupby("method", observed=True)
        )
        if directed:
            figures.append(Figure(f"Directed verdict by absence: {family}", "bars", "absence", "directed", series,
                                  lines=(("blind", 0.5),)))  # fmt: skip
        yield Finding(
            title=f"What absence does: {family}",
            about="Methods that hide cells, each in several absent states on the same samples: means with 95 % "
            "intervals on the pure twin. A model that was never taught what a grey cell means answers something else "
            "about it, and the method reports that: where a mean moves with the state, no statement about the method "
            "stands without it.",
            sentences=tuple(_sentences(group, str(family))),
            columns=tuple(name for name in group.columns if name != "family"),
            rows=table_rows(group.drop(columns="family")),
            section=SECTION,
            figures=tuple(figures),
        )


def _sentences(group: pd.DataFrame, family: str) -> Iterator[str]:
    for (metric, method), own in group.dropna(subset="mean").groupby(["metric", "method"]):
        ordered = own.sort_values("mean")
        worst, best = ordered.iloc[0], ordered.iloc[-1]
        apart = worst["high"] < best["low"] and best["mean"] - worst["mean"] > _MANY
        if apart:
            yield (
                f"{method} on {family}: {METRICS[str(metric)]} is {worst['mean']:.2f} in {worst['absence']} and "
                f"{best['mean']:.2f} in {best['absence']}."
            )
