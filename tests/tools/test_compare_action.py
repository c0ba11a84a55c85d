"""The shell step of action.yml, run as the script it is."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.report.runs import SKILL, make_run

SCRIPT = Path(__file__).parents[2] / "tools" / "compare-action.sh"
HOSTILE = [
    "runs/with space", "quote'd", 'quote"d', "$(touch pwned)", "`touch pwned`", "; touch pwned", "a\nb", "--help",
    "-o/tmp/x", "*", "${{ github.token }}", "\\", "s3://bucket/runs/main?x=1&y=2",
]  # fmt: skip

# Keeps its arguments, writes the page it is asked for, and ends as it is told.
FAKE = f"""#!{sys.executable}
import os, sys
open("arguments", "w").write("\\0".join(sys.argv[1:]))
[page] = [a.removeprefix("--markdown=") for a in sys.argv if a.startswith("--markdown=")]
if os.environ.get("FAKE_PAGE"):
    open(page, "w").write(os.environ["FAKE_PAGE"] * int(os.environ.get("FAKE_TIMES", "1")))
print("::error::not a command to the runner")
sys.exit(int(os.environ.get("FAKE_STATUS", "0")))
"""
REAL = f"""#!/bin/sh
exec '{sys.executable}' -m karat "$@"
"""


class Step:
    """A runner's folder and the files that it reads after the step."""

    def __init__(self, folder: Path, karat: str | None) -> None:
        self.folder, self.temporary = folder, folder / "runner temp"
        self.temporary.mkdir()
        self.summary, self.output = folder / "summary.md", folder / "output"
        (folder / "bin").mkdir()
        if karat is not None:
            self.add("karat", karat)

    def add(self, name: str, text: str) -> None:
        command = self.folder / "bin" / name
        command.write_text(text)
        command.chmod(0o755)

    def run(self, path: str | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {
            "PATH": path or f"{self.folder / 'bin'}:/usr/bin:/bin", "RUNNER_TEMP": str(self.temporary),
            "GITHUB_STEP_SUMMARY": str(self.summary), "GITHUB_OUTPUT": str(self.output),
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""), **variables,
        }  # fmt: skip
        return subprocess.run([SCRIPT], cwd=self.folder, env=environment, capture_output=True, text=True)

    @property
    def outputs(self) -> dict[str, str]:
        return dict(line.split("=", 1) for line in self.output.read_text().splitlines())

    @property
    def arguments(self) -> list[str]:
        return (self.folder / "arguments").read_text().split("\0")


@pytest.fixture
def step(tmp_path: Path) -> Step:
    return Step(tmp_path, FAKE)


@pytest.mark.parametrize("value", HOSTILE)
def test_inputs_arrive_as_they_are_and_are_never_code(step: Step, value: str) -> None:
    done = step.run(
        INPUT_BASE=value,
        INPUT_HEAD=value,
        INPUT_TOLERANCE=value,
        INPUT_LEVEL=value,
        INPUT_JUNIT=value,
        FAKE_PAGE="page\n",
    )
    assert done.returncode == 0, done.stderr
    verb, *options, end, base, head = step.arguments
    assert (verb, end, base, head) == ("compare", "--", value, value)  # nothing after -- is an option
    assert set(options[:-1]) == {"--fail-if-worse", f"--tolerance={value}", f"--level={value}", f"--junit={value}"}
    assert options[-1].startswith(f"--markdown={step.temporary}/")
    assert not (step.folder / "pwned").exists()


def test_empty_inputs_leave_the_defaults_to_karat(step: Step) -> None:
    step.run(INPUT_BASE="a", INPUT_HEAD="b", INPUT_TOLERANCE="", INPUT_LEVEL="", INPUT_JUNIT="", FAKE_PAGE="page\n")
    assert step.arguments[:2] == ["compare", "--fail-if-worse"]
    assert step.arguments[2].startswith("--markdown=")
    assert step.arguments[3:] == ["--", "a", "b"]


@pytest.mark.parametrize(("status", "wanted", "code", "worse"), [
    ("0", "true", 0, "false"), ("1", "true", 1, "true"), ("1", "false", 0, "true"), ("0", "false", 0, "false"),
])  # fmt: skip
def test_worse_fails_only_if_wanted_and_is_always_an_output(
    step: Step, status: str, wanted: str, code: int, worse: str
) -> None:
    step.summary.write_text("what was there\n")
    done = step.run(
        INPUT_BASE="a", INPUT_HEAD="b", INPUT_FAIL_IF_WORSE=wanted, FAKE_STATUS=status, FAKE_PAGE="## page | é\n"
    )
    assert done.returncode == code
    assert step.outputs["worse"] == worse
    assert step.summary.read_text() == "what was there\n## page | é\n"
    assert Path(step.outputs["markdown"]).read_text() == "## page | é\n"


