"""Numbers that papers have printed, as data: `protocols/<name>/published.yaml`, each table under its own number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from karat.kernel.errors import UnknownName
from karat.kernel.typing import Scalar


@dataclass(frozen=True)
class Table:
    """A printed table; None where the paper leaves a cell empty."""

    number: str  # "Table 5"
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Scalar, ...], ...]
    note: str = ""

    def column(self, name: str) -> tuple[Scalar, ...]:
        if name not in self.columns:
            raise UnknownName(f"column of {self.number}", name, self.columns)
        at = self.columns.index(name)
        return tuple(row[at] for row in self.rows)


@dataclass(frozen=True)
class Published:
    """What a paper printed. `facts` are single numbers of its prose, with the place they stand in."""

    paper: str
    title: str
    tables: dict[str, Table]
    facts: dict[str, Any]


@cache
def load(protocol: str) -> Published:
    """The paper behind a protocol, from `published.yaml`:

    paper: "000"
    title: ...
    tables: [{number: Table 5, title: ..., columns: [...], rows: [[...]]}]
    facts: {name: {value: 0.92, where: section 5.1}}
    """
    data = yaml.safe_load(files(f"karat.protocols.{protocol}").joinpath("published.yaml").read_text("utf-8"))
    tables = [
        Table(t["number"], t["title"], tuple(t["columns"]), tuple(map(tuple, t["rows"])), t.get("note", ""))
        for t in data.get("tables", ())
    ]
    return Published(data["paper"], data["title"], {table.number: table for table in tables}, data.get("facts", {}))


def beside(
    table: Table,
    keys: Sequence[str],
    ours: Mapping[tuple[Scalar, ...], Mapping[str, Scalar]],
    columns: Sequence[str],
    published_alone: bool = False,
) -> tuple[tuple[str, ...], tuple[tuple[Scalar, ...], ...]]:
    """A printed table with our numbers in it: its key columns, then for each of `columns` the printed value and ours.

    `ours` has our values by key, then by column; what a run has no number for is None. With `published_alone`, a column
    that the run has no number for at all is the printed one alone.

    >>> printed = Table("Table 1", "", ("method", "mean"), (("Grad-CAM", 0.3), ("LIME", 0.2)))
    >>> beside(printed, ["method"], {("LIME",): {"mean": 0.25}}, ["mean"])
    (('method', 'mean published', 'mean ours'), (('Grad-CAM', 0.3, None), ('LIME', 0.2, 0.25)))
    """
    known = {name for row in ours.values() for name, value in row.items() if value is not None}
    pairs = [
        (name, whose)
        for name in columns
        for whose in ("published", "ours")
        if whose == "published" or name in known or not published_alone
    ]
    heads = (*keys, *(f"{name} {whose}" for name, whose in pairs))
    rows = []
    for row in table.rows:
        printed = dict(zip(table.columns, row, strict=True))
        key = tuple(printed[name] for name in keys)
        mine = ours.get(key, {})
        rows.append((*key, *((printed if whose == "published" else mine).get(name) for name, whose in pairs)))
    return heads, tuple(rows)
