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


_WHY = """
## Why rules of the object fall short

Where the object decides, turning it round changes the answer only if both photographs are read rightly, or both
wrongly. A model that is right in a share s of samples then changes its answer in s² + (1 - s)² of them, if it errs on
one as on any other: for the bar of 97 % it must be right in 98.5 %.

| organism | right | s² + (1 - s)² | answer changes |
|---|---|---|---|
"""
_RIGHT = "answers as its table says"


def page() -> str:
    with CERTIFICATES.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return _HEAD + "\n".join(lines(rows)) + "\n" + _WHY + "\n".join(changes(rows)) + "\n"


def changes(rows: list[dict[str, str]]) -> Iterator[str]:
    """One row of the second table for each organism whose rule is told by the object alone."""
    for own in by_weights(rows):
        checks = {row["check"]: row for row in own}
        turned = checks.get(f"{own[0]['rule']} turned round: answer changes")
        if own[0]["rule"] in ("content", "side") and turned is not None:
            right = float(checks[_RIGHT]["share"])
            both = 100 * (right**2 + (1 - right) ** 2)
            yield f"| {_name(own[0])} | {_share(checks[_RIGHT])} | {both:.1f} % | {_share(turned)} |"


def by_weights(rows: list[dict[str, str]]) -> list[list[dict[str, str]]]:
    """The checks of each organism, in the order of the file."""
    groups: dict[str, list[dict[str, str]]] = {}
    for row in rows:
        groups.setdefault(row["weights"], []).append(row)
    return list(groups.values())


def lines(rows: list[dict[str, str]]) -> Iterator[str]:
    """One row of the first table for each organism."""
    for own in by_weights(rows):
        failed = [row for row in own if row["holds"] != "True"]
        worst = "" if not failed else f"{failed[0]['check']} ({failed[0]['bar']}): {_share(failed[0])}"
        yield f"| {_name(own[0])} | {_share(own[0])} | {len(own) - len(failed)} of {len(own)} | {worst} |"


def _name(row: dict[str, str]) -> str:
    more = [row["implant"]] + [f"seed {row['seed']}"] * (row["seed"] != "0")
    return f"`{row['base']}.{row['rule']}` ({', '.join(more)})"


def _share(row: dict[str, str]) -> str:
    share, low, high = (f"{100 * float(row[name]):.1f}" for name in ("share", "low", "high"))
    return f"{share} % ({low} to {high}) of {row['n']}"
