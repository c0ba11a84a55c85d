"""What the comparisons have in common: records, medians, the page. The comparisons themselves are for `make bench`."""

from __future__ import annotations

import ast
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
SUPPORT = [path.stem for path in (FOLDER.parent / "tests" / "support").glob("*.py")]
SCRIPTS = sorted(FOLDER.glob("bench_*.py"))


@pytest.fixture
def shape(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("side_by_side")


@pytest.fixture
def runner(shape: ModuleType) -> ModuleType:
    return importlib.import_module("run")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_every_script_makes_a_record_and_knows_a_short_form(script: Path) -> None:
    tree = ast.parse(script.read_text("utf-8"))
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    assert {"compared", "size"} <= called
    assert not any(isinstance(node, ast.Attribute) and node.attr == "perf_counter" for node in ast.walk(tree)) or (
        script.stem == "bench_engine"  # waits for other processes, which have CPU times of their own
    )


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_the_checkout_is_on_the_path_before_anything_of_it_is_imported(script: Path) -> None:
    tree = ast.parse(script.read_text("utf-8"))
    modules = [node.module or "" for node in tree.body if isinstance(node, ast.ImportFrom)]
    ours = [k for k, module in enumerate(modules) if module.partition(".")[0] in ("karat", "tests", *SUPPORT)]
    assert not ours or modules.index("side_by_side") < min(ours)


def test_a_script_runs_by_itself_from_anywhere(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, str(FOLDER / "bench_probe.py"), "--help"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "--traces" in done.stdout


def test_runs_take_turns(shape: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(shape.QUICK, raising=False)
    said: list[str] = []
    taken = shape.in_turns(lambda: said.append("a"), lambda: said.append("b"), rounds=3)
    assert said == ["a", "b"] * 4  # once to warm up
    assert [len(turns) for turns in taken] == [3, 3]
    assert shape.size(100, 3) == 100
    monkeypatch.setenv(shape.QUICK, "1")
    assert shape.size(100, 3) == 3
    assert [len(turns) for turns in shape.in_turns(lambda: None, rounds=5)] == [1]


def test_rounds_become_one_row_with_its_spread(
    shape: ModuleType, runner: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "games"
    folder.mkdir()
    for number, theirs in enumerate(([4.0, 6.0], [8.0, 90.0])):
        monkeypatch.setenv(shape.RECORD, str(folder / f"{number}.jsonl"))
        shape.compared("Shapley values", "captum", [1.0, 2.0], theirs, "equal", "≥ 2")
        (folder / f"{number}.txt").write_text("load 1.5\nit said so")
    assert json.loads((folder / "0.jsonl").read_text())["theirs"] == [4.0, 6.0]
    [row] = runner.gathered(folder)
    assert row["ratio"] == 7.0 / 1.5  # medians, so that one disturbed turn does not count
    assert row["spread"] == "3 to 45"
    page = runner.page(tmp_path)
    assert "| Shapley values | captum | 4.67 | 3 to 45 | equal | ≥ 2 |" in page
    assert "it said so" in page
    assert "Python" in page


def test_without_a_file_nothing_is_kept(shape: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(shape.RECORD, raising=False)
    monkeypatch.chdir(tmp_path)
    shape.compared("a", "b", 1.0, 2.0, "equal")
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_name_is_said(runner: ModuleType) -> None:
    with pytest.raises(SystemExit, match="no benchmark called nothing"):
        runner.scripts(["nothing"])
