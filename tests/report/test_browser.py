"""The page in a real browser: what filters, keys, links and colours do, checked against the run itself."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest

from karat.report import report
from karat.report.evidence import gather
from karat.report.maps import ItemKey, Kept, by_item, disagree
from karat.results import load_run
from karat.results.store import Store
from tests.report.chromium import Browser
from tests.report.examples import findings
from tests.report.pages import BOARD, CARDS, PAGES
from tests.report.runs import NASTY, Pictures, make_run

pytestmark = pytest.mark.browser


def _samples(browser: Browser, page: Path, query: str = "") -> None:
    browser.open(page, f"samples?layout=one&{query}" if query else "samples?layout=one", CARDS)


def _shown(browser: Browser) -> int:
    return int(str(browser.run("document.querySelector('.side .note').textContent")).split(" of ")[0])


def _choose(browser: Browser, label: str, value: str, within: str = "document") -> None:
    browser.run(
        f"(() => {{ const label = [...{within}.querySelectorAll('label')].find((l) => l.textContent === {label!r});"
        f" const field = document.getElementById(label.htmlFor); field.value = {value!r};"
        " field.dispatchEvent(new Event(field.tagName === 'SELECT' ? 'change' : 'input')); })()"
    )


def _maps_disagree(item: tuple[ItemKey, Kept]) -> float:
    return disagree(
        [parts["visual"] for name, parts in item[1].items() if name not in ("control/random", "control/oracle")]
    )


def test_the_leaderboard_shows_the_boards_numbers(browser: Browser, demo: Path, demo_run: Path) -> None:
    scores = load_run(demo_run).scores()
    browser.open(demo, "overview?metric=outside&model=twin.spur", BOARD)
    shown = dict(browser.run(
        "[...document.querySelectorAll('#leaderboard tbody tr')]"
        ".map((r) => [r.querySelector('th bdi').firstChild.textContent"
        " + (r.querySelector('th wbr')?.nextSibling.textContent ?? ''), r.cells[3].textContent])"
    ))  # fmt: skip
    rows = scores[(scores["metric"] == "outside") & (scores["model"] == "twin.spur")]
    assert shown == {name: f"{value:.3f}" for name, value in rows.groupby("explainer")["value"].mean().items()}


def test_heads_sort_and_say_so(browser: Browser, demo: Path) -> None:
    browser.open(demo, "overview", BOARD)
    cells = "[...document.querySelectorAll('#leaderboard tbody tr')].map((r) => Number(r.cells[3].textContent))"
    browser.run(
        "[...document.querySelectorAll('#leaderboard thead button')].find((b) => b.textContent === 'Mean').click()"
    )
    assert browser.run(cells) == sorted(browser.run(cells), reverse=True)
    assert browser.run("document.querySelector('#leaderboard [aria-sort]').getAttribute('aria-sort')") == "descending"
    browser.run(
        "[...document.querySelectorAll('#leaderboard thead button')].find((b) => b.textContent === 'Mean').click()"
    )
    assert browser.run(cells) == sorted(browser.run(cells))


def test_filters_keep_what_they_say(browser: Browser, demo: Path, demo_run: Path) -> None:
    scores = load_run(demo_run).scores()
    mass = scores[(scores["metric"] == "mass") & (scores["explainer"] == "cam/gradcam")]
    data = Pictures(n=48)
    truth = {f"pictures/{i}": data.sample(i).answer for i in range(48)}
    _samples(browser, demo, "explainer=cam%2Fgradcam")
    assert _shown(browser) == 96
    side = "document.querySelector('.side')"
    _choose(browser, "Model", "twin.spur", side)
    assert _shown(browser) == 48
    _choose(browser, "bucket", "D2_M_F0", side)
    kept = mass[(mass["model"] == "twin.spur") & (mass["meta.bucket"] == "D2_M_F0")]
    assert _shown(browser) == len(kept)
    _choose(browser, "Model's answer", "wrong", side)
    kept = kept[kept["answer"] != kept["sample"].map(truth)]
    assert _shown(browser) == len(kept) > 0
    _choose(browser, "Model's answer", "", side)
    _choose(browser, "bucket", "", side)
    _choose(browser, "at least", "0.35", side)
    spur = mass[mass["model"] == "twin.spur"]
    assert _shown(browser) == (spur["value"].astype(np.float32) >= np.float32(0.35)).sum()
    _choose(browser, "at most", "0.4", side)
    assert _shown(browser) == spur["value"].between(0.35, 0.4).sum()
    _choose(browser, "Search", "no such question", side)
    assert _shown(browser) == 0
    assert "No sample fits" in browser.run("document.querySelector('.viewer').textContent")


def test_search_looks_at_questions_and_ids(browser: Browser, demo: Path) -> None:
    _samples(browser, demo)
    side = "document.querySelector('.side')"
    _choose(browser, "Search", "THE RED square left", side)
    wanted = sum("the red square left" in str(Pictures().sample(i).text) for i in range(48))
    assert _shown(browser) == 2 * wanted
    _choose(browser, "Search", "pictures/17", side)
    assert _shown(browser) == 2


def test_sorting_by_disagreement(browser: Browser, demo: Path, demo_run: Path) -> None:
    scores = load_run(demo_run).scores()
    rows = scores[(scores["metric"] == "mass") & ~scores["explainer.is_control"]]
    spread = rows.groupby(["model", "sample"])["value"].agg(lambda v: v.max() - v.min())
    _samples(browser, demo, "sort=scores")
    first = browser.run("new URLSearchParams(location.hash.split('?')[1]).get('at')")
    assert tuple(first.split("|")) == spread.idxmax()
    _samples(browser, demo, "sort=maps")
    at = browser.run("new URLSearchParams(location.hash.split('?')[1]).get('at')")
    assert tuple(at.split("|")) == max(by_item(gather([demo_run])), key=_maps_disagree)[0][1::2]
    _samples(browser, demo, "sort=low&explainer=perturbation%2Frise")
    rise = rows[rows["explainer"] == "perturbation/rise"].set_index(["model", "sample"])["value"]
    at = browser.run("new URLSearchParams(location.hash.split('?')[1]).get('at')")
    assert rise[tuple(at.split("|"))] == rise.min()


def test_answers_come_with_their_probability(browser: Browser, demo: Path) -> None:
    _samples(browser, demo)
    assert "Answers no (probability  0.50), truth is no ✓ right" in browser.run(
        "document.querySelector('.answer').textContent"
    )
    _samples(browser, demo, "sort=sure")
    assert "0.90" in browser.run("document.querySelector('.answer').textContent")


def test_keys(browser: Browser, demo: Path) -> None:
    _samples(browser, demo)
    place = "document.querySelector('.viewer .note').textContent.split(' ·')[0]"
    assert browser.run(place) == "1 of 96"
    browser.press("j")
    browser.press("j")
    browser.until(f"{place} === '3 of 96'")
    browser.press("k")
    browser.until(f"{place} === '2 of 96'")
    assert (
        browser.run("document.querySelector('[role=option][aria-selected=true]').getAttribute('aria-posinset')") == "2"
    )
    browser.press("/")
    assert browser.run("document.activeElement.type") == "search"
    browser.press("j")  # a letter in a field is a letter
    browser.until("document.activeElement.value === 'j'")
    browser.press("Escape")
    assert browser.run("document.activeElement.type") != "search"
    browser.press("?")
    assert browser.run("document.getElementById('keys').open")
    browser.press("Escape")
    browser.until("!document.getElementById('keys').open")
    browser.press("3")
    browser.until(PAGES["slices?key=depth"])
    assert browser.run("document.querySelector('nav [aria-current]').textContent") == "Slices"


def test_the_list_moves_with_the_arrows(browser: Browser, demo: Path) -> None:
    _samples(browser, demo)
    browser.run("document.querySelector('.list').focus()")
    for _ in range(12):
        browser.press("ArrowDown")
    row = "document.getElementById(document.querySelector('.list').getAttribute('aria-activedescendant'))"
    assert browser.run(f"{row}.getAttribute('aria-posinset')") == "13"
    boxes = (
        f"[{row}, document.querySelector('.list')].map((n) => n.getBoundingClientRect()).map((b) => [b.top, b.bottom])"
    )
    (top, bottom), (first, last) = browser.run(boxes)
    assert top >= first - 1
    assert bottom <= last + 1


def test_a_link_shows_the_same_again(browser: Browser, demo: Path) -> None:
    _samples(browser, demo, "sort=maps")
    _choose(browser, "Model", "twin.pure", "document.querySelector('.side')")
    browser.press("j")
    browser.press("j")
    browser.until("document.querySelector('.viewer .note').textContent.startsWith('3 of 48')")
    before = browser.run("[location.hash, document.querySelector('.viewer .note').textContent]")
    browser.open(demo, before[0][1:], CARDS)
    assert browser.run("document.querySelector('.viewer .note').textContent") == before[1]
    assert _shown(browser) == 48


def test_regions_are_switched_by_role_and_by_key(browser: Browser, demo: Path) -> None:
    _samples(browser, demo)
    groups = "document.querySelector('.card .regions').children.length"
    assert browser.run(groups) == 2
    browser.run("document.querySelector('[data-role=\"anchor\"] input').click()")
    assert browser.run(groups) == 1
    browser.press("r")
    browser.until(f"{groups} === 0")
    browser.press("r")
    browser.until(f"{groups} === 2")


def test_hostile_text_is_shown_and_never_run(browser: Browser, tmp_path: Path, screenshots: Path) -> None:
    run = make_run(tmp_path / "run", n=8, nasty=True, explainers=("nasty", "cam/gradcam", "control/random"))
    finding = json.loads(json.dumps(findings()[0].plain()))
    finding["title"] = finding["section"] = finding["sentences"][0] = NASTY
    finding["figures"][0]["title"] = finding["figures"][0]["series"][0]["x"][0] = NASTY
    Store(run).write_json("findings.json", [finding])
    for single in (False, True):
        page = report([run], tmp_path / f"page{single}", single_file=single)
        for place, ready in PAGES.items():
            browser.open(page, place, ready)
            assert NASTY in browser.run("document.querySelector('main').textContent")
            assert browser.run("window.HACKED === undefined && !document.querySelector('img[src=x]')")
        browser.screenshot(screenshots / "hostile.png")
        _samples(browser, page)
        assert NASTY in browser.run("document.querySelector('.asked').textContent")


def test_a_single_file_shows_pictures_and_maps(browser: Browser, demo_run: Path, tmp_path: Path) -> None:
    page = report([demo_run], tmp_path, single_file=True)
    _samples(browser, page)
    browser.until("document.querySelector('.stage img').naturalWidth === 96")
    assert browser.run("document.querySelectorAll('canvas.heat').length") == 6


def test_a_lost_dataset_is_said_and_maps_still_show(browser: Browser, tmp_path: Path) -> None:
    page = report([make_run(tmp_path / "run", n=4, dataset="nowhere")], tmp_path / "page")
    _samples(browser, page)
    assert "cannot be shown" in browser.run("document.querySelector('.gone').textContent")
    assert browser.run("document.querySelectorAll('canvas.heat').length") > 3


def test_failures_keep_their_reason_on_the_card(browser: Browser, demo: Path) -> None:
    _samples(browser, demo, f"at={quote('twin.pure|pictures/3')}")
    assert "Failed: map: all zero" in browser.run("document.querySelector('.viewer').textContent")


def test_the_theme_button_wins_over_the_system(browser: Browser, demo: Path) -> None:
    browser.open(demo)
    paper = "getComputedStyle(document.body).backgroundColor"
    light = browser.run(paper)
    browser.run("document.getElementById('theme').click()")
    assert browser.run(paper) != light
    browser.run("document.getElementById('theme').click()")
    assert browser.run(paper) == light
    browser.run("localStorage.removeItem('karat-theme')")
