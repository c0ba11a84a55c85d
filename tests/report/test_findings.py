"""Findings on their way to the page: grouped, tidied, the verdict first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from karat.report import report
from karat.report.evidence import gather
from karat.report.findings import verdict_of, write_findings
from karat.report.page_output import Inside
from karat.results.record import record
from karat.results.run import load_run
from karat.results.store import Store
from tests.report.runs import make_run
from tests.report.test_page import _Tags


def _written(evidence: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    sink = Inside()
    index = write_findings(evidence, sink)
    return index, {name: json.loads(text) for name, text in sink.blocks.items()}


def test_sections_keep_their_order_and_the_verdict_comes_first(tmp_path: Path) -> None:
    index, chunks = _written(gather([make_run(tmp_path / "a", n=6, concluded=True)]))
    assert index == [{"protocol": "grid", "chunk": "findings-0"}]
    sections = chunks["findings-0"]
    assert [s["title"] for s in sections] == ["", "RQ1: do maps find the evidence?", "RQ2: does it last?"]
    assert sections[0]["findings"][0]["title"] == "Which twin made this explanation?"
    kinds = [figure["kind"] for s in sections for finding in s["findings"] for figure in finding["figures"]]
    assert set(kinds) == {"bars", "lines", "points", "intervals", "slopes", "grid"}


def test_what_json_does_not_have_becomes_null(tmp_path: Path) -> None:
    _, chunks = _written(gather([make_run(tmp_path / "a", n=6, concluded=True)]))
    [verdict, *_] = chunks["findings-0"][0]["findings"]
    row = dict(zip(verdict["columns"], verdict["rows"][2], strict=True))
    assert row["high"] is None
    assert row["p"] == 0.001
    assert row["samples"] == 48


def test_the_front_page_says_the_protocols_verdict_and_where_the_rest_is(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a", n=6, concluded=True, mechanisms=True)
    said = verdict_of(gather([run]), "grid")
    assert said is not None
    assert said.first.startswith("Two of six explainers")
    assert (len(said.rest), said.more) == (2, 3)
    parsed = _Tags()
    parsed.feed(report([run], tmp_path / "page").read_text())
    text = " ".join(" ".join(parsed.text).split())
    assert text.index(said.first) < text.index("twin.pure : ") < text.index("Leaderboard")
    assert "3 more sentences, tables and figures" in text
    assert {"href": "#findings?protocol=grid"} in [attrs for tag, attrs in parsed.tags if tag == "a"]


def test_without_findings_the_board_speaks(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a", n=60)
    assert verdict_of(gather([run]), "grid") is None
    assert _written(gather([run])) == ([], {})
    assert 'class="sentence" dir="auto">perturbation/rise is first on mass' in report([run], tmp_path / "p").read_text()


def test_findings_of_two_runs_say_which_run_they_are_of(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / name, n=4, models=(f"{name}.pure",), concluded=True) for name in ("a", "b")]
    index, chunks = _written(gather(runs))
    assert len(index) == 1
    found = [finding["run"] for section in chunks["findings-0"] for finding in section["findings"]]
    assert sorted(set(found)) == ["b", "demo"]


def test_a_recorded_run_has_tables_and_findings_but_no_samples(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a", n=6, concluded=True)
    record(load_run(run), tmp_path / "kept")
    page = report([tmp_path / "kept"], tmp_path / "page")
    assert (page.parent / "data" / "findings-0.js").exists()
    names = [metric.name for metric in gather([tmp_path / "kept"]).metrics]
    assert sorted(names) == ["mass", "outside", "relation"]
    assert "Two of six explainers" in page.read_text()


def test_hostile_findings_stay_text(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a", n=4, concluded=True)
    findings = Store(run).read_json("findings.json")
    findings[0]["sentences"][0] = "</script><img src=x onerror=alert(1)>"
    Store(run).write_json("findings.json", findings)
    parsed = _Tags()
    parsed.feed(report([run], tmp_path / "page", single_file=True).read_text())
    assert not [tag for tag, _ in parsed.tags if tag == "img"]
    assert any("</script><img src=x" in text for text in parsed.text)
