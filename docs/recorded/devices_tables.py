"""Tables of docs/how-to/how-big.md and of the check in docs/how-to/explain.md."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from record_tables import HERE, markdown

MB = 2**20
VERDICTS = ("believe", "doubt", "cannot tell")


def long_sequences() -> str:
    rows: list[dict[str, Any]] = json.loads((HERE / "devices/long_sequences.json").read_text("utf-8"))
    body = [
        (row["explainer"], f"{row['tokens']:,}", f"{row['peaks']['8'] / MB:,.0f}", f"{row['a_layer'] / MB:,.1f}",
         f"{row['one_map'] / MB:,.0f}")
        for row in sorted(rows, key=lambda row: (row["explainer"] == "whole maps", row["explainer"], row["tokens"]))
    ]  # fmt: skip
    return markdown(("what is traced", "image tokens", "MB at the peak", "of it, a layer", "one map of a layer"), body)


def check_rates() -> str:
    record = json.loads((HERE.parents[1] / "src/karat/recorded/check/rates.json").read_text("utf-8"))
    counts, body = record["maps"], []
    for how in ("asks", "looks inside"):
        for kind, given in record["rates"][how].items():
            if (key := f"{kind}, {how}") in counts:
                body.append((f"{kind}, by an explainer that {how}", given, counts[key]))
    body += [(kind, given, counts[kind]) for kind, given in record["rates"]["asks"].items() if kind in counts]
    rows = [(kind, *(f"{given[verdict]:.0%}" for verdict in VERDICTS), str(n)) for kind, given, n in body]
    return markdown(("the map was", "believed", "doubted", "cannot tell", "maps"), rows)


TABLES: Mapping[str, Callable[[], str]] = {"devices/long_sequences": long_sequences, "check/rates": check_rates}
