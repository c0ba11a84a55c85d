"""Right and wrong reasons in a run of `semantic`: kinds of prediction, and how often a blind map has them; relations of
SSS to confidence and size; classes that differ and classes that are confused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd

from karat.kernel.identity import generator
from karat.models.detections import label_of
from karat.protocols.common.controls import ORACLE
from karat.protocols.common.rows import frame_of
from karat.protocols.semantic.analysis import KEYS, LEVEL, mean, place_of
from karat.statistics import Estimate, adjust, paired_difference, proportion, spearman

SURE, SPURIOUS = 0.5, 0.5  # from here on a prediction counts as confident, an explanation as spurious
_FEWEST_PREDICTIONS = 6  # that a correlation is made of
_FEWEST_OF_CLASS = 3
Kind = tuple[str, str, str]


def kinds(group: pd.DataFrame) -> Iterator[tuple[Kind, pd.DataFrame]]:
    """The eight kinds of prediction, each with its rows, the most telling first (most spurious, or least)."""
    for right, sure, bad in product((True, False), repeat=3):
        rows = group[
            ((group["correct"] > 0.5) == right)
            & ((group["own_confidence"] >= SURE) == sure)
            & ((group["sss"] >= SPURIOUS) == bad)
        ].sort_values(["sss", "sample"], ascending=[not bad, True])
        name = (
            "correct" if right else "incorrect",
            "confident" if sure else "unsure",
            "spurious" if bad else "on the class",
        )
        yield name, rows


def known(table: pd.DataFrame) -> pd.DataFrame:
    """Rows that are a prediction of the model, right or wrong, with a score."""
    return table.dropna(subset=["sss", "correct", "own_confidence"])


@dataclass(frozen=True)
class Share:
    """Predictions of one kind among all, with an interval by images, and which they are."""

    model: str
    dataset: str
    explainer: str
    kind: Kind
    share: Estimate
    predictions: int
    of: int
    samples: tuple[str, ...]


def quadrants(table: pd.DataFrame, confidence: float = 0.95) -> list[Share]:
    shares = []
    for keys, group in known(table).groupby(KEYS, sort=True):
        for kind, rows in kinds(group):
            share = proportion(group.index.isin(rows.index), clusters=group["image"], confidence=confidence)
            shares.append(Share(*place_of(keys), kind, share, len(rows), len(group), tuple(rows["sample"])))
    return shares


def best_blind(table: pd.DataFrame) -> dict[tuple[str, str], str]:
    """By model and dataset: the control that never saw the model and has the lowest SSS."""
    blind = table[table["is_control"].astype(bool) & (table["method"] != ORACLE)]
    means = blind.groupby(KEYS)["sss"].mean().dropna()
    return {(str(model), str(dataset)): str(label) for model, dataset, label in means.groupby(KEYS[:2]).idxmin()}


def excess(table: pd.DataFrame, share: Share, control: str, confidence: float = 0.95) -> Estimate:
    """By how much a kind of prediction is more frequent under the method of a share than under a control, over the
    predictions that both have."""
    hits = {}
    for label in (share.explainer, control):
        rows = _of(table, (share.model, share.dataset, label))
        of_kind = {name for kind, members in kinds(rows) if kind == share.kind for name in members["sample"]}
        hits[label] = rows.set_index("sample").index.to_series().isin(of_kind).astype(float)
    both = pd.DataFrame(hits).dropna()
    images = _of(table, (share.model, share.dataset, control)).set_index("sample")["image"].reindex(both.index)
    rng = generator(0, "\0".join((share.model, share.dataset, share.explainer, *share.kind)), "semantic/excess")
    return paired_difference(both[share.explainer], both[control], rng=rng, clusters=images, confidence=confidence)


def share_of_kind(table: pd.DataFrame, place: tuple[str, str, str], kind: Kind) -> float:
    rows = _of(table, place)
    return next(len(members) for name, members in kinds(rows) if name == kind) / len(rows) if len(rows) else np.nan


def _of(table: pd.DataFrame, place: tuple[str, str, str]) -> pd.DataFrame:
    """The predictions of one model on one dataset under one explainer that are known to be right or wrong."""
    model, dataset, explainer = place
    return known(table[(table["model"] == model) & (table["dataset"] == dataset) & (table["explainer"] == explainer)])


@dataclass(frozen=True)
class Relation:
    """Spearman's rho of SSS with another score; `allowing_for_size` is the partial one, given the share of the image
    outside the object, since large objects have a low SSS and are recognised more surely."""

    model: str
    dataset: str
    explainer: str
    rho: Estimate
    allowing_for_size: float
    x: tuple[float, ...]
    sss: tuple[float, ...]


def relations(table: pd.DataFrame, column: str, correct: bool = False) -> list[Relation]:
    """Spearman's rho of SSS with another score, by images; with `correct` at a level for all of them together."""
    groups = [
        (keys, group)
        for keys, group in table.dropna(subset=["sss", column]).groupby(KEYS, sort=True)
        if len(group) >= _FEWEST_PREDICTIONS and min(group[column].nunique(), group["sss"].nunique()) >= 3
    ]
    level = 1 - LEVEL / (len(groups) if correct and groups else 1)
    rows = []
    for keys, group in groups:
        rng = generator(0, "\0".join(map(str, keys)), f"semantic/{column}")
        rho = spearman(group["sss"], group[column], rng=rng, clusters=group["image"], confidence=level)
        partial = partial_correlation(group, "sss", column, "outside")
        rows.append(Relation(*place_of(keys), rho, partial, tuple(group[column]), tuple(group["sss"])))
    return rows