@pytest.mark.parametrize(("status", "code"), [("2", 2), ("70", 70), ("1", 70), ("0", 70)])
def test_without_a_page_there_was_no_comparison(step: Step, status: str, code: int) -> None:
    done = step.run(INPUT_BASE="a", INPUT_HEAD="b", INPUT_FAIL_IF_WORSE="false", FAKE_STATUS=status)
    assert done.returncode == code  # a broken Python ends with 1, which must not pass for a verdict
    assert f"no comparison was made (exit code {status})" in step.summary.read_text()
    assert not step.output.exists()


def test_a_page_that_github_would_throw_away_is_cut_at_a_line(step: Step) -> None:
    line = "| a row of a table with an é |\n"
    done = step.run(INPUT_BASE="a", INPUT_HEAD="b", FAKE_PAGE=line, FAKE_TIMES="60000")
    assert done.returncode == 0
    *rows, empty, last = step.summary.read_text().splitlines()
    assert set(rows) == {line.strip()}
    assert (empty, last) == ("", "The rest does not fit into a summary.")
    assert 900_000 < step.summary.stat().st_size < 2**20


@pytest.mark.parametrize(("inputs", "fault"), [
    ({"INPUT_HEAD": "b"}, "base is empty"), ({"INPUT_BASE": "a", "INPUT_HEAD": ""}, "head is empty"),
    ({"INPUT_BASE": "a", "INPUT_HEAD": "b", "INPUT_FAIL_IF_WORSE": "yes"}, "fail-if-worse is true or false; got 'yes'"),
    ({"INPUT_BASE": "a", "INPUT_HEAD": "b", "INPUT_ALL": "1"}, "all is true or false; got '1'"),
])  # fmt: skip
def test_what_cannot_be_meant_is_refused_before_work(step: Step, inputs: dict[str, str], fault: str) -> None:
    done = step.run(**inputs)
    assert done.returncode == 2
    assert fault in done.stderr
    assert not (step.folder / "arguments").exists()


def test_what_karat_prints_is_not_taken_for_commands_to_the_runner(step: Step) -> None:
    first, *printed, last = step.run(INPUT_BASE="a", INPUT_HEAD="b", FAKE_PAGE="page\n").stdout.splitlines()
    [token] = re.fullmatch("::stop-commands::([0-9a-f]{32})", first).groups()  # type: ignore[union-attr]
    assert printed == ["::error::not a command to the runner"]
    assert last == f"::{token}::"


def test_karat_is_installed_from_the_action_where_it_is_missing(tmp_path: Path) -> None:
    step = Step(tmp_path, None)
    venv = (
        '#!/bin/sh\nmkdir -p "$3/bin"; cp "$FAKES/pip-python" "$3/bin/python"; cp "$FAKES/fake-karat" "$3/bin/karat"\n'
    )
    step.add("python3", venv)
    step.add("pip-python", '#!/bin/sh\nprintf "%s\\n" "$@" > installed\n')
    step.add("fake-karat", FAKE)
    for name in ("bash", "env", "mktemp", "od", "tr", "dirname", "mkdir", "cp", "wc", "cat", "sh"):
        (step.folder / "bin" / name).symlink_to(shutil.which(name, path="/usr/bin:/bin"))  # type: ignore[arg-type]
    bin_only = str(step.folder / "bin")
    done = step.run(path=bin_only, INPUT_BASE="a", INPUT_HEAD="b", FAKES=bin_only, FAKE_PAGE="page\n")
    assert done.returncode == 0, done.stderr
    assert (step.folder / "installed").read_text().splitlines()[-1] == str(SCRIPT.parent.parent)
    assert step.arguments[-2:] == ["a", "b"]


def test_real_runs_end_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step = Step(tmp_path, REAL)
    names = ("base run's", "--all")
    few = {"n": 40, "models": ("twin.pure",), "explainers": ("cam/gradcam",), "metrics": ("mass",)}
    make_run(tmp_path / names[0], **few)  # type: ignore[arg-type]
    monkeypatch.setitem(SKILL, "cam/gradcam", 0.2)
    make_run(tmp_path / names[1], seed=1, **few)  # type: ignore[arg-type]
    worse = step.run(INPUT_BASE=names[0], INPUT_HEAD=names[1], INPUT_JUNIT="reports/compare result.xml")
    assert worse.returncode == 1, worse.stderr
    assert step.summary.read_text().startswith("## Karat: 1 of 1 comparisons is worse")
    assert "`cam/gradcam`" in step.summary.read_text()
    assert (tmp_path / "reports" / "compare result.xml").read_bytes().count(b"<failure ") == 1
    assert step.outputs["worse"] == "true"
    missing = step.run(INPUT_BASE="nowhere", INPUT_HEAD=names[1])
    assert missing.returncode == 2
    assert "nowhere" in missing.stderr
