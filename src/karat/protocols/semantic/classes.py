"""Class by class: the best and the worst, how far each lies from the rest, and those that are taken for another."""

from __future__ import annotations

from typing import Any

import pandas as pd

from karat.kernel.finding import Finding
from karat.kernel.identity import generator
from karat.protocols.semantic.levels import KEYS, per_class
from karat.statistics import Estimate, adjust, bootstrap_mean

SECTION = "Classes"
_LISTED, _FEWEST, _PAIRS = 5, 3, 60


def extremes(table: pd.DataFrame) -> Finding | None:
    classes = per_class(table)
    classes = classes[classes["predictions"] >= min(_FEWEST, int(classes["predictions"].max()))]
    rows: list[tuple[Any, ...]] = []
    for keys, group in classes.groupby(KEYS, sort=True):
        ordered = group.sort_values(["sss", "label"])
        count = min(_LISTED, len(ordered) // 2)
        for end, part in (("lowest", ordered.head(count)), ("highest", ordered.tail(count).iloc[::-1])):
            for row in part.itertuples():
                rows.append((*keys, end, row.label, row.sss, row.gain, row.outside, row.predictions))
    if not rows:
        return None
    return Finding(
        title="Classes with the lowest and the highest SSS",
        about="Mean SSS by explained class. Small objects have a high SSS by chance alone (`outside`), so read it with "
        "`gain`, which is corrected for that.",
        sentences=(),
        columns=(*KEYS, "end", "class", "SSS", "gain", "outside", "predictions"),
        rows=tuple(rows),
        section=SECTION,
    )


def bias(table: pd.DataFrame) -> Finding | None:
    """Every class against the rest of its model, with intervals corrected for looking at all of them."""
    rows: list[list[Any]] = []
    scored = table.dropna(subset=["sss", "gain"])
    for keys, group in scored.groupby(KEYS, sort=True):
        centre = group.groupby("label")["gain"].mean().mean()
        for label, part in group.groupby("label"):
            if len(part) < _FEWEST:
                continue
            gap = _estimate(part["gain"] - centre, *map(str, keys), str(label), clusters=part["image"])
            rows.append([*keys, label, len(part), float(part["sss"].mean()), gap.value, gap.low, gap.high, gap.p])
    if not rows:
        return None
    corrected = adjust([row[-1] for row in rows], "holm")
    told = [(row, p) for row, p in zip(rows, corrected, strict=True) if p < 0.05]
    sentences = [
        f"{row[0]} with {row[2]}: {row[3]} is explained {'better' if row[6] > 0 else 'worse'} than its other classes "
        f"(gain {row[6]:+.2f} [{row[7]:+.2f}, {row[8]:+.2f}])."
        for row, _ in sorted(told, key=lambda one: one[0][6])[:10]
    ]
    return Finding(
        title="Bias by class",
        about="How far the gain of a class lies from the mean over the classes of the same model and explainer. p is "
        "corrected (Holm) over all classes listed; classes with fewer than three predictions are left out.",
        sentences=tuple(sentences),
        columns=(*KEYS, "class", "predictions", "SSS", "gain minus mean", "low", "high", "p"),
        rows=tuple((*row[:-1], float(p)) for row, p in zip(rows, corrected, strict=True)),
        section=SECTION,
    )


def confusable(table: pd.DataFrame) -> Finding | None:
    """Pairs of classes that the model takes for one another, and whether it looks at both alike (Case 4)."""
    if table.empty:
        return None
    first = table[(table["rank"] == 1) & (table["explainer"] == min(table["explainer"]))]
    wrong = first[(first["correct"] < 0.5) & first["own"].notna() & first["expected"].notna()]
    counts: dict[tuple[Any, ...], int] = {}
    for row in wrong.itertuples():
        pair = (row.model, row.dataset, *sorted((str(row.expected), str(row.own))))
        counts[pair] = counts.get(pair, 0) + 1
    pairs = []
    for (model, dataset, a, b), count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        own = table[(table["model"] == model) & (table["dataset"] == dataset)]
        for explainer, group in own.groupby("explainer"):
            one, two = (group.loc[group["label"] == label, "sss"].dropna() for label in (a, b))
            if len(one) >= _FEWEST and len(two) >= _FEWEST:
                pairs.append((model, dataset, str(explainer), a, b, count, one, two))
    rows: list[tuple[Any, ...]] = []
    level = 1 - 0.05 / max(1, len(pairs))  # an interval that holds for all pairs looked at
    for *place, count, one, two in pairs[:_PAIRS]:
        ea, eb = (_estimate(v, *map(str, place), side, level=level) for v, side in ((one, "a"), (two, "b")))
        apart = ea.low > eb.high or eb.low > ea.high
        rows.append((*place, count, ea.value, eb.value, ea.value - eb.value, apart))
    if not rows:
        return None
    return Finding(
        title="Classes that are taken for one another",
        about="Pairs that the model confused at least once, with the SSS of each: a gap says that it looks at one of "
        "two similar classes in the right place and not at the other. `apart`: their intervals do not overlap, at a "
        "level that holds for all pairs looked at (Bonferroni).",
        sentences=(),
        columns=(*KEYS, "class", "other", "confused", "SSS", "SSS of other", "difference", "apart"),
        rows=tuple(rows),
        section=SECTION,
    )


def _estimate(values: pd.Series, *parts: str, clusters: pd.Series | None = None, level: float = 0.95) -> Estimate:
    rng = generator(0, "\0".join(parts), "semantic/class")
    return bootstrap_mean(values, rng=rng, clusters=clusters, confidence=level)
