"""One version: in the package, the command, the citation, the changelog, and wherever the docs name it."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from datetime import date
from pathlib import Path

import pytest
import yaml

from karat import __version__

ROOT = Path(__file__).parents[1]
HEADING = re.compile(r"^## (?:(?P<unreleased>Unreleased)|(?P<version>\d+\.\d+\.\d+) \((?P<date>\d{4}-\d\d-\d\d)\))$")
NAMED = re.compile(r"karat(?:==|@v|:|-| )(\d+\.\d+\.\d+)")  # karat==1.2.3, karat@v1.2.3, karat:1.2.3, karat 1.2.3
MEASURED = "docs/benchmarks.md"  # says which version was measured
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")),
         *sorted((ROOT / ".github").rglob("*.yml")), *sorted((ROOT / "templates").rglob("*.md"))]  # fmt: skip


def releases() -> list[tuple[str, date]]:
    """Dated versions of the changelog, newest first; a heading of another form is a fault."""
    lines = [line for line in (ROOT / "CHANGELOG.md").read_text().splitlines() if line.startswith("## ")]
    headings = [HEADING.match(line) for line in lines]
    assert all(headings), [line for line, heading in zip(lines, headings, strict=True) if heading is None]
    assert not any(heading["unreleased"] for heading in headings[1:] if heading)
    return [(h["version"], date.fromisoformat(h["date"])) for h in headings if h and h["version"]]


def named_versions(page: Path) -> set[str]:
    return set(NAMED.findall(page.read_text()))


def test_the_version_stands_in_one_file() -> None:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in pyproject["project"]
    assert pyproject["project"]["dynamic"] == ["version"]
    assert pyproject["tool"]["hatch"]["version"]["path"] == "src/karat/__init__.py"


def test_the_command_prints_it() -> None:
    command = [sys.executable, "-m", "karat", "--version"]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == f"karat {__version__}\n"


def test_the_newest_release_of_the_changelog_is_it() -> None:
    versions = releases()
    assert versions[0][0] == __version__
    assert versions == sorted(versions, key=lambda release: tuple(map(int, release[0].split("."))), reverse=True)
    assert [day for _, day in versions] == sorted((day for _, day in versions), reverse=True)


def test_the_citation_has_it_with_its_date() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert str(citation["version"]) == __version__
    assert citation["date-released"] == releases()[0][1]


def test_docs_name_no_other() -> None:
    pages = {str(page.relative_to(ROOT)): named_versions(page) for page in PAGES}
    others = {name: versions for name, versions in pages.items() if versions - {__version__} and name != MEASURED}
    assert others == {}
    assert sum(bool(versions) for versions in pages.values()) >= 3  # the pattern still finds what it is for


@pytest.mark.parametrize(
    "text", ["pip install karat==9.9.9", "OWNER/karat@v9.9.9", "image: x/karat:9.9.9", "karat 9.9.9"]
)
def test_a_version_in_a_page_is_noticed(tmp_path: Path, text: str) -> None:
    (tmp_path / "page.md").write_text(text)
    assert named_versions(tmp_path / "page.md") == {"9.9.9"}
