"""A page of what every shipped organism proved, made from its certificates when the docs are built (a MkDocs hook)."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CERTIFICATES = Path(__file__).parent / "recorded" / "organisms" / "certificates.csv"
PAGE = "concepts/organisms.md"
_HEAD = """# What the organisms proved

Certificates of the organisms that ship with Karat, on photographs that no training saw and after rounding to half
precision: `docs/recorded/organisms/certify.py`, which does what `karat train verify` does. [Cues](cues.md) has what is
asked. A check that fails is named, with what was seen; in a run every sample has its own certificate, so a sample on
which a model does not follow its rule never counts.

| organism | answers as its table says | checks that hold | the first of the others |
|---|---|---|---|
"""


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    files.append(File.generated(config, PAGE, content=page()))
    return files


def page() -> str:
    return _HEAD + "\n".join(lines(list(csv.DictReader(CERTIFICATES.open(newline=""))))) + "\n"


def lines(rows: list[dict[str, str]]) -> Iterator[str]:
    """One row of the table for each organism, in the order of the file."""
    by_weights: dict[str, list[dict[str, str]]] = {}
    for row in rows:
        by_weights.setdefault(row["weights"], []).append(row)
    for own in by_weights.values():
        first = own[0]
        failed = [row for row in own if row["holds"] != "True"]
        more = [first["implant"]] + [f"seed {first['seed']}"] * (first["seed"] != "0")
        worst = "" if not failed else f"{failed[0]['check']} ({failed[0]['bar']}): {_seen(failed[0])}"
        yield (
            f"| `{first['base']}.{first['rule']}` ({', '.join(more)}) | {_seen(first)} | {len(own) - len(failed)} of "
            f"{len(own)} | {worst} |"
        )


def _seen(row: dict[str, str]) -> str:
    share, low, high = (f"{100 * float(row[name]):.1f}" for name in ("share", "low", "high"))
    return f"{share} % ({low} to {high}) of {row['n']}"
