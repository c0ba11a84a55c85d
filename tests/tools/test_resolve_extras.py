"""What tools/resolve_extras.py makes of the resolver's answers; the resolver itself needs the network."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[2] / "tools"
PYPROJECT = """
[project]
dependencies = ["one"]
[project.optional-dependencies]
plain = ["one"]
peer = ["grad-cam"]
odd = ["odd"]
torn = ["torn"]
"""
# Answers as uv does: wheels alone are refused where a package is only source; some extras cannot be met at all.
UV = f"""#!{sys.executable}
import sys
extra = sys.argv[sys.argv.index("--extra") + 1] if "--extra" in sys.argv else ""
name = {{"peer": "grad-cam", "odd": "odd"}}.get(extra)
if extra == "torn" or (name and "--only-binary" in sys.argv):
    sys.exit("no version of it fits")
print('[[packages]]\\nname = "one"\\nversion = "1"\\nwheels = [{{url = "one-1-py3-none-any.whl"}}]')
if name:
    print(f'[[packages]]\\nname = "{{name}}"\\nversion = "2"\\nsdist = {{{{url = "x.tar.gz"}}}}')
"""


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    (tmp_path / "uv").write_text(UV)
    (tmp_path / "uv").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("resolve_extras")


@pytest.mark.parametrize(("extras", "code", "cell", "note"), [
    (["(core)", "plain"], 0, "1 wheels", ""),
    (["peer"], 0, "1 without wheel", "only as source: grad-cam 2 (plain Python"),
    (["odd"], 1, "1 without wheel", "only as source: odd 2\n    in odd on 3.11, odd on 3.13"),
    (["torn"], 1, "conflict", "no version of it fits\n    in torn on 3.11, torn on 3.13"),
])  # fmt: skip
def test_sources_and_conflicts_are_named_and_fail(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    extras: list[str], code: int, cell: str, note: str,
) -> None:  # fmt: skip
    arguments = ["--pyproject", str(tmp_path / "pyproject.toml"), "--python", "3.11", "3.13", "--extra", *extras]
    monkeypatch.setattr(sys, "argv", ["resolve_extras.py", *arguments])
    assert script.main() == code
    table = capsys.readouterr().out
    assert table.count(cell) == 2 * len(extras)
    assert note in table


def test_all_extras_and_the_core_are_tried(script: ModuleType, tmp_path: Path) -> None:
    assert script.extras(tmp_path / "pyproject.toml") == ["(core)", "plain", "peer", "odd", "torn"]
