"""RQ1: can explanations diagnose the shortcut? The same scores in three scenarios, and on both twins by sample."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from karat.kernel.finding import Figure, Finding, Series
from karat.kernel.typing import Scalar
from karat.protocols.grid.frames import (
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
from karat.protocols.grid.tables import TITLES
from karat.statistics import Estimate

SECTION = "RQ1: can explanations diagnose the shortcut?"
BY_SAMPLE = ("distractor_mass", "distractor_iou", "anchor_mass", "relation_mass")


def paired_change(rows: pd.DataFrame, family: str, explainer: str, metric: str) -> Estimate:
    """Spur twin less pure twin on the very same pure samples."""
    both = _both_twins(rows[(rows["explainer"] == explainer) & (rows["metric"] == metric)], family)
    return mean_with_interval(both["spur"] - both["pure"], f"{family} {explainer} {metric}")


def _both_twins(rows: pd.DataFrame, family: str) -> pd.DataFrame:
    """Columns pure and spur, a row for every pure sample that both twins were asked about."""
    parts = {which.twin: scenario(rows, family, which).set_index("sample")["value"] for which in (PURE, CROSS)}
    return pd.concat(parts, axis=1, join="inner")


def own_data_change(rows: pd.DataFrame, family: str, explainer: str, metric: str) -> Estimate:
    """Spur twin on spur less pure twin on pure: what the paper compares. Other samples, so unpaired."""
    mine = rows[(rows["explainer"] == explainer) & (rows["metric"] == metric)]
    pure, spur = (scenario(mine, family, which)["value"] for which in (PURE, SPUR))
    return difference(spur, pure)


def findings(rows: pd.DataFrame) -> Iterator[Finding]:
    for family in families(rows):
        yield _scenarios(rows, family)
        yield _by_sample(rows, family)


def _scenarios(rows: pd.DataFrame, family: str) -> Finding:
    """Mean RMA and IoU per scenario (figures 5b and 6)."""
    of_family = rows[(rows["family"] == family) & rows["metric"].isin(TITLES)]
    per_explainer = {str(name): own for name, own in of_family.groupby("explainer")}
    counted = of_family.groupby("explainer")["value"].count()
    explainers = sorted(counted[counted > 0].index, key=lambda name: (is_control(name), name))
    silent = sorted(counted[counted == 0].index)
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
        sentences=(f"No map, and so no row: {', '.join(silent)}.",) if silent else (),
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


def _by_sample(rows: pd.DataFrame, family: str) -> Finding:
    """What the paper asks of a faithful method: near nothing on distractors for pure, much for spur, same samples."""
    table: list[tuple[Scalar, ...]] = []
    seen: list[tuple[str, Estimate]] = []
    for metric in BY_SAMPLE:
        mine = rows[(rows["family"] == family) & (rows["metric"] == metric) & (rows["mode"] == PURE.mode)]
        per_explainer = {str(name): own for name, own in mine.groupby("explainer")}
        for name in sorted(per_explainer, key=lambda name: (is_control(name), name)):
            both = _both_twins(per_explainer[name], family)
            change = mean_with_interval(both["spur"] - both["pure"], f"{family} {name} {metric}")
            if not change.n:
                table.append((metric, name, None, None, None, None, None, f"0/{len(both)}"))
                continue
            pure, spur = both.dropna()[["pure", "spur"]].mean()
            table.append((metric, name, number(pure), number(spur), number(change.value), number(change.low),
                          number(change.high), f"{change.n}/{len(both)}"))  # fmt: skip
            if metric == BY_SAMPLE[0] and not is_control(name):
                seen.append((name, change))
    sentences = []
    if seen:
        sentences.append(
            f"On {family}, {sum(change.low > 0 for _, change in seen)} of {len(seen)} methods put more of their map on "
            "distractors when the spur twin answers than when the pure twin does (95 % interval above 0)."
        )
    series = Series("change", tuple(name for name, _ in seen), *(
        tuple(getattr(change, part) for _, change in seen) for part in ("value", "low", "high")
    ))  # fmt: skip
    return Finding(
        title=f"Distractors, anchors and relation words, same samples: {family}",
        about="Shares of the map, or of the word scores, on objects that match the words and break the relations, on "
        "the objects that targets are placed against, and on relation words; and how well the map covers the "
        "distractors. A faithful method has nothing on distractors for the pure twin and much for the spur twin, and "
        "the other way round for anchors and relation words. Change with a 95 % interval, paired by sample.",
        sentences=tuple(sentences),
        columns=("score", "explainer", "pure twin", "spur twin", "change", "low", "high", "samples"),
        rows=tuple(table),
        section=SECTION,
        figures=(
            Figure(f"More on distractors for the spur twin: {family}", "intervals", "explainer", "change of share",
                   (series,), lines=(("none", 0.0),)),
        ) if seen else (),
    )  # fmt: skip
