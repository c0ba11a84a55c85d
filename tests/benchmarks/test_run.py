"""What benchmarks/run.py keeps and says of scripts that fail, skip a part, or ran elsewhere."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
WORKS = """
from side_by_side import compared, skipped
compared("values", "a peer", [1.0, 1.0], [2.0, 4.0], "equal")
skipped("values", "another peer", "not installed")
print("it said so")
"""
FAILS = WORKS + "raise SystemExit('maps differ by 3 | 4')\n"


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.setenv("PYTHONPATH", str(FOLDER))
    return importlib.import_module("run")


def rounds(runner: ModuleType, kept: Path, *codes: str) -> list[bool]:
    """A script called games, with another code in every round."""
    script = kept / "bench_games.py"
    held = []
    for number, code in enumerate(codes):
        script.write_text(code)
        held.append(runner.run_one(script, number, kept, quick=True))
    return held


def test_a_round_that_fails_marks_the_rows_of_the_others(runner: ModuleType, tmp_path: Path) -> None:
    assert rounds(runner, tmp_path, WORKS, FAILS, WORKS) == [True, False, True]
    page = runner.page(tmp_path)
    assert "| **failed in 1 of 3 rounds** |  |  |  | maps differ by 3 &#124; 4 |  |" in page
    assert "| values | a peer | 3 | 2 to 4 | equal, failed in 1 of 3 rounds |  |" in page


def test_a_script_that_always_fails_stays_on_the_page(runner: ModuleType, tmp_path: Path) -> None:
    assert rounds(runner, tmp_path, FAILS, FAILS) == [False, False]
    page = runner.page(tmp_path)
    assert "## games" in page
    assert "**failed in 2 of 2 rounds**" in page
    assert "| values |" not in page


def test_what_is_skipped_is_a_row(runner: ModuleType, tmp_path: Path) -> None:
    rounds(runner, tmp_path, WORKS)
    page = runner.page(tmp_path)
    assert "| values | another peer | skipped |  | not installed |  |" in page
    assert "failed" not in page


def test_rounds_of_other_versions_are_dropped(runner: ModuleType, tmp_path: Path) -> None:
    rounds(runner, tmp_path, WORKS, WORKS, WORKS)
    first, second = tmp_path / "games" / "0.json", tmp_path / "games" / "1.json"
    first.write_text(json.dumps({**json.loads(first.read_text()), "versions": "numpy 1.0"}))
    second.unlink()  # where it ran is not known
    runner.drop_others(tmp_path)
    assert sorted(path.name for path in (tmp_path / "games").iterdir()) == ["2.json", "2.jsonl", "2.txt"]
    assert "The last of one round" in runner.page(tmp_path)


def test_scripts_without_results_are_named(runner: ModuleType, tmp_path: Path) -> None:
    rounds(runner, tmp_path, WORKS)
    [line] = [line for line in runner.page(tmp_path).splitlines() if line.startswith("Not run")]
    assert "cams" in line
    assert "games" not in line
