"""Findings with every kind of figure, easy and hard: long names, gaps, one point, many series, both signs."""

from __future__ import annotations

import math

import numpy as np

from karat.kernel.finding import Figure, Finding, Series

NAMES = (
    "cam/gradcam", "attention/rollout", "perturbation/rise", "gradient/input", "interaction/multishap(samples=128)",
    "shapley/kernel(budget=2048, baseline=blur)", "control/random", "control/oracle",
)  # fmt: skip
DEPTHS = (1.0, 2.0, 3.0)
_rng = np.random.default_rng(7)


def _bounded(name: str, x: tuple[float | str, ...], base: float, slope: float = 0.0, spread: float = 0.05) -> Series:
    y = [base + slope * k + 0.02 * _rng.standard_normal() for k in range(len(x))]
    return Series(name, x, tuple(y), tuple(v - spread for v in y), tuple(v + spread for v in y))


def bars() -> Figure:
    return Figure(
        "Mass by scenario", "bars", "scenario", "relevance mass",
        tuple(_bounded(name, ("pure", "shortcut"), 0.2 + 0.08 * k) for k, name in enumerate(NAMES[:4])),
        note="Anchors and targets, as the paper counts them.", lines=(("noise", 0.15),),
    )  # fmt: skip


def long_bars() -> Figure:
    y = tuple(0.9 - 0.13 * k for k in range(len(NAMES)))
    one = Series("AUC", NAMES, y, tuple(v - 0.06 for v in y), tuple(v + 0.06 for v in y))
    return Figure("Who tells the twins apart", "bars", "explainer", "AUC", (one,), lines=(("blind", 0.5),))


def lines() -> Figure:
    series = tuple(_bounded(name, DEPTHS, 0.75 - 0.04 * k, -0.06) for k, name in enumerate(NAMES))
    return Figure(
        "Mass over depth", "lines", "hops", "mass", series, "Falls where evidence only adds up.", (("noise", 0.1),)
    )


def curve() -> Figure:
    x = tuple(k / 50 for k in range(51))
    up = Series("insertion", x, tuple(1 - math.exp(-4 * v) for v in x))
    down = Series("deletion", x, tuple(math.exp(-4 * v) if k != 20 else None for k, v in enumerate(x)))
    return Figure("Perturbation curves", "lines", "share of features", "probability", (up, down))


def points() -> Figure:
    series = tuple(Series(name, (float(3**k),), (0.3 + 0.07 * k,)) for k, name in enumerate(NAMES))
    return Figure("Faithfulness against cost", "points", "forward passes", "F_syn", series)


def crowded() -> Figure:
    """Six explainers at one place: names must not cover one another."""
    series = tuple(Series(name, (1.0,), (0.9 + 0.004 * k,)) for k, name in enumerate(NAMES[:6]))
    return Figure("All at one place", "points", "forward passes", "own mass", series, lines=(("oracle", 1.0),))


def cloud() -> Figure:
    x = _rng.random(300)
    y = np.clip(x + 0.1 * _rng.standard_normal(300), 0, 1)
    one = Series("samples", tuple(x.tolist()), tuple(y.tolist()))
    return Figure("Calibration", "points", "exact Shapley interaction", "F_syn", (one,))


def intervals() -> Figure:
    one = _bounded("effect", NAMES, -0.1, 0.06, 0.08)
    return Figure(
        "Effects of the mixed model", "intervals", "explainer", "difference from noise", (one,), lines=(("none", 0.0),)
    )


def two_intervals() -> Figure:
    both = tuple(_bounded(name, NAMES[:5], 0.2 * k, 0.05, 0.1) for k, name in enumerate(("image", "text")))
    return Figure("Effects by modality", "intervals", "explainer", "effect", both, lines=(("none", 0.0), ("half", 0.5)))


def slopes() -> Figure:
    columns = ("visual deletion", "text deletion", "F_syn", "a score with a very long name indeed")
    orders = [_rng.permutation(6) + 1.0 for _ in columns]
    series = [Series(name, columns, tuple(float(o[k]) for o in orders)) for k, name in enumerate(NAMES[:6])]
    series[2] = Series(NAMES[2], columns, (None, *series[2].y[1:3], None))
    return Figure("Ranks between modalities", "slopes", "score", "rank, 1 is best", tuple(series))


def grid() -> Figure:
    columns = tuple(f"D{d}_{q}" for d in (1, 2, 3) for q in ("M", "CMP", "SO"))
    rows = [Series(name, columns, tuple(float(v) for v in _rng.random(9))) for name in NAMES]
    rows[1] = Series(NAMES[1], columns, (None, *rows[1].y[1:]))
    return Figure("Mass in every bucket", "grid", "bucket", "mass", tuple(rows))


def signed_grid() -> Figure:
    metrics = ("insertion", "deletion", "F_syn", "own_mass")
    rows = [
        Series(name, metrics, tuple(1.0 if i == j else float(_rng.uniform(-1, 1)) for j in range(4)))
        for i, name in enumerate(metrics)
    ]
    return Figure("Agreement of the scores", "grid", "score", "Kendall's tau", tuple(rows))


FIGURES = (
    bars, long_bars, lines, curve, points, crowded, cloud, intervals, two_intervals, slopes, grid, signed_grid,
)  # fmt: skip


def findings() -> list[Finding]:
    """The verdict first, then two sections; numbers include NaN and a very small p."""
    verdict = Finding(
        "Which twin made this explanation?",
        "The AUC says how well a classifier tells the twins apart by their explanations.",
        (
            "Two of six explainers tell the twins apart; four cannot be shown to.",
            "perturbation/rise tells the twins apart (AUC 0.97, 0.93 to 1.00).",
            "cam/gradcam cannot be shown to (AUC 0.52, 0.44 to 0.60).",
            *(f"{name}: nothing to be shown." for name in NAMES[3:6]),
        ),
        ("explainer", "auc", "low", "high", "p", "samples"),
        tuple((name, 0.5 + 0.06 * k, 0.4, float("nan"), 10.0 ** -(k + 1), 48) for k, name in enumerate(NAMES)),
        figures=(long_bars(),),
    )
    first = Finding(
        "Scores by scenario", "Means over samples with 95 % intervals.", ("Mass is higher on pure scenes.",),
        ("scenario", "explainer", "mass"), (("pure", "cam/gradcam", 0.41), ("shortcut", "cam/gradcam", 0.3)),
        "RQ1: do maps find the evidence?", (bars(), lines(), curve(), grid()),
    )  # fmt: skip
    second = Finding(
        "What the mixed model says", "Effects on the score, samples and models as random intercepts.",
        ("No effect is far from zero.",), (), (), "RQ2: does it last?",
        (intervals(), two_intervals(), slopes(), signed_grid(), points(), crowded(), cloud()),
    )  # fmt: skip
    return [verdict, first, second]
