"""RQ3: do methods that give one number for a dataset follow compositional depth, and should they? (section 5.2)

The paper's check (the additive fallacy) wants a score that rises with depth on the pure twin and stays flat on the spur
twin. It is made here with a trend test over blocks of samples and with bands. Beside it stands what the same method
would give to a perfect reasoner (`yardstick`): where that does not rise either, a score that does would be wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from karat.kernel.finding import Figure, Finding, Series
from karat.kernel.typing import Scalar
from karat.protocols.grid.frames import PURE, SPUR, Scenario, families, mean_of_few, number
from karat.protocols.grid.readings import NO_BLOCKS, WITHIN
from karat.protocols.grid.yardstick import PLACE, Yardstick, batch_of, comparable, yardstick
from karat.statistics import Trend, page, spearman

METRIC = "block_interaction"
SECTION = "RQ3: do global scores follow depth?"
_PERFECT = {"pure": "a perfect reasoner", "spur": "a perfect word-matcher"}
_MECHANISM = {"pure": "reasons", "spur": "matches_words"}


def block_scores(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per block: the method's score, the exact score of a perfect reasoner, and the exact dividend.

    A block that has no score (it failed, or its number is not defined) is not there; `of` counts its samples too.
    """
    chosen = rows[(rows["metric"] == METRIC) & (rows["twin"] != "") & (rows["reason"] != NO_BLOCKS)]
    chosen = chosen.sort_values("index", kind="stable")
    known: dict[tuple[object, ...], Yardstick] = {}
    found = []
    for key, group in chosen.groupby(["model", "explainer", *PLACE], observed=True):
        starts = np.flatnonzero((group["reason"] != WITHIN).to_numpy()).tolist()
        scored = group["value"].notna().to_numpy()
        ends = [*starts, len(group)][1:]
        for number_, (start, end) in enumerate(zip(starts, ends, strict=True)):
            if not scored[start]:
                continue
            block = group.iloc[start:end]
            first = block.iloc[0]
            mechanism = _MECHANISM[first["twin"]]
            place = (*key[2:], mechanism, *block["index"])
            if place not in known:
                known[place] = yardstick(batch_of(key[2:], block["index"].tolist()), mechanism)
            exact = known[place]
            found.append(
                {**{c: first[c] for c in ("family", "twin", "explainer", "mode", "bucket", "form", "qtype", "depth")},
                 "density": first["density"], "block": number_, "samples": len(block), "of": len(group),
                 "score": first["value"], "exact": exact.of(first["explainer"]), "dividend": exact.dividend,
                 "answerable": exact.answerable}
            )  # fmt: skip
    columns = ["family", "twin", "explainer", "mode", "bucket", "form", "qtype", "depth", "density", "block", "samples",
               "of", "score", "exact", "dividend", "answerable"]  # fmt: skip
    return pd.DataFrame(found, columns=columns)


@dataclass(frozen=True)
class Depths:
    """One method on one twin and question type: mean score per depth with its band, and the trend over depth."""

    explainer: str
    qtype: str
    forms: str
    means: dict[int, tuple[float, float, float]]  # depth → value, low, high
    exact: dict[int, float]
    dividend: dict[int, float]
    trend: Trend
    exact_trend: Trend

    @property
    def shape(self) -> str:
        return shape(self.trend)


def shape(trend: Trend) -> str:
    """In words, at 5 % two-sided."""
    if not np.isfinite(trend.p) or trend.p > 0.05:
        return "no trend shown"
    return "rises" if trend.strength > 0 else "falls"


def depths(blocks: pd.DataFrame, forms: tuple[int, ...] = (0, 1)) -> Iterator[Depths]:
    """Per method and question type that comes in several depths. Blocks of other forms are left out."""
    blocks = blocks[blocks["form"].isin(forms)]
    for (explainer, qtype), group in blocks.groupby(["explainer", "qtype"], observed=True):
        if group["depth"].nunique() < 2:
            continue
        means, exact, dividend = {}, {}, {}
        for depth in sorted(group["depth"].unique().tolist()):
            part = group[group["depth"] == depth]
            found = mean_of_few(part["score"])
            means[depth] = (found.value, found.low, found.high)
            exact[depth] = float(part["exact"].astype(float).mean())
            dividend[depth] = float(part["dividend"].mean())
        name = "+".join(f"F{form}" for form in sorted(group["form"].unique()))
        yield Depths(str(explainer), str(qtype), name, means, exact, dividend, _trend(group, "score"),
                     _trend(group, "exact"))  # fmt: skip


def _trend(group: pd.DataFrame, column: str) -> Trend:
    """Page's test: strata are form, density and the number of the block, depths the conditions."""
    table = group.assign(value=group[column].astype(float)).pivot_table(
        index=["form", "density", "block"], columns="depth", values="value"
    )
    return page(table, "two-sided")


def findings(rows: pd.DataFrame) -> Iterator[Finding]:
    blocks = block_scores(rows)
    if blocks.empty:
        return
    for family in families(rows):
        own = blocks[blocks["family"] == family]
        parts = {which: own[(own["twin"] == which.twin) & (own["mode"] == which.mode)] for which in (PURE, SPUR)}
        if any(len(part) for part in parts.values()):
            yield _fallacy(family, parts)
    yield _against_exact(blocks)


