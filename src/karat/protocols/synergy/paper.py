"""fsyn2026 beside a run: its claims, and its tables with both numbers in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from karat.kernel.claim import Comparison
from karat.kernel.finding import Finding
from karat.kernel.typing import Scalar
from karat.protocols.common.published import Published, load
from karat.protocols.synergy.claims import claims, named
from karat.protocols.synergy.frames import FAITHFULNESS, NAMES, Scored, number
from karat.protocols.synergy.redundancy import redundant_models

if TYPE_CHECKING:
    from karat.results.run import Run

_DATASETS = {"Table 3": "repope", "Table 4": "mmstar", "Table 5": "cv_bench"}


def compare(run: Run) -> Comparison:
    """Claims and tables; nothing where there are no two explainers to compare."""
    scored = Scored.of(run, redundant_models(run))
    if len(scored.methods) < 2:
        return Comparison(())
    published, own = load("synergy"), named(scored)
    tables = [_table_1(scored, own, published), _table_2(scored, own, published)]
    tables += [_table_3(scored, own, published, table, dataset) for table, dataset in _DATASETS.items()]
    return Comparison(tuple(claims(scored, run, published)), tuple(tables))


def _table_1(scored: Scored, own: dict[str, str], published: Published) -> Finding:
    rows: list[tuple[Scalar, ...]] = []
    effects = scored.effects.coefficients
    values = scored.rows("f_syn")
    for row in published.tables["Table 1"].rows:
        name = own.get(str(row[0]))
        mine = values[values["explainer"] == name]["value"] if name else pd.Series(dtype=float)
        effect = effects.loc[name] if name in effects.index else None
        ours = (None, None, None) if effect is None else tuple(number(effect[k]) for k in ("coef", "low", "high"))
        rows.append(
            (row[0], row[7], row[8], number(mine.mean()), number(mine.std()), int(mine.notna().sum()), row[9], *ours)
        )
    columns = (
        "explainer", "mean (paper)", "sd (paper)", "mean", "sd", "n", "effect (paper)", "effect", "low", "high",
    )  # fmt: skip
    about = (
        "The paper: three models of 2 to 7 billion parameters on RePOPE, CVBench and MMStar. Ours: those of the run."
    )
    return Finding("Table 1: F_syn and effects", about, (), columns, tuple(rows))


def _table_2(scored: Scored, own: dict[str, str], published: Published) -> Finding:
    """The paper's effects per dataset, with ours on each dataset of the run."""
    printed = published.tables["Table 2"]
    fits = scored.effects_by_dataset.fits
    rows: list[tuple[Scalar, ...]] = []
    for row in printed.rows:
        cells: list[Scalar] = [row[0], row[1], row[4], row[7]]
        for fit in fits.values():
            name = own.get(str(row[0]))
            known = fit.coefficients.loc[name] if name in fit.coefficients.index else None
            cells += [None, None] if known is None else [number(known["coef"]), number(known["se"])]
        rows.append(tuple(cells))
    columns = ["explainer", *(f"{d} (paper)" for d in ("RePOPE", "CVBench", "MMStar"))]
    columns += [f"{dataset}{what}" for dataset in fits for what in ("", " se")]
    return Finding("Table 2: effects per dataset", "Against random attribution.", (), tuple(columns), tuple(rows))


def _table_3(scored: Scored, own: dict[str, str], published: Published, table: str, dataset: str) -> Finding:
    """Tables 3-5: the paper's means over its three models, and ours on that dataset, or on all there are."""
    printed = published.tables[table]
    ours = next((name for name in scored.datasets if name.startswith(dataset)), None)
    rows: list[tuple[Scalar, ...]] = []
    for row in printed.rows:
        cells: list[Scalar] = [row[0]]
        for metric in FAITHFULNESS:
            places = [k for k, name in enumerate(printed.columns) if name.endswith(f" {NAMES[metric]}")]
            values = scored.rows(metric, ours)
            mine = values[values["explainer"] == own.get(str(row[0]))]["value"]
            cells += [float(np.mean([float(row[k] or 0) for k in places])), number(mine.mean()), number(mine.std())]
        rows.append(tuple(cells))
    columns = ("explainer", *(f"{NAMES[m]}{what}" for m in FAITHFULNESS for what in (" (paper)", "", " sd")))
    about = f"Ours: {ours or f'no {dataset} in this run, so all of its datasets'}."
    return Finding(f"{table}: {printed.title}", about, (), columns, tuple(rows))
