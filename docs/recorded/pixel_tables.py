"""Tables of docs/tutorials/pixel.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from record_tables import interval, markdown, number, rows

TRUTH = "How well is the truth known?"
VERDICT, CLAIMS = "Does it rank the very pixels that decided?", "The paper's claims beside this run"


def kinds(record: str) -> str:
    """Per model: images that the shortcut decides, the ceiling, and the best explainer."""
    best = {}
    for row in rows(record, VERDICT):
        if row["weighted IoU"] is not None and not str(row["explainer"]).startswith("control/"):
            best.setdefault(row["model"], row)
    known = {row["model"]: row for row in rows(record, TRUTH)}
    body = [
        (str(model), str(row["images"]), number(known[model]["ceiling"], 2), str(row["explainer"]),
         _range(row, "weighted IoU", "low", "high"), _range(row, "share", "share low", "share high"))
        for model, row in best.items()
    ]  # fmt: skip
    heads = ("model", "images decided", "ceiling", "best explainer", "weighted IoU", "share of the ceiling")
    return markdown(heads, body)


def _range(row: Mapping[str, object], value: str, low: str, high: str) -> str:
    return interval({"x": row[value], "x low": row[low], "x high": row[high]}, "x", 2)


def claims(record: str) -> str:
    """The claims about models that differ in nothing but their seeds, without what the paper printed."""
    body = [
        (str(row["claim"]).partition(": ")[2], str(row["verdict"]), str(row["ours"]), str(row["because"]))
        for row in rows(record, CLAIMS)
    ]
    return markdown(("claim", "verdict", "by seed", "why"), body)


TABLES: Mapping[str, Callable[[], str]] = {
    "pixel/kinds": lambda: kinds("pixel_kinds"),
    "pixel/seeds": lambda: kinds("pixel_cnn_seeds"),
    "pixel/claims": lambda: claims("pixel_cnn_seeds"),
}