def _fallacy(family: str, parts: dict[Scenario, pd.DataFrame]) -> Finding:
    table: list[tuple[Scalar, ...]] = []
    sentences: list[str] = []
    figures: list[Figure] = []
    for which, part in parts.items():
        found = list(depths(part))
        for one in found:
            cells: list[Scalar] = []
            for depth in (1, 2, 3):
                cells += [number(v) for v in one.means.get(depth, (np.nan,) * 3)]
                cells.append(number(one.exact.get(depth, np.nan)))
                cells.append(number(one.dividend.get(depth, np.nan)))
            table.append(
                (which.name, one.explainer, one.qtype, one.forms, *cells, number(one.trend.strength),
                 number(one.trend.p), one.shape, shape(one.exact_trend))
            )  # fmt: skip
            if one.qtype == "M":
                sentences.append(_sentence(family, which, one))
        figures += _figures(family, which, found)
    per_depth = [f"D{depth} {name}" for depth in (1, 2, 3) for name in ("score", "low", "high", "exact", "dividend")]
    return Finding(
        title=f"Additive fallacy: {family}",
        about="The paper asks for scores that rise with depth on the pure twin and stay flat on the spur twin. Scores "
        "are means over blocks of samples with 95 % intervals (Student's t); the trend is Page's test, two-sided. "
        "`exact` is what the same method gives to a perfect reasoner (on the spur twin: a perfect word-matcher) on the "
        "same samples, `dividend` its exact two-modality dividend: that, not depth, is what a score should follow. "
        "EMAP of logits has a scale of its own: only its slope can be held against the exact one, of chances.",
        sentences=tuple(sentences),
        columns=("scenario", "explainer", "type", "forms", *per_depth, "trend", "p", "shape", "exact shape"),
        rows=tuple(table),
        section=SECTION,
        figures=tuple(figures),
    )


def _sentence(family: str, which: Scenario, one: Depths) -> str:
    steps = " → ".join(f"{value:.2f}" for value, _, _ in one.means.values())
    exact = " → ".join(f"{value:.2f}" for value in one.exact.values())
    wished = "rise" if which == PURE else "stay flat"
    return (
        f"{one.explainer} on {family}, {which.name}, mixed questions: {steps} over depth ({one.shape}; the paper wants "
        f"it to {wished}); {_PERFECT[which.twin]} gets {exact} ({shape(one.exact_trend)})."
    )


def _figures(family: str, which: Scenario, found: list[Depths]) -> Iterator[Figure]:
    mixed = [one for one in found if one.qtype == "M"]
    if not mixed:
        return
    series = []
    for one in mixed:
        at = tuple(one.means)
        value, low, high = zip(*one.means.values(), strict=True)
        series.append(Series(one.explainer, at, value, low, high))
        if np.isfinite(list(one.exact.values())).all():
            series.append(Series(f"{one.explainer}, exact", at, tuple(one.exact.values())))
    yield Figure(f"Score over depth, mixed questions: {family}, {which.name}", "lines", "depth", "score", tuple(series),
                 note=f"Bands are 95 % intervals; `exact` is the score of {_PERFECT[which.twin]}.")  # fmt: skip


def _against_exact(blocks: pd.DataFrame) -> Finding:
    """Per bucket: the method beside the exact number, and how well the two agree over buckets."""
    keys = ["family", "twin", "mode", "explainer"]
    table: list[tuple[Scalar, ...]] = []
    sentences = []
    points = []
    for (family, twin, mode, explainer), group in blocks.groupby(keys, observed=True):
        part = group.assign(exact=group["exact"].astype(float))
        per_bucket = part.groupby("bucket", sort=False)
        means = per_bucket[["score", "exact"]].mean()
        for bucket, own in per_bucket:
            found = mean_of_few(own["score"])
            exact = (float(own[name].mean()) for name in ("exact", "dividend", "answerable"))
            numbers = (found.value, found.low, found.high, *exact)
            used = f"{own['samples'].sum()}/{own['of'].iloc[0]}"
            table.append((str(family), f"{twin} twin on {mode}", str(explainer), str(bucket), used, len(own),
                          *map(number, numbers)))  # fmt: skip
        usable = means.dropna()
        if len(usable) >= 4:
            found = spearman(usable["score"], usable["exact"])
            gap = float((usable["score"] - usable["exact"]).abs().mean())
            off = f", its scores lie {gap:.2f} off on average" if comparable(str(explainer)) else ""
            sentences.append(
                f"{explainer} on {family}, {twin} twin on {mode}: over {len(usable)} buckets its order of buckets "
                f"agrees with the exact one at ρ = {found.value:.2f}{off}."
            )
            points.append(Series(f"{explainer}, {family}.{twin} on {mode}", tuple(usable["exact"].tolist()),
                                 tuple(usable["score"].tolist())))  # fmt: skip
    return Finding(
        title="Global scores beside the exact ones, bucket by bucket",
        about="`exact`: the same score for the symbolic executor (for spur twins: for one that matches words) on the "
        "same samples. `dividend`: its exact two-modality dividend 1 - v(image) - v(question) + v(nothing). "
        "`answerable`: how many of the questions have an answer about another sample's image; for the others the "
        "executor guesses as the answers are spread, and what a network says to them is up to the network: where "
        "`answerable` is small, a score may lie far from the exact one without any fault of the method. Intervals are "
        "of the mean over blocks, where there are three or more; `samples` are those in blocks that have a score.",
        sentences=tuple(sentences),
        columns=("family", "scenario", "explainer", "bucket", "samples", "blocks", "score", "low", "high", "exact",
                 "dividend", "answerable"),
        rows=tuple(table),
        section=SECTION,
        figures=(Figure("Score against exact score, per bucket", "points", "exact", "score", tuple(points)),),
    )  # fmt: skip
