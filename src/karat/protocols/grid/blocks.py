"""RQ3: do methods that give one number for a dataset follow compositional depth, and should they? (section 5.2)

The paper's check (the additive fallacy) wants a score that rises with depth on the pure twin and stays flat on the spur
twin. It is made here with a trend test over blocks of samples and with bands. Beside it stands what the same method
would give to a perfect reasoner (`exact_reference`): where that does not rise either, a score that does would be wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from karat.protocols.common.rows import frame_of
from karat.protocols.grid.analysis import mean_of_few
from karat.protocols.grid.exact_reference import PLACE, ExactReference, batch_of, exact_reference
from karat.protocols.grid.readings import NO_BLOCKS, WITHIN
from karat.statistics import Trend, page

METRIC = "block_interaction"
_MECHANISM = {"pure": "reasons", "spur": "matches_words"}


@dataclass(frozen=True)
class Block:
    """The method's score of one block, the exact score of a perfect reasoner (NaN where the method has none), and the
    exact dividend; `answerable` is the share of crossed questions with an answer, `of` counts the bucket's samples.
    """

    family: str
    twin: str
    explainer: str
    method: str
    value_kind: str | None
    mode: str
    bucket: str
    form: int
    qtype: str
    depth: int
    density: float
    block: int
    samples: int
    of: int
    score: float
    exact: float
    dividend: float
    answerable: float


_OF_A_BLOCK = ("family", "twin", "explainer", "method", "value_kind", "mode", "bucket", "form", "qtype", "depth",
               "density")  # fmt: skip


def block_scores(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per block: the method's score, the exact score of a perfect reasoner, and the exact dividend.

    A block that has no score (it failed, or its number is not defined) is not there; `of` counts its samples too.
    """
    chosen = rows[(rows["metric"] == METRIC) & (rows["twin"] != "") & (rows["reason"] != NO_BLOCKS)]
    chosen = chosen.sort_values("index", kind="stable")
    known: dict[tuple[object, ...], ExactReference] = {}
    blocks = []
    for key, group in chosen.groupby(["model", "explainer", *PLACE], observed=True):
        starts = np.flatnonzero((group["reason"] != WITHIN).to_numpy()).tolist()
        scored = group["value"].notna().to_numpy()
        ends = [*starts, len(group)][1:]
        for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
            if not scored[start]:
                continue
            block = group.iloc[start:end]
            first = block.iloc[0]
            mechanism = _MECHANISM[first["twin"]]
            place = (*key[2:], mechanism, *block["index"])
            if place not in known:
                known[place] = exact_reference(batch_of(key[2:], block["index"].tolist()), mechanism)
            exact = known[place]
            score = exact.of(first["method"])
            blocks.append(
                Block(**{name: first[name] for name in _OF_A_BLOCK}, block=number, samples=len(block), of=len(group),
                      score=float(first["value"]), exact=np.nan if score is None else score, dividend=exact.dividend,
                      answerable=exact.answerable)
            )  # fmt: skip
    return frame_of(blocks, Block)


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
            mean = mean_of_few(part["score"])
            means[depth] = (mean.value, mean.low, mean.high)
            exact[depth] = float(part["exact"].mean())
            dividend[depth] = float(part["dividend"].mean())
        name = "+".join(f"F{form}" for form in sorted(group["form"].unique()))
        yield Depths(str(explainer), str(qtype), name, means, exact, dividend, _trend(group, "score"),
                     _trend(group, "exact"))  # fmt: skip


def _trend(group: pd.DataFrame, column: str) -> Trend:
    """Page's test: strata are form, density and the number of the block, depths the conditions."""
    table = group.pivot_table(index=["form", "density", "block"], columns="depth", values=column)
    return page(table, "two-sided")
