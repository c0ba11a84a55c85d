"""The first screen: the protocol's own figure, and a sample chosen by the rule that it states."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from karat.kernel.finding import Figure, Series
from karat.report import report
from karat.report.evidence import gather
from karat.report.front import front
from karat.report.leaderboards import boards, chief
from karat.report.maps import Written
from karat.report.page_output import Inside
from karat.report.samples import write_samples
from karat.results import load_run
from karat.results.store import Store
from tests.report.chromium import Browser
from tests.report.examples import findings
from tests.report.runs import make_run


def _front(run: Path, pictures: int | None = None) -> dict:
    evidence = gather([run])
    samples = write_samples(evidence, Inside(), pictures, Written())
    return front(evidence, "grid", chief(evidence, list(boards(evidence)))["grid"], samples)


def test_the_figure_is_the_one_that_the_protocol_marks(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", n=8)
    assert _front(run)["figure"]["title"] == "mass by explainer"  # nothing concluded: the chief score
    marked = findings()
    Store(run).write_json("findings.json", [finding.plain() for finding in marked])
    assert _front(run)["figure"]["title"] == marked[0].figures[0].title  # nothing marked: the verdict's first
    *others, last = marked[0].figures
    marked[0] = replace(marked[0], figures=(*others, replace(last, headline=True)))
    Store(run).write_json("findings.json", [finding.plain() for finding in marked])
    assert _front(run)["figure"]["title"] == last.title
    assert load_run(run).findings()[0].figures[-1].headline


def test_a_figure_that_is_too_tall_for_a_screen_stays_among_the_findings(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", n=8)
    concluded = findings()
    for lines, title in ((30, "many"), (31, "mass by explainer")):
        many = Series("many", tuple(f"model {k}" for k in range(lines)), (0.5,) * lines)
        tall = Figure("many", "intervals", "model", "value", (many,), headline=True)
        concluded[0] = replace(concluded[0], figures=(tall,))
        Store(run).write_json("findings.json", [finding.plain() for finding in concluded])
        assert _front(run)["figure"]["title"] == title


def test_the_sample_is_where_best_and_worst_lie_furthest_apart(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", n=40)
    told = _front(run)["sample"]
    scores = load_run(run).scores()
    mine = scores[(scores["metric"] == "mass") & (scores["model"] == told["model"])]
    table = mine.pivot(index="sample", columns="explainer", values="value")
    methods = table.drop(columns=["control/random", "control/oracle"]).mean()
    everything = scores[(scores["metric"] == "mass") & ~scores["explainer.is_control"]].groupby("explainer")["value"]
    assert (told["best"]["name"], told["worst"]["name"]) == (everything.mean().idxmax(), everything.mean().idxmin())
    assert len(methods) == 4
    gap = table[told["best"]["name"]] - table[told["worst"]["name"]]
    assert told["id"] == gap.idxmax()
    assert told["best"]["value"] - told["worst"]["value"] == pytest.approx(gap.max(), abs=2e-3)


def test_a_page_of_few_pictures_shows_one_of_those(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", n=100)
    told = _front(run, pictures=32)["sample"]
    assert int(told["id"].rpartition("/")[2]) < 32
    assert "Of 32 samples" in told["rule"]
    assert _front(run, pictures=0)["sample"] is None


@pytest.mark.browser
@pytest.mark.parametrize("wide", [1280, 820, 390])
def test_the_first_screen_has_a_figure_and_the_sample(browser: Browser, tmp_path: Path, wide: int) -> None:
    run = make_run(tmp_path / "run", n=9, concluded=True, mechanisms=True)
    browser.size(wide, 900)
    page = report([run], tmp_path / "page")
    browser.open(page, "overview", "document.querySelectorAll('.telling canvas').length === 2")
    assert browser.run("document.querySelector('.answer-figure .chart').getBoundingClientRect().top < innerHeight")
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")
    link = browser.run("document.querySelector('.telling a').getAttribute('href')")
    browser.open(page, link.removeprefix("#"), "document.querySelector('.matrix')")


@pytest.mark.browser
def test_twins_stand_side_by_side_and_two_cells_flick(browser: Browser, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", n=5, mechanisms=True)
    page = report([run], tmp_path / "page")
    browser.size(1280, 900)
    browser.open(page, "samples", "document.querySelectorAll('.matrix td').length > 3")
    heads = "[...document.querySelectorAll('.matrix thead .name')].map((n) => n.textContent)"
    assert browser.run(heads) == ["twin.pure", "twin.spur"]
    rows = browser.run("[...document.querySelectorAll('.matrix tbody th')].map((n) => n.textContent)")
    assert rows[0] == "Image"
    assert set(rows[1:]) == set(load_run(run).scores()["explainer"].unique())
    browser.run("document.querySelectorAll('.pick')[0].click(); document.querySelectorAll('.pick')[1].click()")
    name = "document.querySelector('.flick p').textContent"
    assert browser.run(name) == "on twin.spur"
    browser.run("document.body.dispatchEvent(new KeyboardEvent('keydown', {key: 'f', bubbles: true}))")
    assert browser.run(name) == "on twin.pure"
    address = browser.run("location.hash")
    assert "cell=" in address
    browser.open(page, address.removeprefix("#"), "document.querySelector('td.linked')")
    assert browser.run("document.querySelector('td.linked').dataset.cell").endswith("|twin.spur")
