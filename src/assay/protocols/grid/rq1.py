"""RQ1: can explanations diagnose the shortcut? The same scores in three scenarios, and on both twins by sample."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from assay.kernel.finding import Figure, Finding, Series
from assay.kernel.typing import Scalar
from assay.protocols.grid.frames import (
    CROSS,
    PURE,
    SCENARIOS,
    SPUR,
    difference,
    families,
    is_control,
    mean_with_interval,
    number,
    scenario,
)
from assay.protocols.grid.tables import TITLES
from assay.statistics import Estimate

SECTION = "RQ1: can explanations diagnose the shortcut?"


def paired_change(rows: pd.DataFrame, family: str, explainer: str, metric: str) -> Estimate:
    """Spur twin less pure twin on the very same pure samples."""
    mine = rows[(rows["explainer"] == explainer) & (rows["metric"] == metric)]
    pure, spur = (scenario(mine, family, which).set_index("sample")["value"] for which in (PURE, CROSS))
    both = pd.concat([spur.rename("spur"), pure.rename("pure")], axis=1, join="inner")
    return mean_with_interval(both["spur"] - both["pure"], f"{family} {explainer} {metric}")


def own_data_change(rows: pd.DataFrame, family: str, explainer: str, metric: str) -> Estimate:
    """Spur twin on spur less pure twin on pure: what the paper compares. Other samples, so unpaired."""
    mine = rows[(rows["explainer"] == explainer) & (rows["metric"] == metric)]
    pure, spur = (scenario(mine, family, which)["value"] for which in (PURE, SPUR))
    return difference(spur, pure, metric)


def findings(rows: pd.DataFrame) -> Iterator[Finding]:
    for family in families(rows):
        yield _scenarios(rows, family)
        yield _distractors(rows, family)


def _scenarios(rows: pd.DataFrame, family: str) -> Finding:
    """Mean RMA and IoU per scenario (figures 5b and 6)."""
    of_family = rows[(rows["family"] == family) & rows["metric"].isin(TITLES)]
    per_explainer = {str(name): own for name, own in of_family.groupby("explainer")}
    counted = of_family.groupby("explainer")["value"].count()
    explainers = sorted(counted[counted > 0].index, key=lambda name: (is_control(name), name))
    table: list[tuple[Scalar, ...]] = []
    figures = []
    for metric, title in TITLES.items():
        means = {which: _means(of_family, family, metric, which) for which in SCENARIOS}
        for name in explainers:
            cells: list[Scalar] = []
            for which in SCENARIOS:
                mean, used, of = means[which].get(name, (float("nan"), 0, 0))
                cells += [number(mean), f"{used}/{of}"]
            change = own_data_change(per_explainer[name], family, name, metric)
            table.append((title, name, *cells, number(change.value), number(change.low), number(change.high)))
        figures.append(
            Figure(
                f"{title} by scenario: {family}", "bars", "explainer", title,
                tuple(
                    Series(which.name, tuple(explainers), tuple(_value(means[which], name) for name in explainers))
                    for which in SCENARIOS
                ),
            )
        )  # fmt: skip
    columns = [part for which in SCENARIOS for part in (which.name, f"{which.name}: used")]
    return Finding(
        title=f"Scores by scenario: {family}",
        about="Mean RMA and IoU against anchors and targets over all buckets. `spur - pure` compares each twin on its "
        "own data, with a 95 % interval: a method that cannot tell the twins apart has none.",
        sentences=(),
        columns=("score", "explainer", *columns, "spur - pure", "low", "high"),
        rows=tuple(table),
        section=SECTION,
        figures=tuple(figures),
    )


def _means(rows: pd.DataFrame, family: str, metric: str, which: object) -> dict[str, tuple[float, int, int]]:
    mine = scenario(rows[rows["metric"] == metric], family, which)  # type: ignore[arg-type]  # a Scenario
    found = mine.groupby("explainer")["value"].agg(["mean", "count", "size"])
    return {str(name): (float(mean), int(used), int(of)) for name, mean, used, of in found.itertuples()}


def _value(means: dict[str, tuple[float, int, int]], name: str) -> float | None:
    return number(means.get(name, (float("nan"), 0, 0))[0])  # type: ignore[return-value]  # a float or None


def _distractors(rows: pd.DataFrame, family: str) -> Finding:
    """What the paper asks of a faithful method: near nothing on distractors for pure, much for spur, same samples."""
    table: list[tuple[Scalar, ...]] = []
    low, value, high, names, sentences = [], [], [], [], []
    mine = rows[(rows["family"] == family) & (rows["metric"] == "distractor_mass")]
    per_explainer = {str(name): own for name, own in mine.groupby("explainer")}
    for name in sorted(per_explainer, key=lambda name: (is_control(name), name)):
        own = per_explainer[name]
        change = paired_change(own, family, name, "distractor_mass")
        if change.n == 0:
            continue
        pure, cross = (float(scenario(own, family, which)["value"].mean()) for which in (PURE, CROSS))
        table.append((name, number(pure), number(cross), number(change.value), number(change.low),
                      number(change.high), change.n))  # fmt: skip
        if not is_control(name):
            names.append(name)
            value.append(change.value)
            low.append(change.low)
            high.append(change.high)
    seen = [name for name, bound in zip(names, low, strict=True) if bound > 0]
    if names:
        sentences.append(
            f"On {family}, {len(seen)} of {len(names)} methods put more of their map on distractors when the spur twin "
            f"answers than when the pure twin does (95 % interval above 0)."
        )
    return Finding(
        title=f"Mass on distractors, same samples: {family}",
        about="Share of the map on objects that match the words and break the relations. A faithful map has none for "
        "the pure twin and much for the spur twin. Change with a 95 % interval, paired by sample.",
        sentences=tuple(sentences),
        columns=("explainer", "pure twin", "spur twin", "change", "low", "high", "samples"),
        rows=tuple(table),
        section=SECTION,
        figures=(
            Figure(f"More on distractors for the spur twin: {family}", "intervals", "explainer", "change of share",
                   (Series("change", tuple(names), tuple(value), tuple(low), tuple(high)),), lines=(("none", 0.0),)),
        ) if names else (),
    )  # fmt: skip
