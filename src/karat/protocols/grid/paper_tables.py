"""The paper's tables with a run's numbers beside them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from karat.kernel.finding import Finding
from karat.kernel.typing import Scalar
from karat.protocols.common.published import Published
from karat.protocols.grid.analysis import PURE, SPUR, Scenario, accuracy_table, bucket_table, cell, scenario

METHODS = {"DIME": "interaction/dime", "MultiSHAP": "interaction/multishap", "MultiViz": "interaction/multiviz"}
_TABLES = {"Table 5": (PURE, "mass"), "Table 6": (PURE, "iou"), "Table 7": (SPUR, "mass"), "Table 8": (SPUR, "iou")}


def explainer_of(rows: pd.DataFrame, method: str) -> str:
    """The label under which a run has a method of the paper (DIME: its interaction part); its bare name if it has none.

    >>> names = {"explainer": ["interaction/dime(part=uc)", "dime"], "method": "interaction/dime", "part": ["uc", "mi"]}
    >>> explainer_of(pd.DataFrame(names), "DIME")
    'dime'
    """
    base = METHODS[method]
    known = rows.loc[(rows["method"] == base) & (rows["part"] != "uc"), "explainer"].unique()
    return str(min(known)) if len(known) else base


def accuracy_tables(rows: pd.DataFrame, published: Published) -> Iterator[Finding]:
    """Tables 3 and 4, with a column for every model of the run that was asked about pure samples, twin or not."""
    table = accuracy_table(rows)
    table = table[table["mode"] == "pure"]
    for name, density in (("Table 3", 0.3), ("Table 4", 0.7)):
        if len(own := table[table["density"] == density]):
            yield _accuracies(own, published, name)


def score_tables(rows: pd.DataFrame, family: str, published: Published) -> Iterator[Finding]:
    """Tables 5 to 8: published beside one family of twins."""
    for name, (which, metric) in _TABLES.items():
        yield _scores(scenario(rows, family, which), family, which, metric, published, name)


def _accuracies(table: pd.DataFrame, published: Published, name: str) -> Finding:
    printed = published.tables[name]
    own = {str(model): _by_bucket(mine, 100 * mine["right"] / mine["of"]) for model, mine in table.groupby("model")}
    rows: list[tuple[Scalar, ...]] = []
    for row in printed.rows:
        form, kind, depth, *theirs = row
        rows.append((form, kind, depth, *theirs, *(mine.get((form, kind, depth)) for mine in own.values())))
    few, many = int(table["of"].min()), int(table["of"].max())
    questions = f"{few}" if few == many else f"{few} to {many}"
    about = (
        f"What the paper printed, then the models of this run, {questions} questions a bucket. The paper's spur "
        "and pure are its own twins."
    )
    columns = (*printed.columns[:3], *(f"{column}, paper" for column in printed.columns[3:]), *own)
    return Finding(f"{name}: {printed.title}", about, (), columns, tuple(rows))


def _scores(rows: pd.DataFrame, family: str, which: Scenario, metric: str, published: Published, name: str) -> Finding:
    printed = published.tables[name]
    table = bucket_table(rows, metric)
    cells = [cell(*row) for row in table[["mean", "std", "used", "of"]].itertuples(index=False, name=None)]
    table = table.assign(cell=cells)
    own = {}
    for method in METHODS:
        mine = table[table["explainer"] == explainer_of(rows, method)]
        for density in (0.3, 0.7):
            there = mine[mine["density"] == density]
            own[f"{method} d{density}"] = _by_bucket(there, there["cell"])
    out: list[tuple[Scalar, ...]] = []
    for row in printed.rows:
        theirs = dict(zip(printed.columns, row, strict=True))
        key = (theirs["form"], theirs["type"], theirs["depth"])
        pairs = ((f"{theirs[c]} ± {theirs[f'{c} std']}", own[c].get(key)) for c in own)
        out.append((*key, *(value for pair in pairs for value in pair)))
    columns = [f"{column}, {whose}" for column in own for whose in ("paper", family)]
    samples = sorted(set(table["of"].tolist())) or [0]
    return Finding(f"{name}: {printed.title}", f"{which.name}; mean ± standard deviation in per cent, published beside "
                   f"{family} on {' or '.join(map(str, samples))} samples a bucket (used/all where some have no "
                   "value).",
                   (), ("form", "type", "depth", *columns), tuple(out))  # fmt: skip


def _by_bucket(table: pd.DataFrame, values: pd.Series[Any]) -> dict[tuple[Scalar, ...], Scalar]:
    keys: list[tuple[Scalar, ...]] = list(
        zip(*(table[name].tolist() for name in ("form", "qtype", "depth")), strict=True)
    )
    return dict(zip(keys, values.tolist(), strict=True))
