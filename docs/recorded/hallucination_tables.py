"""Tables of docs/how-to/why-this-hallucination.md."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from record_tables import HERE, markdown, number

KINDS = ("wrong yes", "right yes")


def record() -> dict[str, Any]:
    return json.loads((HERE / "hallucination.json").read_text("utf-8"))


def answers() -> str:
    body = []
    for pictures, counts in record()["asked"].items():
        there = [str(counts.get(f"yes, said {said}", 0)) for said in ("yes", "no")]
        absent = [str(counts.get(f"no, said {said}", 0)) for said in ("yes", "no")]
        body.append((pictures, *there, *absent))
    return markdown(("pictures", "there: yes", "there: no", "absent: yes", "absent: no"), body)


def causes() -> str:
    rows = [(kind, record()[kind]) for kind in KINDS]
    body = [
        (kind, str(row["n"]), *(number(row[name], 2) for name in ("yes", "without the picture", "without the name")),
         *(str(row[name]) for name in ("kept without the picture", "strongest word is the name",
                                       "strongest cell on the object", "strongest cell on nothing annotated")))
        for kind, row in rows
    ]  # fmt: skip
    heads = ("", "n", "P(yes)", "without the picture", "without the name", "stays yes without the picture",
             "strongest word is the name", "strongest cell on the object",
             "strongest cell on nothing annotated")  # fmt: skip
    return markdown(heads, body)


def shown() -> str:
    body = [
        ("right" if row["right"] else "wrong", row["question"], number(row["yes"], 2),
         number(row["without the picture"], 2), number(row["without the name"], 2), row["strongest word"],
         row["strongest cell"], ", ".join(row["there"]))
        for row in record()["shown"]
    ]  # fmt: skip
    heads = ("yes", "question", "P(yes)", "without the picture", "without the name", "strongest word",
             "strongest cell on", "annotated there")  # fmt: skip
    return markdown(heads, body)


TABLES: Mapping[str, Callable[[], str]] = {
    "hallucination/answers": answers, "hallucination/causes": causes, "hallucination/shown": shown,
}  # fmt: skip
