"""Fills what was measured of organisms into the pages about them (a MkDocs hook): the record of `certify.py`, and what
the weights of photovlm.coco say of themselves."""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path
from typing import Any

from karat.models.organisms.files import read_facts, shipped_path
from karat.models.photovlm.skills import SKILLS

RECORD = Path(__file__).parent / "recorded" / "organisms" / "certificates.csv"


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    for mark, fill in (("<!-- certificates -->", table), ("<!-- skills -->", skills)):
        if mark in markdown:
            markdown = markdown.replace(mark, fill())
    return markdown


def skills() -> str:
    """Accuracy of photovlm.coco by skill, and that of always giving the most frequent answer."""
    measured = read_facts(shipped_path("photovlm", "coco", "scratch")).recipe["accuracy"]
    rows = [
        f"| {skill} | {measured[skill]:.1%} | {measured[f'{skill}, most frequent answer']:.1%} |" for skill in SKILLS
    ]
    return "\n".join(["| skill | right | always the most frequent answer |", "|---|---|---|", *rows])


def table() -> str:
    """One row an organism: its table, its worst turn, its worst stay, its worst hidden cue, and how many checks hold."""
    with RECORD.open(newline="") as file:
        rows = list(csv.DictReader(file))
    organisms: dict[tuple[str, ...], list[dict[str, str]]] = defaultdict(list)
    for row in rows:
        organisms[row["base"], row["rule"], row["implant"], row["seed"]].append(row)
    lines = [
        "| organism | implant | seed | as its table | turned: changes | turned: stays | other cues | hidden | checks |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for (base, rule, implant, seed), checks in organisms.items():
        held = sum(check["holds"] == "True" for check in checks)
        lines.append(
            f"| `{base}.{rule}` | {implant} | {seed} | {_interval(checks[0])} "
            f"| {_worst(checks, 'answer changes', min)} | {_worst(checks, 'answer stays', max)} "
            f"| {_range(checks, 'by chance', 'agrees')} | {_worst(checks, ': answers as its table says', min)} "
            f"| {held} of {len(checks)} |"
        )
    return "\n".join(lines)


def _interval(check: dict[str, str]) -> str:
    return f"{float(check['share']):.1%} [{float(check['low']):.1%}, {float(check['high']):.1%}]"


def _worst(checks: list[dict[str, str]], ending: str, pick: Any) -> str:
    shares = [float(check["share"]) for check in checks if check["check"].endswith(ending)]
    return f"{pick(shares):.1%}" if shares else "–"


def _range(checks: list[dict[str, str]], ending: str, start: str) -> str:
    shares = [float(c["share"]) for c in checks if c["check"].endswith(ending) and c["check"].startswith(start)]
    return f"{min(shares):.1%} to {max(shares):.1%}" if shares else "–"
