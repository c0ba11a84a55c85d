"""Tables of docs/how-to/read-the-report.md: what a page costs to make, by the number of rows."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping

from record_tables import HERE, markdown


def growth() -> str:
    """`python benchmarks/measure_page_growth.py --write docs/recorded/page_growth.csv` writes the record."""
    shapes = {"deep": "many explainers and models", "wide": "many samples"}
    with (HERE / "page_growth.csv").open(encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    body = [
        (f"{int(line['rows']):,}", shapes[line["shape"]], f"{float(line['cpu']):.0f}", line["peak_mb"], line["mb"])
        for line in lines
    ]
    return markdown(("rows", "shape", "processor seconds", "peak memory, MB", "page on disk, MB"), body)


TABLES: Mapping[str, Callable[[], str]] = {"page/growth": growth}
