"""Every citation on a card leads to a full reference, and CITATION.cff names the five papers."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from karat.kernel.references import cited, references
from karat.kernel.registry import ROOMS, registered

OURS = ("gridvqax2026", "fsyn2026", "creg2026", "semscore2025", "pixelrules2024")


@pytest.mark.parametrize("kind", sorted(ROOMS))
def test_every_citation_on_a_card_is_known(kind: str) -> None:
    citations = {name: thing.card.citation for name, thing in registered(kind).items()}  # type: ignore[arg-type]
    assert {name: text for name, text in citations.items() if text not in ("", "ours") and not cited(text)} == {}


def test_no_short_form_lies_within_another() -> None:
    """ "Li et al. 2016" must not be found in "Ali et al. 2016"."""
    shorts = list(references())
    assert [(a, b) for a in shorts for b in shorts if a != b and a in b] == []


def test_citation_cff_names_the_papers() -> None:
    text = (Path(__file__).parents[2] / "CITATION.cff").read_text("utf-8")
    titles = " ".join(entry["title"] for entry in yaml.safe_load(text)["references"])
    for key in OURS:
        title = references()[key].split(". ")[1].split(":")[0]
        assert title in titles, key


def test_an_unknown_source_is_not_made_up() -> None:
    assert cited("Nobody 1999, Nothing") == {}


def test_the_docs_list_every_reference() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "references.md").read_text("utf-8")
    assert [text for text in references().values() if text not in page] == []
