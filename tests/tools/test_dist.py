"""`make dist` refuses a release that is not what git has, and steps that fail."""

from __future__ import annotations

import importlib
import io
import sys
import tarfile
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[2] / "tools"
NAMES = ("src/karat/a.py", "src/karat/b.yaml")


@pytest.fixture
def dist(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The script, about a checkout of two files."""
    monkeypatch.syspath_prepend(str(FOLDER))
    module = importlib.import_module("dist")
    for name in NAMES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    return module


WHOLE = {"karat/a.py": NAMES[0].encode(), "karat/b.yaml": NAMES[1].encode(), "karat-1.dist-info/RECORD": b""}


def test_a_wheel_that_is_what_git_has_passes(dist: ModuleType) -> None:
    dist.check_wheel(WHOLE, NAMES)


@pytest.mark.parametrize(("changed", "fault"), [
    ({"karat/b.yaml": None}, r"lacks 1 files: karat/b\.yaml"),
    ({"karat/a.py": b"else"}, r"altered 1 files: karat/a\.py"),
    ({"tests/test_a.py": b""}, r"git does not, 1 files: tests/test_a\.py"),
    ({"karat/stray.txt": b""}, r"git does not, 1 files: karat/stray\.txt"),
])  # fmt: skip
def test_a_wheel_that_is_not_is_refused(dist: ModuleType, changed: dict[str, bytes | None], fault: str) -> None:
    files = {name: data for name, data in {**WHOLE, **changed}.items() if data is not None}
    with pytest.raises(dist.Refused, match=fault):
        dist.check_wheel(files, NAMES)


@pytest.mark.parametrize(("names", "fault"), [
    ((*NAMES, "PKG-INFO"), None), ((NAMES[0], "PKG-INFO"), "b.yaml"), ((*NAMES, "notes.txt"), "notes.txt"),
])  # fmt: skip
def test_an_sdist_has_what_git_has(dist: ModuleType, tmp_path: Path, names: tuple[str, ...], fault: str | None) -> None:
    with tarfile.open(tmp_path / "karat-1.tar.gz", "w:gz") as archive:
        for name in names:
            archive.addfile(tarfile.TarInfo(f"karat-1/{name}"), io.BytesIO())
    if fault is None:
        dist.check_sdist(tmp_path / "karat-1.tar.gz", NAMES)
    else:
        with pytest.raises(dist.Refused, match=fault):
            dist.check_sdist(tmp_path / "karat-1.tar.gz", NAMES)


def test_a_command_that_fails_shows_its_whole_output(dist: ModuleType) -> None:
    script = "import sys; print('out', flush=True); print('err', file=sys.stderr); sys.exit(3)"
    with pytest.raises(dist.Refused, match="ended with 3:\nout\nerr"):
        dist.call([sys.executable, "-c", script])


@pytest.mark.parametrize("tag", ["0.2.0", "v0.2.1", "v0.2.0-rc1", "release", ""])
def test_a_tag_that_is_not_the_version_is_refused(dist: ModuleType, tag: str) -> None:
    dist.check_tag("v0.2.0", "0.2.0")
    with pytest.raises(dist.Refused, match=r"tag v0\.2\.0"):
        dist.check_tag(tag, "0.2.0")