def partial_correlation(rows: pd.DataFrame, first: str, second: str, given: str) -> float:
    """Rank correlation of two columns, a third being held fixed; NaN where one of them does not vary.

    >>> rows = pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0], "b": [2.0, 1.0, 4.0, 3.0], "c": [1.0, 2.0, 4.0, 3.0]})
    >>> round(partial_correlation(rows, "a", "b", "c"), 3), partial_correlation(rows.assign(c=1.0), "a", "b", "c")
    (-0.111, nan)
    """
    ranks = rows[[first, second, given]].dropna().rank()
    if len(ranks) < 4 or (ranks.nunique() < 2).any():
        return float("nan")
    r = ranks.corr().to_numpy()
    left = (1 - r[0, 2] ** 2) * (1 - r[1, 2] ** 2)
    return float((r[0, 1] - r[0, 2] * r[1, 2]) / np.sqrt(left)) if left > 0 else float("nan")


# --- classes


@dataclass(frozen=True)
class ClassBias:
    """How far the gain of a class lies from the mean over the classes of its model; `p` is corrected (Holm)."""

    model: str
    dataset: str
    explainer: str
    label: str
    predictions: int
    images: int
    sss: float
    gap: float
    low: float
    high: float
    p: float


@dataclass(frozen=True)
class Bias:
    """`classes` could differ; those `too_small` have so few images that no difference would survive the correction."""

    classes: pd.DataFrame  # of ClassBias
    too_small: tuple[str, ...]
    least_images: int


def class_bias(table: pd.DataFrame) -> Bias:
    groups = []
    for keys, group in table.dropna(subset=["sss", "gain"]).groupby(KEYS, sort=True):
        centre = group.groupby("label")["gain"].mean().mean()
        groups += [(keys, str(label), part, centre) for label, part in group.groupby("label")]
    sizes = np.array([part["image"].nunique() for _, _, part, _ in groups], dtype=np.int64)
    least = least_that_can_differ(sizes)
    rows = []
    for (keys, label, part, centre), size in zip(groups, sizes, strict=True):
        if size >= least:
            gap = mean(part["gain"] - centre, *keys, label, "gain", clusters=part["image"])
            rows.append(ClassBias(*place_of(keys), label, len(part), int(size), float(part["sss"].mean()), gap.value,
                                  gap.low, gap.high, gap.p))  # fmt: skip
    frame = frame_of(rows, ClassBias)
    frame["p"] = adjust(frame["p"].astype(float), "holm") if len(frame) else frame["p"]
    small = sorted({label for (_, label, _, _), size in zip(groups, sizes, strict=True) if size < least})
    return Bias(frame, tuple(small), least)


def least_that_can_differ(sizes: np.ndarray[tuple[int], np.dtype[np.int64]], level: float = LEVEL) -> int:
    """The least number of images with which a class can pass: its smallest p, 2^(1 - images), times the number of
    classes that are at least as large, must lie below the level.

    >>> least_that_can_differ(np.array([30] * 288)), least_that_can_differ(np.array([5, 6, 6]))
    (14, 7)
    """
    least = 2
    while 2.0 ** (1 - least) * max(1, int((sizes >= least).sum())) >= level:
        least += 1
    return least


@dataclass(frozen=True)
class Confused:
    """Two classes that the model took for one another; `apart` if their intervals, at a level for all, are. `images` is
    how many the smaller one has."""

    model: str
    dataset: str
    explainer: str
    label: str
    other: str
    times: int
    sss: float
    sss_of_other: float
    images: int
    apart: bool


def confused_classes(table: pd.DataFrame) -> list[Confused]:
    first = table[table["explainer"] == min(table["explainer"])] if len(table) else table
    wrong = first[(first["correct"] < 0.5) & first["own"].notna() & first["expected"].notna()]
    counts: dict[tuple[str, str, str, str], int] = {}
    for model, dataset, expected, own in wrong[["model", "dataset", "expected", "own"]].astype(str).to_numpy():
        one, other = sorted((expected, label_of(own)))
        counts[model, dataset, one, other] = counts.get((model, dataset, one, other), 0) + 1
    pairs = []
    for (model, dataset, a, b), times in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        here = table[(table["model"] == model) & (table["dataset"] == dataset)]
        for explainer, group in here.groupby("explainer"):
            one, two = (group.loc[group["label"] == label, "sss"].dropna() for label in (a, b))
            if min(len(one), len(two)) >= _FEWEST_OF_CLASS:
                pairs.append(((model, dataset, str(explainer), a, b), times, one, two))
    level = 1 - LEVEL / max(1, len(pairs))
    rows = []
    for place, times, one, two in pairs:
        first_mean, second_mean = (mean(v, *place, side, level=level) for v, side in ((one, "a"), (two, "b")))
        apart = first_mean.low > second_mean.high or second_mean.low > first_mean.high
        fewest = min(len(one), len(two))
        rows.append(Confused(*place, times, first_mean.value, second_mean.value, fewest, bool(apart)))
    return rows
