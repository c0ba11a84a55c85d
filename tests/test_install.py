"""The wheel as pip installs it: nothing in the way of others, and the checkout not needed."""

from __future__ import annotations

import csv
import importlib
import subprocess
import sys
from pathlib import Path

import pytest
from wheels import ROOT, karat_wheel, toy_wheel

import karat


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return karat_wheel(tmp_path_factory.mktemp("wheel"))


def output_of(command: list[str], cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    return subprocess.run(command, cwd=cwd, env=env, check=True, capture_output=True, text=True).stdout


def install(target: Path, *wheels: Path) -> None:
    options = ("--quiet", "--no-index", "--no-deps", "--no-compile", "--target", str(target))
    output_of([sys.executable, "-m", "pip", "install", *options, *map(str, wheels)])


def installed_files(target: Path, distribution: str) -> set[str]:
    """What RECORD lists, commands included; pip writes paths of these relative to the place of the library."""
    [record] = target.glob(f"{distribution}-*.dist-info/RECORD")
    return {name.removeprefix("../../") for name, *_ in csv.reader(record.read_text().splitlines())}


@pytest.mark.parametrize(("package", "collide"), [("assay", False), ("karat", True)])
def test_files_are_shared_only_with_a_package_of_the_same_name(
    wheel: Path, tmp_path: Path, package: str, collide: bool
) -> None:
    toy = toy_wheel(tmp_path, package)
    for name, file in (("karat", wheel), (f"toy_{package}", toy)):
        install(tmp_path / name, file)
    ours, theirs = (installed_files(tmp_path / name, name) for name in ("karat", f"toy_{package}"))
    assert {name.split("/")[0] for name in ours} == {"karat", f"karat-{karat.__version__}.dist-info", "bin"}
    assert f"bin/{package}" in theirs
    assert (ours & theirs) == ({"karat/__init__.py", "bin/karat"} if collide else set())


def test_a_package_called_assay_and_karat_work_in_one_place(wheel: Path, tmp_path: Path) -> None:
    target, folder = tmp_path / "target", tmp_path / "empty"
    folder.mkdir()
    install(target, toy_wheel(tmp_path, "assay"), wheel)
    script = f"import sys; sys.path.insert(0, {str(target)!r}); import assay, karat; print(assay, karat, sep='\\n')"
    assay_line, karat_line = output_of([sys.executable, "-I", "-c", script], cwd=folder).splitlines()
    assert str(target / "assay" / "__init__.py") in assay_line
    assert str(target / "karat" / "__init__.py") in karat_line
    path = {"PYTHONPATH": str(target)}
    assert output_of([str(target / "bin/assay")], cwd=folder, env=path) == "the toy\n"
    assert output_of([str(target / "bin/karat"), "--version"], cwd=folder, env=path) == f"karat {karat.__version__}\n"


def test_make_dist_tries_the_wheel_and_not_the_checkout(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    dist = importlib.import_module("dist")
    place, folder = tmp_path / "environment", tmp_path / "empty"
    folder.mkdir()
    python = dist.install(wheel, place) / "python"
    clean = dist.clean_environment(folder)
    assert dist.check_origin(python, place, folder, clean) == karat.__version__
    with pytest.raises(dist.Refused, match="not from the installed wheel"):
        dist.check_origin(python, place, folder, {**clean, "PYTHONPATH": str(ROOT / "src")})
