"""Do image and text bring the answer only together, or each alone? Where each alone suffices, F_syn turns over.

With everything perturbed, F_syn's own step is the dividend of the two modalities, f(both) - f(image) - f(text) +
f(nothing). Where it is negative the modalities are redundant, the features that carry the answer have a *negative*
interaction, and the better an explainer finds them the lower it scores. Such models are set apart from rankings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from karat.kernel.finding import Figure, Finding, Series
from karat.kernel.typing import Scalar
from karat.protocols.synergy.frames import REFERENCE, Scored, number
from karat.statistics import bootstrap_mean, paired_difference

if TYPE_CHECKING:
    from karat.results.run import Run

_ORACLE = "control/oracle"


def dividends(run: Run) -> pd.DataFrame:
    """One row per model, dataset and sample: the dividend of image and text, which is the same for all explainers."""
    kept = run.details("f_syn")
    if not len(kept):
        return pd.DataFrame(columns=["model", "dataset", "sample", "dividend"])
    whole = kept.arrays["syn_ins"][:, -1].astype(np.float64)
    found = kept.keys.assign(dividend=whole).dropna(subset=["dividend"])
    return found.drop_duplicates(["model", "dataset", "sample"])[["model", "dataset", "sample", "dividend"]]


def redundant_models(run: Run) -> tuple[str, ...]:
    """Models whose mean dividend lies below zero with its whole interval."""
    found = []
    for model, own in dividends(run).groupby("model", observed=True):
        rng = np.random.default_rng(0)
        mean = bootstrap_mean(own["dividend"], rng=rng) if len(own) > 1 else None
        if mean is not None and mean.high < 0:
            found.append(str(model))
    return tuple(found)


def redundancy(scored: Scored, run: Run) -> Finding | None:
    """The dividend of every model, and what F_syn makes of its oracle."""
    table = dividends(run)
    if table.empty:
        return None
    rows: list[tuple[Scalar, ...]] = []
    said = []
    for model, own in table.groupby("model", observed=True):
        mean = bootstrap_mean(own["dividend"], rng=scored.rng(f"dividend {model}"), clusters=own["sample"])
        values = scored.all_rows("f_syn").query("model == @model").pivot_table(
            index="instance", columns="explainer", values="value", observed=True
        )  # fmt: skip
        gain = None
        if {_ORACLE, REFERENCE} <= set(values.columns):
            gain = paired_difference(values[_ORACLE], values[REFERENCE], rng=scored.rng(f"oracle {model}"))
        numbers = (number(mean.value), number(mean.low), number(mean.high), float((own["dividend"] < 0).mean()))
        rows.append(
            (
                str(model),
                mean.n,
                *numbers,
                *((None,) * 3 if gain is None else map(number, (gain.value, gain.low, gain.high))),
            )
        )
        if mean.high < 0:
            turned = gain is not None and gain.high < 0
            said.append(
                f"{model} is redundant: image and text each carry the answer (dividend {mean.value:.2f}). "
                + ("Its oracle scores below noise there, so a " if turned else "There a ")
                + "high F_syn is no sign of faithfulness; effects and ranks leave this model out."
            )
    x: tuple[Scalar, ...] = tuple(row[0] for row in rows)
    middle, low, high = (tuple(_float(row[k]) for row in rows) for k in (2, 3, 4))
    return Finding(
        title="Do image and text bring the answer only together?",
        about="The dividend is what image and text bring together beyond what each brings alone. Where it is negative, "
        "the features that matter have negative interactions: finding them lowers F_syn (section 3.2 of the paper "
        "looks at this case for deletion only).",
        sentences=tuple(said),
        columns=(
            "model", "n", "dividend", "low", "high", "share redundant",
            "oracle over noise", "oracle low", "oracle high",
        ),
        rows=tuple(rows),
        section="Limits of deletion (section 3.2)",
        figures=(
            Figure("Dividend of image and text", "intervals", "model", "dividend",
                   (Series("dividend", x, middle, low, high),), "95 % intervals", (("no interaction", 0.0),)),
        ),
    )  # fmt: skip


def _float(value: Scalar) -> float | None:
    return value if isinstance(value, float) else None
