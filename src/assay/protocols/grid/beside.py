"""The paper's tables with a run's numbers beside them."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from assay.kernel.finding import Finding
from assay.kernel.typing import Scalar
from assay.protocols.grid.frames import CROSS, PURE, SPUR, Scenario, number, scenario, twin_of
from assay.protocols.grid.tables import accuracy_table, bucket_table
from assay.protocols.published import Published

METHODS = {"DIME": "interaction/dime", "MultiSHAP": "interaction/multishap", "MultiViz": "interaction/multiviz"}
_TABLES = {"Table 5": (PURE, "mass"), "Table 6": (PURE, "iou"), "Table 7": (SPUR, "mass"), "Table 8": (SPUR, "iou")}


def explainer_of(rows: pd.DataFrame, method: str) -> str:
    """The label under which a run has a method of the paper (DIME: its interaction part); its bare name if it has none.

    >>> explainer_of(pd.DataFrame({"explainer": ["interaction/dime(part=uc)", "interaction/dime(batch=4)"]}), "DIME")
    'interaction/dime(batch=4)'
    """
    base = METHODS[method]
    known = sorted(name for name in rows["explainer"].unique() if name.split("(")[0] == base and "part=uc" not in name)
    return known[0] if known else base


def beside_tables(rows: pd.DataFrame, family: str, published: Published) -> Iterator[Finding]:
    """Tables 3 to 8, published and own numbers in per cent; None where the run has none."""
    accuracy = accuracy_table(rows)
    accuracy = accuracy[accuracy["mode"] == "pure"]
    for name, density in (("Table 3", 0.3), ("Table 4", 0.7)):
        yield _accuracies(accuracy[accuracy["density"] == density], family, published, name)
    for name, (which, metric) in _TABLES.items():
        yield _scores(scenario(rows, family, which), family, which, metric, published, name)


def _accuracies(table: pd.DataFrame, family: str, published: Published, name: str) -> Finding:
    printed = published.tables[name]
    twins = table["model"].map(lambda model: twin_of(model)[1])
    own = {twin: _by_bucket(mine := table[twins == twin], mine["right"] / mine["of"]) for twin in ("spur", "pure")}
    rows: list[tuple[Scalar, ...]] = []
    for row in printed.rows:
        cells = dict(zip(printed.columns, row, strict=True))
        key = (cells["form"], cells["type"], cells["depth"])
        rows.append((*key, *(v for twin in own for v in (cells[twin], _percent(own[twin].get(key))))))
    columns = [f"{twin}, {whose}" for twin in own for whose in ("paper", family)]
    return Finding(f"{name}: {printed.title}", f"{CROSS.name} and {PURE.name}; published beside {family}.", (),
                   ("form", "type", "depth", *columns), tuple(rows))  # fmt: skip


def _scores(rows: pd.DataFrame, family: str, which: Scenario, metric: str, published: Published, name: str) -> Finding:
    printed = published.tables[name]
    table = bucket_table(rows, metric)
    own = {}
    for method in METHODS:
        mine = table[table["explainer"] == explainer_of(rows, method)]
        for density in (0.3, 0.7):
            found = mine[mine["density"] == density]
            own[f"{method} d{density}"] = _by_bucket(found, found["mean"])
    out: list[tuple[Scalar, ...]] = []
    for row in printed.rows:
        cells = dict(zip(printed.columns, row, strict=True))
        key = (cells["form"], cells["type"], cells["depth"])
        out.append((*key, *(v for column in own for v in (cells[column], _percent(own[column].get(key))))))
    columns = [f"{column}, {whose}" for column in own for whose in ("paper", family)]
    return Finding(f"{name}: {printed.title}", f"{which.name}; means in per cent, published beside {family}.", (),
                   ("form", "type", "depth", *columns), tuple(out))  # fmt: skip


def _by_bucket(table: pd.DataFrame, values: pd.Series[float]) -> dict[tuple[Scalar, ...], float]:
    keys: list[tuple[Scalar, ...]] = list(
        zip(*(table[name].tolist() for name in ("form", "qtype", "depth")), strict=True)
    )
    return dict(zip(keys, values.tolist(), strict=True))


def _percent(value: float | None) -> Scalar:
    return None if value is None else number(100 * value)
