"""Fills the numbers of the docs in from the records that they are of.

    python docs/recorded/fill.py          # after a record was made anew
    python docs/recorded/fill.py --check  # what the tests ask: does a page still say what its record says?

A page marks what is filled in by `<!-- filled: compass/nulls -->` and `<!-- /filled -->`; tables are named in
`compass_tables.py`, `devices_tables.py`, `hallucination_tables.py` and `synergy_tables.py`, beside this file.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

HERE = Path(__file__).parent
DOCS = HERE.parent
MARK = re.compile(r"(<!-- filled: (\S+) -->\n).*?(<!-- /filled -->)", re.DOTALL)
sys.path.insert(0, str(HERE))

import compass_tables  # noqa: E402  beside this file
import devices_tables  # noqa: E402
import hallucination_tables  # noqa: E402
import synergy_tables  # noqa: E402

TABLES: Mapping[str, Callable[[], str]] = {
    **compass_tables.TABLES,
    **devices_tables.TABLES,
    **synergy_tables.TABLES,
    **hallucination_tables.TABLES,
}


def filled(text: str, tables: Mapping[str, Callable[[], str]] = TABLES) -> str:
    """A page with every marked part made anew."""

    def made(match: re.Match[str]) -> str:
        name = match[2]
        if name not in tables:
            raise SystemExit(f"no table {name!r}; there are {', '.join(sorted(tables))}.")
        return f"{match[1]}{tables[name]().strip()}\n{match[3]}"

    return MARK.sub(made, text)


def stale() -> dict[Path, str]:
    """Pages that say something else than their records, and what they should say."""
    pages = {page: page.read_text(encoding="utf-8") for page in sorted(DOCS.rglob("*.md"))}
    wanted = {page: filled(text) for page, text in pages.items() if MARK.search(text)}
    return {page: text for page, text in wanted.items() if text != pages[page]}


def main() -> None:
    for page, text in (old := stale()).items():
        print(page.relative_to(DOCS))
        if "--check" not in sys.argv:
            page.write_text(text, encoding="utf-8")
    if "--check" in sys.argv and old:
        raise SystemExit("run python docs/recorded/fill.py")


if __name__ == "__main__":
    main()
