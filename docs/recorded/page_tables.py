"""Tables of docs/how-to/read-the-report.md and docs/concepts/runs.md: what a page and findings cost, by rows."""

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


def findings() -> str:
    """`python benchmarks/measure_findings_growth.py --write docs/recorded/findings_growth.csv` writes the record."""
    acts = {"one column": "one column of one score", "frame": "all rows as a frame", "findings": "the findings"}
    with (HERE / "findings_growth.csv").open(encoding="utf-8") as file:
        lines = [line for line in csv.DictReader(file) if line["act"] in acts]
    body = [(f"{int(line['rows']):,}", acts[line["act"]], line["cpu"], line["peak_mb"]) for line in lines]
    return markdown(("rows", "what is made", "processor seconds", "peak memory, MB"), body)


TABLES: Mapping[str, Callable[[], str]] = {"page/growth": growth, "findings/growth": findings}
