"""`karat demo`, with small specs in place of its own: one count over all of them, and where the page is."""

from __future__ import annotations

from pathlib import Path

import pytest
import toys
import yaml

from karat.cli import demo as verb
from karat.cli.console import shipped_specs


@pytest.fixture
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    paths = []
    for name in ("one", "two"):
        paths.append(tmp_path / f"{name}.yaml")
        paths[-1].write_text(yaml.safe_dump(toys.spec(name=name, about=f"the {name}")))
    monkeypatch.setattr(verb, "SPECS", dict.fromkeys(map(str, paths), (5.0, 1.0)))
    return tmp_path / "demo"


def test_the_whole_is_counted_and_the_page_named(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    verb.demo(out, workers=0)
    told = capsys.readouterr()
    assert told.out.splitlines()[-1] == f"The page: {(out / 'report' / 'index.html').as_uri()}"
    assert (out / "report" / "index.html").exists()
    lines = told.err.splitlines()
    assert lines[0] == "demo 1 of 2: one: the one"
    assert "demo 2 of 2: two: the two" in lines
    assert lines[-1] == "demo: making the page"


def test_again_it_has_nothing_to_do_but_the_page(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    verb.demo(out, workers=0)
    (out / "report" / "index.html").unlink()
    capsys.readouterr()
    verb.demo(out, workers=0)
    told = capsys.readouterr()
    assert "demo 2 of 2: two: 6 cells in 0 jobs, 6 of them already done, 0 workers" in told.err
    assert (out / "report" / "index.html").exists()


def test_its_own_specs_ship() -> None:
    assert set(verb.SPECS) <= set(shipped_specs())
