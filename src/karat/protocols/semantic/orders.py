"""Judges of what SemScore claims about the order of models, table by table: by intervals over the images of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from karat.kernel.claim import Agreement, Claim
from karat.kernel.identity import generator
from karat.protocols.common.published import Table
from karat.statistics import Estimate, bootstrap_statistic, paired_difference

Names = tuple[str, ...]


def lowest(
    images: pd.DataFrame, table: Table, methods: Mapping[str, str], names: Names, where: str, text: str, spec: str
) -> Claim:
    """`names` lie below the mean of all other models of the table."""
    return _ordered(images, table, methods, names, None, where, text, spec, sign=-1)


def highest(
    images: pd.DataFrame, table: Table, methods: Mapping[str, str], names: Names, where: str, text: str, spec: str
) -> Claim:
    return _ordered(images, table, methods, names, None, where, text, spec, sign=1)


def higher(
    images: pd.DataFrame, table: Table, methods: Mapping[str, str], names: Names, where: str, text: str, spec: str,
    than: Names | None = None,
) -> Claim:  # fmt: skip
    """`names` lie above `than`, or above all other models of the table."""
    return _ordered(images, table, methods, names, than, where, text, spec, sign=1)


def _ordered(
    images: pd.DataFrame, table: Table, methods: Mapping[str, str], names: Names, than: Names | None, where: str,
    text: str, spec: str, sign: int,
) -> Claim:  # fmt: skip
    """Two groups of models, method by method: means over images paired, over the models that the run has."""
    models = [str(row[0]) for row in table.rows]
    others = [m for m in models if m not in names] if than is None else list(than)
    holds = 0
    for column in table.columns[1:]:
        values = dict(zip(models, (float(str(v)) for v in table.column(column)), strict=True))
        gap = np.mean([values[m] for m in names]) - np.mean([values[m] for m in others])
        holds += bool(sign * gap > 0)
    published = f"holds on average under {holds} of {len(table.columns) - 1} methods of {table.number.lower()}"
    gaps: dict[str, Estimate] = {}
    for column in table.columns[1:]:
        wide = images[images["method"] == methods[column]].pivot_table(index="image", columns="model", values="sss")
        mine, rest = [m for m in names if m in wide], [m for m in others if m in wide]
        if mine and rest:
            rng = generator(0, f"{text}\0{column}", "semantic/claim")
            gaps[column] = paired_difference(wide[mine].mean(axis=1), wide[rest].mean(axis=1), rng=rng)
    if not gaps:
        return Claim(text, where, published, "-", "cannot tell", f"the run lacks these models; see the spec {spec}")
    clear = {k: bool(g.low > 0 or g.high < 0) for k, g in gaps.items()}
    right = [k for k, g in gaps.items() if clear[k] and sign * g.value > 0]
    wrong = [k for k, g in gaps.items() if clear[k] and sign * g.value < 0]
    ours = "; ".join(f"{k} {g.value:+.3f} [{g.low:+.3f}, {g.high:+.3f}]" for k, g in gaps.items())
    verdict: Agreement = "cannot tell"
    if 2 * len(right) > len(gaps):
        verdict = "agree"
    elif 2 * len(wrong) > len(gaps):
        verdict = "disagree"
    return Claim(
        text, where, published, ours, verdict, f"clear in the claimed direction under {len(right)} of {len(gaps)}"
    )


def widest(
    images: pd.DataFrame, table: Table, methods: Mapping[str, str], name: str, where: str, text: str, spec: str
) -> Claim:
    """SSS spreads most over the models of the table under the method `name`: largest minus smallest mean."""
    printed = {column: np.ptp([float(str(v)) for v in table.column(column)]) for column in table.columns[1:]}
    published = ", ".join(f"{column} {spread:.2f}" for column, spread in printed.items())
    models = [str(row[0]) for row in table.rows]
    known = images[images["model"].isin(models)]
    wide = known.pivot_table(index="image", columns=["method", "model"], values="sss").dropna()
    held: list[Any] = wide.columns.tolist()
    spread = {
        column: [k for k, (m, model) in enumerate(held) if m == methods[column]]
        for column in printed
        if methods[column] in {method for method, _ in held}
    }
    if name not in spread or len(spread) < 2 or min(map(len, spread.values())) < 2 or len(wide) < 2:
        return Claim(text, where, published, "-", "cannot tell", f"the run lacks these models; see the spec {spec}")

    def margin(rows: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> float:
        means = {column: float(np.ptp(rows[:, places].mean(0))) for column, places in spread.items()}
        return means.pop(name) - max(means.values())

    gap = bootstrap_statistic(wide.to_numpy(), margin, rng=generator(0, text, "semantic/claim"))
    verdict: Agreement = "agree" if gap.low > 0 else "disagree" if gap.high < 0 else "cannot tell"
    ours = f"{name} minus the next {gap.value:+.3f} [{gap.low:+.3f}, {gap.high:+.3f}]"
    return Claim(text, where, published, ours, verdict, f"over {len(next(iter(spread.values())))} models")
