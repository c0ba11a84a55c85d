"""Wheels for tests of installing: Karat's own, built without the network, and toy packages packed by hand."""

from __future__ import annotations

import csv
import importlib.util
import io
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def karat_wheel(folder: Path) -> Path:
    """Karat's wheel, built from this checkout by the build backend that pyproject.toml names."""
    if importlib.util.find_spec("hatchling") is None:
        pytest.skip("hatchling is not installed, so no wheel can be built: pip install 'karat[test]'")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    [wheel] = folder.glob("karat-*.whl")
    return wheel


def toy_wheel(folder: Path, package: str) -> Path:
    """A distribution `toy-PACKAGE` with the import package and the command PACKAGE."""
    stem = f"toy_{package}-1.0"
    files = {
        f"{package}/__init__.py": "def main():\n    print('the toy')\n",
        f"{stem}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: toy-{package}\nVersion: 1.0\n",
        f"{stem}.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{stem}.dist-info/entry_points.txt": f"[console_scripts]\n{package} = {package}:main\n",
    }
    record = io.StringIO()
    csv.writer(record).writerows([name, "", ""] for name in [*files, f"{stem}.dist-info/RECORD"])
    wheel = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in {**files, f"{stem}.dist-info/RECORD": record.getvalue()}.items():
            archive.writestr(name, text)
    return wheel
