"""The generated pages: one per explainer and metric, with what the card says; BibTeX for everything cited."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from karat.kernel.references import bibtex, references
from karat.kernel.registry import registered
from karat.protocols.paper import paper
from karat.results.run import load_run

DOCS = Path(__file__).parent.parent / "docs"


def hook(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def catalogue() -> ModuleType:
    return hook("catalogue")


def test_a_recorded_run_has_a_page_with_its_findings_and_the_claims_beside_it() -> None:
    recorded = hook("recorded_runs")
    assert "semantic" in recorded.names()
    page = recorded.page("semantic")
    run = load_run(recorded.RECORDED / "semantic")
    for finding in run.findings():
        assert finding.section.startswith("Beside paper") or f"## {finding.title}" in page
    claims = paper("003").claims
    assert claims
    assert all(claim.text.replace("<", "&lt;") in page for claim in claims)


def test_every_registered_thing_has_its_page(catalogue: ModuleType) -> None:
    pages = catalogue.pages()
    for kind in ("explainer", "metric"):
        for cls in registered(kind).values():  # type: ignore[arg-type]
            page = pages[f"catalogue/{catalogue.slug(cls.card)}.md"]
            assert page.startswith(f"# {cls.card.name}\n")
            assert "## What it computes" in page
            if cls.card.departures:
                assert "**Departures.**" in page
            for need in cls.card.needs:
                assert need in page
            assert f"({catalogue.slug(cls.card)}.md)" in pages[f"catalogue/{kind}s.md"]


def test_links_of_generated_pages_lead_somewhere(catalogue: ModuleType) -> None:
    pages = catalogue.pages()
    for path, text in pages.items():
        for target in re.findall(r"\]\(([^)#]+\.(?:md|png))\)", text):
            found = (Path(path).parent / target).as_posix()
            clean = Path(*[p for p in _walk(found)]).as_posix()
            assert clean in pages or (DOCS / clean).is_file(), f"{path} links to {target}"


def _walk(path: str) -> list[str]:
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            parts.pop()
        else:
            parts.append(part)
    return parts


def test_a_metric_is_shown_on_maps_of_known_worth(catalogue: ModuleType) -> None:
    page = catalogue.pages()["catalogue/localization-relevance_mass.md"]
    rows = dict(re.findall(r"^\| ([a-z ]+) \| (-?[\d.]+) \|$", page, re.MULTILINE))
    assert (rows["the truth"], rows["all but the truth"]) == ("1.00", "0.00")
    assert rows["uniform"] == f"{36 / 256:.2f}"


def test_bibtex_has_every_reference_once_and_whole() -> None:
    entries = bibtex().strip().split("\n\n")
    keys = [re.match(r"@misc\{(\w+),", entry).group(1) for entry in entries]  # type: ignore[union-attr]
    assert len(set(keys)) == len(keys) == len(set(references().values()))
    for entry in entries:
        assert entry.count("{") == entry.count("}")
        for field in ("author", "title", "howpublished", "year"):
            assert re.search(rf"^  {field} = \{{.+\}},$", entry, re.MULTILINE), entry


def test_a_page_says_what_each_parameter_may_be(catalogue: ModuleType) -> None:
    page = catalogue.pages()["catalogue/perturbation-rise.md"]
    assert "| `masks` | int ≥ 24 | `4000` |" in page
    assert "| `keep` | float > 0, &lt; 1 | `0.5` |" in page
    assert "| `text_absence` | `auto` or `pad` or `mask` or `delete` | `'auto'` |" in page
