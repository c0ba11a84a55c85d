"""The template package, installed as anybody would install it: it is listed, conforms and runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEMPLATE = ROOT / "templates" / "karat-example"
KARAT = ("-c", "from karat.cli.main import main; main()")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("setuptools")
    folder = tmp_path_factory.mktemp("template")
    source = shutil.copytree(TEMPLATE, folder / "source")  # building leaves files beside pyproject.toml
    _run(
        *("-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"),
        *("--disable-pip-version-check", "--target", str(folder / "site"), str(source)),
    )
    return folder


def _run(*command: str, site: Path | None = None, cwd: Path | None = None) -> str:
    paths = [str(ROOT / "src"), *([str(site)] if site else []), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path), "OMP_NUM_THREADS": "1"}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # the plug-in is named: an installed Karat would add it again
    done = subprocess.run(
        [sys.executable, *command], env=environment, cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done.stdout


def test_it_is_listed_beside_our_own(installed: Path) -> None:
    listing = _run(*KARAT, "ls", site=installed / "site")
    for name in ("example/surprise", "example/coverage", "example/stripes", "control/random"):
        assert name in listing


def test_its_own_tests_pass(installed: Path) -> None:
    """Both ways: tests that call the kit, and what the plug-in makes of `karat_check`."""
    plugin = ("-p", "karat.testing.plugin", "-p", "no:cacheprovider")
    report = _run("-m", "pytest", "-q", "-rA", *plugin, "tests", site=installed / "site", cwd=installed / "source")
    assert "8 passed" in report
    for name in ("example/surprise", "example/coverage", "example/stripes"):
        assert f"karat_check[{name}]" in report


def test_its_spec_runs(installed: Path) -> None:
    given = ("run", "spec.yaml", "--limit", "4", "--workers", "1", "--progress", "none")
    _run(*KARAT, *given, site=installed / "site", cwd=installed / "source")
    from karat import load_run

    rows = load_run(installed / "source" / "runs" / "example").scores()
    mass = rows[rows.metric == "localization/relevance_mass"].groupby("explainer").value.mean()
    assert mass["example/surprise"] > 2 * mass["control/uniform"]  # cells are twice as high as a stripe, or more
    covered = rows[rows.metric == "example/coverage"].groupby("explainer").value.mean()
    assert covered["control/uniform"] == 1.0  # everything is lit


def test_what_it_teaches_stays_short() -> None:
    for name in ("explainer", "metric", "dataset", "model"):
        lines = (TEMPLATE / "src" / "karat_example" / f"{name}.py").read_text(encoding="utf-8").splitlines()
        assert sum(map(bool, lines)) < 30  # with imports and docstrings, without blank lines
