"""JUnit XML of a comparison: what fails, what is skipped, and nothing that a parser stumbles over."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from typer.testing import CliRunner

from karat.cli.main import app
from karat.kernel.errors import BadInput
from karat.report.compare import Compared, Place
from karat.report.comparison_junit import junit
from karat.report.comparison_table import printable
from tests.report.comparisons import ALL, change, comparison
from tests.report.runs import SKILL, make_run
from tests.report.test_comparison_table import LABELS


def parsed(compared: Compared) -> ET.Element:
    """The document, held to what Jenkins, GitLab and GitHub's reporters agree on."""
    data = junit(compared)
    assert data.startswith(b"<?xml version='1.0' encoding='utf-8'?>")
    root = ET.fromstring(data)
    assert root.tag == "testsuites"
    for suite in root:
        assert suite.tag == "testsuite"
        assert suite[0].tag == "properties"  # schemas want them before the tests
        assert all(item.tag == "property" and set(item.attrib) == {"name", "value"} for item in suite[0])
        names = [item.get("name") for item in suite[0]]
        assert len(set(names)) == len(names)
        for test in suite[1:]:
            assert test.tag == "testcase"
            assert set(test.attrib) == {"name", "classname", "time"}
            assert [outcome.tag for outcome in test] in (["failure"], ["skipped"], ["system-out"])
    assert "skipped" not in root.attrib
    assert all(suite.get("skipped") == str(len(list(suite.iter("skipped")))) for suite in root)
    for holder in (root, *root):
        tests = list(holder.iter("testcase"))
        assert holder.get("tests") == str(len(tests))
        assert holder.get("failures") == str(len(list(holder.iter("failure"))))
        assert (holder.get("errors"), holder.get("time")) == ("0", "0")
    keys = [(test.get("classname"), test.get("name")) for test in root.iter("testcase")]
    assert len(set(keys)) == len(keys)
    return root


def test_worse_fails_and_what_cannot_be_judged_is_skipped() -> None:
    root = parsed(ALL)
    outcome = {test.get("name"): test[0] for test in root.iter("testcase")}
    assert {name: element.tag for name, element in outcome.items()} == {
        "cam/gradcam · mass": "failure", "shapley/kernel · mass": "failure", "cam/gradcam · relation": "system-out",
        "perturbation/rise · mass": "system-out", "attention/rollout · mass": "system-out",
        "gradient/input · mass": "skipped", "control/random · mass": "skipped", "cam/old · mass": "skipped",
        "cam/new · mass": "skipped",
    }  # fmt: skip
    assert outcome["cam/gradcam · mass"].get("type") == "worse"
    assert outcome["cam/gradcam · mass"].get("message") == (
        "worse: 0.6 before, 0.3 after, difference -0.3 (95 % interval -0.35 to -0.25), p 0.002 (Holm), 40 pairs"
    )
    assert outcome["shapley/kernel · mass"].get("type") == "rows fail"
    assert "3 rows had a score and fail now" in (outcome["shapley/kernel · mass"].text or "")
    assert "only in runs/main" in outcome["cam/old · mass"].get("message", "")
    assert "only in runs/branch" in outcome["cam/new · mass"].get("message", "")
    assert root.get("name") == "karat compare: 2 of 7 comparisons are worse"


def test_suites_are_of_one_model_each_and_say_versions_and_settings() -> None:
    root = parsed(ALL)
    assert [suite.get("name") for suite in root] == ["grid · twin.pure · pictures", "grid · twin.new · pictures"]
    for suite in root:
        assert {item.get("name"): item.get("value") for item in suite[0]} == {
            "before": "runs/main", "after": "runs/branch", "level": "0.05", "tolerance": "0.001",
            "before.versions.python": "3.11", "after.versions.python": "3.11", "before.versions.torch": "2.4",
            "after.versions.torch": "2.5", "before.seed": "0", "after.seed": "1",
        }  # fmt: skip


@pytest.mark.parametrize("label", [*LABELS, "]]>", "<![CDATA[", "&amp;", "\ufffe\uffff", "\"quoted\" 'twice'"])
def test_hostile_labels_come_back_as_they_were(label: str) -> None:
    everywhere = dict.fromkeys(("protocol", "model", "dataset", "metric"), label)
    compared = comparison(
        change("worse", label, **everywhere),
        before=label,
        after=label,
        settings=((label, label, label),),
        only_before=(Place(label, label, label, label, "mass"),),
    )
    text = printable(label)
    [suite] = parsed(compared)
    assert suite.get("name") == " · ".join([text] * 3)
    assert [test.get("name") for test in suite[1:]] == [f"{text} · {text}", f"{text} · mass"]
    assert suite[0][-1].attrib == {"name": f"after.{text}", "value": text}


def test_the_command_writes_both_files_and_still_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = make_run(tmp_path / "a", n=40)
    monkeypatch.setitem(SKILL, "cam/gradcam", 0.2)
    after = make_run(tmp_path / "b", n=40, seed=1)
    xml, page = tmp_path / "new folder" / "compare.xml", tmp_path / "compare.md"
    files = ["--junit", str(xml), "--markdown", str(page)]
    worse = CliRunner().invoke(app, ["compare", str(before), str(after), "--fail-if-worse", *files])
    assert worse.exit_code == 1
    root = ET.parse(xml).getroot()
    failed = {test.get("name") for test in root.iter("testcase") if test.find("failure") is not None}
    assert {"cam/gradcam · mass", "cam/gradcam · outside"} <= failed
    assert all(name is not None and name.startswith("cam/gradcam") for name in failed)
    assert root.get("tests") == "36"
    assert {"name": "before.versions.python", "value": "3.11"} in [item.attrib for item in root.iter("property")]
    assert "comparisons are worse" in page.read_text().splitlines()[0]
    assert sorted(tmp_path.glob("**/.*.tmp")) == []


def test_files_that_cannot_be_written_are_refused_before_work(tmp_path: Path) -> None:
    same = CliRunner().invoke(app, ["compare", "no", "run", "--junit", "a.xml", "--markdown", "a.xml"])
    assert isinstance(same.exception, BadInput)
    assert "one and the same file" in str(same.exception)
    folder = CliRunner().invoke(app, ["compare", "no", "run", "--markdown", str(tmp_path)])
    assert isinstance(folder.exception, BadInput)
    assert "is a folder" in str(folder.exception)
