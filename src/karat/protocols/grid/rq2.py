"""RQ2: do local explainers follow the relations, or the area of what they are held against?

Plain mass grows with the mask: a uniform map scores the mask's area. So every effect the paper reads off RMA (dense
grids score higher, existence questions lower) is shown for the corrected mass too, on which a uniform map scores 0 and
the truth 1. And every score is shown between its floor (noise, or the same everywhere) and its ceiling (the oracle).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from karat.kernel.finding import Figure, Finding, Series
from karat.kernel.typing import Scalar
from karat.protocols.grid.frames import (
    PURE,
    SCENARIOS,
    Scenario,
    coverage,
    difference,
    families,
    is_control,
    mean_with_interval,
    number,
    scenario,
    show,
)
from karat.statistics import Estimate

SECTION = "RQ2: relations, or the volume of the mask?"
FLOORS, CEILING = ("control/random", "control/uniform"), "control/oracle"
_EFFECTS = ("mass", "corrected_mass", "iou")
_SCALED = ("own_mass", "own_words", "mass", "corrected_mass", "iou", "distractor_mass", "anchor_mass", "relation_mass")


def effect(rows: pd.DataFrame, explainer: str, metric: str, column: str, high: float, low: float) -> Estimate:
    """Mean where `column` is `high` less mean where it is `low`, over the question types that have both."""
    if high == low:
        return difference([], [])
    mine = rows[(rows["explainer"] == explainer) & (rows["metric"] == metric)]
    if column == "form":
        mine = mine[mine["qtype"] != "CMP"]  # comparisons come in one form only
    return difference(mine[mine[column] == high]["value"], mine[mine[column] == low]["value"])


def dime_gain(rows: pd.DataFrame, metric: str) -> dict[str, Estimate]:
    """Interaction map less unimodal map of DIME on the same samples, for every pair of settings that the run has."""
    mine = rows[rows["metric"] == metric]
    names = [name for name in mine["explainer"].unique() if name.startswith("interaction/dime")]
    found = {}
    for name in names:
        other = _unimodal(name, names)
        if other is not None:
            both = mine[mine["explainer"].isin([name, other])].pivot_table(
                index=["model", "sample"], columns="explainer", values="value"
            )
            both = both.reindex(columns=[name, other])  # one of them may have no value at all
            found[name] = mean_with_interval((both[name] - both[other]).to_numpy(), f"{name} {metric}")
    return found


def _unimodal(name: str, names: list[str]) -> str | None:
    """The label of the same settings with part=uc, whatever the order of the parameters."""

    def settings(label: str) -> set[str]:
        return {part.strip() for part in label.partition("(")[2].rstrip(")").split(",")} - {""}

    wanted = settings(name) | {"part=uc"}
    return next((other for other in names if other != name and settings(other) == wanted), None)


def findings(rows: pd.DataFrame) -> Iterator[Finding]:
    for family in families(rows):
        pure = scenario(rows, family, PURE)
        if len(pure):
            yield _volume(pure, family)
        for which in SCENARIOS:
            mine = scenario(rows, family, which)
            if len(mine):
                yield _scale(mine, family, which)
        yield from _dime(pure, family)


def _explainers(rows: pd.DataFrame, metric: str) -> list[str]:
    counted = rows[rows["metric"] == metric].groupby("explainer")["value"].count()
    return sorted(counted[counted > 0].index, key=lambda name: (is_control(name), name))


def _volume(rows: pd.DataFrame, family: str) -> Finding:
    table: list[tuple[Scalar, ...]] = []
    sentences = []
    densities = sorted(rows["density"].unique())
    sparse, dense = densities[0], densities[-1]
    volume = rows[rows["metric"].isin(_EFFECTS)]
    if silent := sorted(set(volume["explainer"]) - set(_explainers(rows, "mass"))):
        sentences.append(f"No map, and so no row: {', '.join(silent)}.")
    per_explainer = {str(name): own for name, own in volume.groupby("explainer")}
    for name in _explainers(rows, "mass"):
        row: list[Scalar] = [name, coverage(per_explainer[name], "mass")]
        found = {}
        for metric in _EFFECTS:
            found["density", metric] = effect(per_explainer[name], name, metric, "density", dense, sparse)
            found["form", metric] = effect(per_explainer[name], name, metric, "form", 0, 1)
        for one in found.values():
            row += [number(one.value), number(one.low), number(one.high)]
        table.append(tuple(row))
        for kind, said in (("density", "dense grids"), ("form", "counting questions")):
            plain, corrected = found[kind, "mass"], found[kind, "corrected_mass"]
            if not is_control(name) and plain.low > 0 and not corrected.low > 0:
                sentences.append(
                    f"{name} on {family}: higher RMA on {said} ({show(plain, 2)}), none left once area is taken out "
                    f"({show(corrected, 2)})."
                )
    columns = [
        f"{kind} {metric} {part}".strip()
        for metric in _EFFECTS
        for kind in ("density", "form")
        for part in ("", "low", "high")
    ]
    return Finding(
        title=f"What density and form do: {family}, {PURE.name}",
        about=f"`density`: mean at d{dense:g} less mean at d{sparse:g}; `form`: counting less existence (comparisons "
        "left out), with 95 % intervals; for RMA (`mass`), RMA corrected for the area of the mask, and IoU. The row of "
        "control/uniform shows what the area of the mask does by itself.",
        sentences=tuple(sentences),
        columns=("explainer", "used", *columns),
        rows=tuple(table),
        section=SECTION,
    )


def _scale(rows: pd.DataFrame, family: str, which: Scenario) -> Finding:
    """Every score between its floor and its ceiling: 0 is the better of the floors, 1 the oracle."""
    table: list[tuple[Scalar, ...]] = []
    places: dict[str, dict[str, float]] = {}
    sentences = []
    for metric in _SCALED:
        mine = rows[rows["metric"] == metric]
        values = mine.pivot_table(index="sample", columns="explainer", values="value", aggfunc="first")
        asked = mine.groupby("explainer")["sample"].nunique()
        for name in _explainers(rows, metric):
            mean, floor, ceiling, place, used = placed(values, name)
            table.append((metric, name, number(mean), f"{used}/{asked[name]}", *map(number, (floor, ceiling, place))))
            places.setdefault(name, {})[metric] = place
        if silent := sorted(set(asked.index) - set(values.columns)):
            sentences.append(f"No {metric} of {', '.join(silent)}.")
    series = tuple(
        Series(name, _SCALED, tuple(_known(own.get(metric, np.nan)) for metric in _SCALED))
        for name, own in places.items()
        if name != "control/inverse_oracle"  # far below all others: it would take the whole scale of colours
    )
    return Finding(
        title=f"Between floor and ceiling: {family}, {which.name}",
        about="`own_mass` and `own_words` are held against what this very model must use, all others against places "
        "and words of the scene. `place` is 0 at the better of noise and the same score everywhere, and 1 at the "
        "oracle, which knows what this model must use: below 0 is worse than saying nothing. For own_mass and "
        "own_words the oracle is the most there is; for the others it says what a true map has, and a place above 1 "
        "means more than that. Explainer, floor and oracle are compared on the samples that all of them have (`used`).",
        sentences=tuple(sentences),
        columns=("score", "explainer", "mean", "used", "floor", "ceiling", "place"),
        rows=tuple(table),
        section=SECTION,
        figures=(Figure(f"Place between floor and ceiling: {family}, {which.name}", "grid", "score", "place", series),),
    )


def placed(values: pd.DataFrame, name: str) -> tuple[float, float, float, float, int]:
    """Mean of an explainer, its floor, its ceiling, its place between them, and on how many samples.

    `values` (samples × explainers). Without floors or ceiling there is no place, only the mean.
    """
    scale = [each for each in (*FLOORS, CEILING) if each in values]
    shared = values[list(dict.fromkeys([name, *scale]))].dropna()
    means = shared.mean()
    ceiling = float(means.get(CEILING, np.nan)) if len(shared) else np.nan
    floors = means.reindex(FLOORS) if len(shared) else pd.Series([np.nan])
    # the better of them is the nearer one: a true map of the pure twin has less on distractors than noise has
    floor = float(floors.min() if ceiling < floors.min() else floors.max())
    mean = float(means[name]) if len(shared) else np.nan
    room = ceiling - floor
    return mean, floor, ceiling, (mean - floor) / room if abs(room) > 1e-9 else np.nan, len(shared)


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _dime(rows: pd.DataFrame, family: str) -> Iterator[Finding]:
    table: list[tuple[Scalar, ...]] = []
    sentences = []
    for metric in ("mass", "corrected_mass", "iou", "own_words"):
        for name, gain in dime_gain(rows, metric).items():
            table.append((name, metric, number(gain.value), number(gain.low), number(gain.high), gain.n))
            how = "gains" if gain.low > 0 else "loses" if gain.high < 0 else "cannot be shown to gain or lose"
            sentences.append(
                f"On {family}, the interaction map of DIME {how} {metric} over its unimodal map: {show(gain)}."
            )
    if table:
        yield Finding(
            title=f"DIME: what the interaction map gains over the unimodal one: {family}, {PURE.name}",
            about="Multimodal interaction (MI) less unimodal contribution (UC), each explained by LIME, paired by "
            "sample, with 95 % intervals.",
            sentences=tuple(sentences),
            columns=("explainer", "score", "gain", "low", "high", "samples"),
            rows=tuple(table),
            section=SECTION,
        )
