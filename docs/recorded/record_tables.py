"""Records as Markdown tables: rows of their sealed findings, by column name."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from karat.protocols.paper import RECORDED
from karat.results.run import load_run

HERE = Path(__file__).parent
Row = Mapping[str, Any]


@cache
def rows(record: str, title: str) -> tuple[Row, ...]:
    """The table of one finding of a record."""
    for finding in load_run(RECORDED / record).findings():
        if finding.title == title:
            return tuple(dict(zip(finding.columns, row, strict=True)) for row in finding.rows)
    raise SystemExit(f"the record {record} has no finding {title!r}.")


def markdown(heads: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *body]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def number(value: float | None, digits: int = 1, sign: bool = False) -> str:
    """-0.0 is 0.0; what there is not is a dash."""
    if value is None or value != value:
        return "–"
    text = f"{value:{'+' if sign else ''}.{digits}f}"
    return text.replace("-", "", 1) if float(text) == 0 else text


def interval(row: Row, name: str, digits: int = 1, sign: bool = False) -> str:
    low, high = (number(row[f"{name} {end}"], digits, sign) for end in ("low", "high"))
    return f"{number(row[name], digits, sign)} ({low} to {high})"


def claims_table(record: str, before: str, reason: Callable[[str], str] | None = None) -> str:
    """Every claim, its verdict before (kept in a file beside this one) and now, and what is measured. With a `reason`,
    which says what was altered for a claim since, a column has it for the verdicts that changed."""
    old = {row["claim"]: row for row in json.loads((HERE / before).read_text())}
    now = rows(record, "The paper's claims beside this run")
    body = []
    for row in now:
        claim, verdict = str(row["claim"]), str(row["verdict"])
        was = old.get(claim) or old.get(claim.partition(" (recorded run of ")[0])
        cells = [claim, was["verdict"] if was else "–", verdict]
        if reason is not None:
            cells.append(reason(claim) if was and was["verdict"] != verdict else "" if was else "a new claim")
        body.append((*cells, f"{row['ours']}" + (f"; {row['because']}" if row["because"] else "")))
    heads = ("claim", "before", "now", *(("why it changed",) if reason else ()), "what is measured")
    return markdown(heads, body)
