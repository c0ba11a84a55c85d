"""One browser and one small report for all browser tests."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from karat.report import report
from tests.report.chromium import BINARY, Browser
from tests.report.runs import make_run

BUILD = Path(__file__).parents[2] / "build"


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    if BINARY is None:
        pytest.skip("no chromium on this machine (Debian: apt-get install chromium)")
    with Browser() as browser:
        yield browser


@pytest.fixture
def browser(chromium: Browser) -> Iterator[Browser]:
    """A page of desktop size; whatever it complains about fails the test."""
    chromium.size(1280, 900)
    chromium.problems.clear()
    yield chromium
    assert chromium.problems == []


@pytest.fixture(scope="session")
def demo_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("demo") / "run", n=48, concluded=True)


@pytest.fixture(scope="session")
def demo(demo_run: Path) -> Path:
    return report([demo_run], demo_run.parent / "page")


@pytest.fixture(scope="session")
def demo_compass(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compass")
    return report([make_run(folder / "run", n=4, metrics=("mass", "compass"))], folder / "page")


@pytest.fixture(scope="session")
def screenshots() -> Path:
    return BUILD / "screenshots"


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe-core, fetched once into build/."""
    script = BUILD / "axe" / "package" / "axe.min.js"
    if not script.exists():
        if shutil.which("npm") is None:
            pytest.skip("no npm to fetch axe-core with")
        (BUILD / "axe").mkdir(parents=True, exist_ok=True)
        try:
            subprocess.run(["npm", "pack", "axe-core"], cwd=BUILD / "axe", check=True, capture_output=True, timeout=60)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            pytest.skip("axe-core could not be fetched (no network?)")
        with tarfile.open(next((BUILD / "axe").glob("*.tgz"))) as archive:
            archive.extractall(BUILD / "axe", filter="data")
    return script.read_text("utf-8")
