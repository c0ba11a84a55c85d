"""Right for the right reasons? Predictions by correctness, confidence and SSS; and SSS against confidence."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pandas as pd

from karat.kernel.finding import Figure, Finding, Series
from karat.kernel.identity import generator
from karat.protocols.semantic.levels import KEYS
from karat.statistics import spearman

SURE, SPURIOUS = 0.5, 0.5  # from here on a prediction counts as confident, an explanation as spurious
SECTION = "Right and wrong reasons"
_EXAMPLES, _FEWEST, _DRAWN = 4, 6, 4
_FLAGS = (True, False)


def kinds(group: pd.DataFrame) -> Iterator[tuple[tuple[str, str, str], pd.DataFrame]]:
    """The eight kinds of prediction, each with its rows, the most telling first (most spurious, or least)."""
    for right, sure, bad in product(_FLAGS, _FLAGS, _FLAGS):
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


def quadrants(table: pd.DataFrame) -> Finding | None:
    """How many predictions there are of each kind, with examples."""
    known = table.dropna(subset=["sss", "correct", "own_confidence"])
    if known.empty:
        return None
    rows: list[tuple[Any, ...]] = []
    sentences = []
    for keys, group in known.groupby(KEYS, sort=True):
        for kind, chosen in kinds(group):
            names = ", ".join(chosen["sample"].head(_EXAMPLES))
            rows.append((*keys, *kind, len(chosen), len(chosen) / len(group), names))
            if kind == ("correct", "confident", "spurious") and len(chosen):
                sentences.append(
                    f"{keys[0]} with {keys[2]} on {keys[1]}: {len(chosen)} of {len(group)} predictions are correct and "
                    f"confident, yet most of the explanation lies elsewhere: {names}."
                )
    return Finding(
        title="Right for the right reasons?",
        about=f"Predictions by correctness, confidence (from {SURE:g}) and SSS (from {SPURIOUS:g}: most saliency "
        "lies outside). Examples are the extreme ones; find them among the samples of the page, or draw them with "
        "karat.protocols.semantic.gallery.",
        sentences=tuple(sentences),
        columns=(*KEYS, "answer", "confidence", "explanation", "predictions", "share", "examples"),
        rows=tuple(rows),
        section=SECTION,
    )


def against_confidence(table: pd.DataFrame) -> Finding | None:
    """Whether SSS says something that confidence does not."""
    return _against(
        table, "confidence", ("the surer, the more spurious", "the surer, the less spurious"),
        "SSS against confidence",
        "Spearman's ρ between the SSS of an explanation and the model's probability of what is explained, with a 95 % "
        "interval over images. Near 0, SSS says something that confidence does not.",
    )  # fmt: skip


def against_size(table: pd.DataFrame) -> Finding | None:
    """How much of SSS is the size of the object: coarse maps cannot keep within small ones."""
    return _against(
        table, "outside", ("the smaller the object, the higher SSS", "the smaller the object, the lower SSS"),
        "SSS against the size of the object",
        "Spearman's ρ between SSS and the share of the image outside the class, with a 95 % interval over images. "
        "Where it is high, a difference in SSS between classes or datasets may be one of size: look at `gain`.",
    )  # fmt: skip


def _against(table: pd.DataFrame, column: str, ways: tuple[str, str], title: str, about: str) -> Finding | None:
    rows: list[tuple[Any, ...]] = []
    series: list[Series] = []
    sentences = []
    for keys, group in table.dropna(subset=["sss", column]).groupby(KEYS, sort=True):
        if len(group) < _FEWEST or min(group[column].nunique(), group["sss"].nunique()) < 3:
            continue
        rng = generator(0, "\0".join(map(str, keys)), f"semantic/{column}")
        rho = spearman(group["sss"], group[column], rng=rng, clusters=group["image"])
        rows.append((*keys, rho.value, rho.low, rho.high, rho.n))
        told = f"(ρ {rho.value:.2f} [{rho.low:.2f}, {rho.high:.2f}])"
        shown = ways[0] if rho.low > 0 else ways[1] if rho.high < 0 else "no monotone relation is shown"
        sentences.append(f"{keys[0]} with {keys[2]} on {keys[1]}: {shown} {told}.")
        if len(series) < _DRAWN:
            series.append(Series(f"{keys[0]} · {keys[2]}", tuple(group[column]), tuple(group["sss"])))
    if not rows:
        return None
    return Finding(
        title=title,
        about=about,
        sentences=tuple(sentences),
        columns=(*KEYS, "rho", "low", "high", "predictions"),
        rows=tuple(rows),
        section=SECTION,
        figures=(Figure(title, "points", column, "SSS", tuple(series)),),
    )
