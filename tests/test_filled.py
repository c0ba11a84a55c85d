"""Numbers of the docs are those of their records."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

RECORDED = Path(__file__).parents[1] / "docs" / "recorded"


@pytest.fixture
def fill(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(RECORDED))
    return importlib.import_module("fill")


def test_pages_say_what_their_records_say(fill: ModuleType) -> None:
    assert [str(page.name) for page in fill.stale()] == [], "run python docs/recorded/fill.py"


def test_every_table_stands_on_a_page(fill: ModuleType) -> None:
    pages = "\n".join(page.read_text(encoding="utf-8") for page in fill.DOCS.rglob("*.md"))
    assert {name for name in fill.TABLES if f"<!-- filled: {name} -->" not in pages} == set()


def test_what_is_marked_is_made_anew_and_nothing_else(fill: ModuleType) -> None:
    page = "before\n<!-- filled: a -->\nold\n<!-- /filled -->\nafter 3\n"
    assert fill.filled(page, {"a": lambda: "new\n"}) == "before\n<!-- filled: a -->\nnew\n<!-- /filled -->\nafter 3\n"
    with pytest.raises(SystemExit, match="no table 'a'; there are b"):
        fill.filled(page, {"b": str})
