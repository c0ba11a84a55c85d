"""Figures of findings in a real browser: every kind is drawn where its numbers say, and no name covers another."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from karat.kernel.finding import Figure, Series
from tests.report.chromium import Browser
from tests.report.examples import FIGURES, NAMES, bars, findings, lines, slopes
from tests.report.runs import Pictures

pytestmark = pytest.mark.browser
WIDTHS = (340, 500, 860)


def _draw(browser: Browser, figure: Figure, wide: int = 860) -> None:
    """Draw a figure alone on the page, at its own size."""
    plain = json.dumps(figure.__dict__ | {"series": [vars(s) for s in figure.series]})
    browser.run(f"""(() => {{
      const drawn = KARAT.plot.draw({plain}, {wide});
      const place = document.createElement('div');
      place.style.width = '{wide}px';
      place.append(drawn);
      document.body.replaceChildren(place);
    }})()""")


def _boxes(browser: Browser, what: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = browser.run(f"""[...document.querySelectorAll({what!r})].map((n) => {{
      const b = n.getBoundingClientRect();
      return {{text: n.textContent, left: b.left, right: b.right, top: b.top, bottom: b.bottom,
               turned: n.hasAttribute('transform')}};
    }})""")
    return found


@pytest.mark.parametrize("make", FIGURES, ids=lambda make: make.__name__)
def test_names_stay_inside_and_apart(browser: Browser, demo: Path, make: Any) -> None:
    browser.open(demo)
    for wide in WIDTHS:
        _draw(browser, make(), wide)
        _check_names(browser)


def _check_names(browser: Browser) -> None:
    frame = browser.run("(() => { const b = document.querySelector('.chart').getBoundingClientRect();"
                        " return [b.left, b.right, b.top, b.bottom]; })()")  # fmt: skip
    words = [box for box in _boxes(browser, ".chart text") if box["text"]]
    assert words
    for box in words:
        assert box["left"] >= frame[0] - 1, box
        assert box["right"] <= frame[1] + 1, box
        assert box["top"] >= frame[2] - 1, box
        assert box["bottom"] <= frame[3] + 1, box
    # Turned names have boxes larger than their letters; the others must not share more than a hair.
    for a, b in combinations([box for box in words if not box["turned"]], 2):
        across = min(a["right"], b["right"]) - max(a["left"], b["left"])
        down = min(a["bottom"], b["bottom"]) - max(a["top"], b["top"])
        assert not (across > 1 and down > 4), (a["text"], b["text"])


def test_bars_stand_on_zero_and_are_as_long_as_their_value(browser: Browser, demo: Path) -> None:
    figure = Figure("f", "bars", "x", "y", (Series("s", ("a", "b", "c"), (0.2, 0.4, -0.1)),))
    browser.open(demo)
    _draw(browser, figure)
    a, b, c = (box["bottom"] - box["top"] for box in _boxes(browser, ".chart [data-series] rect"))
    assert b / a == pytest.approx(2, rel=0.02)
    assert c / a == pytest.approx(0.5, rel=0.03)
    tops = [box for box in _boxes(browser, ".chart [data-series] rect")]
    assert tops[0]["bottom"] == pytest.approx(tops[1]["bottom"], abs=0.5)
    assert tops[2]["top"] == pytest.approx(tops[0]["bottom"], abs=0.5)


def test_a_gap_in_the_numbers_is_a_gap_in_the_line(browser: Browser, demo: Path) -> None:
    figure = Figure("f", "lines", "x", "y", (Series("s", (0.0, 1.0, 2.0, 3.0), (1.0, 2.0, None, 3.0)),))
    browser.open(demo)
    _draw(browser, figure)
    assert browser.run("document.querySelector('path[fill=none]').getAttribute('d').match(/M/g).length") == 2
    assert browser.run("document.querySelectorAll('.chart circle').length") == 3


def test_the_best_rank_is_on_top(browser: Browser, demo: Path) -> None:
    browser.open(demo)
    figure = slopes()
    _draw(browser, figure)
    ranks = {series.name: series.y[0] for series in figure.series if series.y[0] is not None}
    left = [box for box in _boxes(browser, ".chart [data-series] > text") if box["right"] < 300]
    shown = [box["text"][:8] for box in sorted(left, key=lambda box: box["top"])]
    assert shown == [name[:8] for name in sorted(ranks, key=lambda name: ranks[name] or 0.0)]


def test_an_explainer_has_one_colour_in_all_figures(browser: Browser, demo: Path) -> None:
    browser.open(demo)
    colours = []
    for figure in (bars(), lines()):
        _draw(browser, figure)
        at = [series.name for series in figure.series].index("cam/gradcam")
        colours.append(
            browser.run(f"""(() => {{
          const part = document.querySelector('.chart [data-series="{at}"]');
          const mark = part.querySelector('[fill^="var"]') ?? document.querySelector('.chart path[stroke^="var"]');
          return getComputedStyle(mark).fill === 'none' ? getComputedStyle(mark).stroke : getComputedStyle(mark).fill;
        }})()""")
        )
    assert colours[0] == colours[1]


def test_the_pointer_on_a_series_fades_the_others(browser: Browser, demo: Path) -> None:
    browser.open(demo)
    _draw(browser, lines())
    browser.run("document.querySelector('.chart [data-series=\"2\"]').dispatchEvent("
                "new PointerEvent('pointerover', {bubbles: true}))")  # fmt: skip
    faded = browser.run("[...document.querySelectorAll('.chart [data-series]')]"
                        ".filter((n) => n.style.opacity === '0.15').map((n) => n.dataset.series)")  # fmt: skip
    assert "2" not in faded
    assert len(set(faded)) == len(NAMES) - 1


def test_the_page_shows_every_finding_with_its_figures_and_numbers(browser: Browser, demo: Path) -> None:
    browser.open(demo, "findings", "document.querySelector('#page-findings .chart')")
    said = browser.run("document.querySelector('#page-findings').textContent")
    for finding in findings():
        assert finding.title in said
        assert all(sentence in said for sentence in finding.sentences)
        assert all(figure.title in said for figure in finding.figures)
    count = sum(len(finding.figures) for finding in findings())
    assert browser.run("document.querySelectorAll('#page-findings .chart').length") == count
    heads = browser.run("[...document.querySelectorAll('#finding-1 thead th')].map((h) => h.textContent)")
    assert heads == ["explainer", "auc", "low", "high", "p", "samples"]
    row = browser.run("[...document.querySelectorAll('#finding-1 tbody tr')][4].textContent")
    assert row == "interaction/multishap(samples=128)0.7400.400–1.0e−548"


def test_a_figures_numbers_are_saved_too(browser: Browser, demo: Path) -> None:
    browser.open(demo)
    plain = json.dumps(bars().__dict__ | {"series": [vars(s) for s in bars().series]})
    table = browser.run(f"KARAT.plot.numbers({plain})")
    assert table["heads"] == ["scenario", "series", "relevance mass", "low", "high"]
    assert len(table["rows"]) == 8
    assert table["numeric"] == [False, False, True, True, True]


def test_curves_lie_under_their_map_and_are_read_together(browser: Browser, demo: Path) -> None:
    browser.open(demo, "samples?layout=one", "document.querySelectorAll('.curves').length")
    assert browser.run("document.querySelectorAll('.curves').length") == 6
    assert browser.run("document.querySelector('.curvenames').textContent") == "insertion deletion "
    browser.run("""(() => {
      const picture = document.querySelector('.curves');
      const box = picture.getBoundingClientRect();
      picture.dispatchEvent(new PointerEvent('pointermove', {clientX: box.right, clientY: box.top}));
    })()""")
    last = browser.run("[...document.querySelectorAll('.card')].filter((c) => c.querySelector('.curves'))"
                       ".map((c) => [c.querySelector('.curvenames b').textContent, c.querySelector('.score')"
                       ".lastChild.textContent])")  # fmt: skip
    assert len(last) == 6
    for read, score in last:  # the insertion curve of the example ends at the score itself
        assert float(read) == pytest.approx(float(score), abs=0.002)


def test_the_compass_stands_on_the_reference_and_points_to_the_target(browser: Browser, demo_compass: Path) -> None:
    browser.open(demo_compass, "samples?metric=compass", "document.querySelectorAll('.rose').length")
    sample = Pictures().sample(0)
    (ay, ax), (ty, tx) = (np.argwhere(sample.mask(role)).mean(axis=0) + 0.5 for role in ("anchor", "target"))
    rim = browser.run("(() => { const c = document.querySelector('.rose .rim');"
                      " return [c.cx.baseVal.value, c.cy.baseVal.value]; })()")  # fmt: skip
    assert rim == pytest.approx([ax, ay], abs=0.01)
    way = browser.run("(() => { const l = document.querySelector('.rose .way');"
                      " return [l.x2.baseVal.value, l.y2.baseVal.value]; })()")  # fmt: skip
    assert way == pytest.approx([tx, ty], abs=0.01)
    turn = np.degrees(np.arctan2(ay - ty, tx - ax)) % 360
    peak = browser.run("document.querySelector('.rose .peak title').textContent.split('°')[0]")
    assert abs((float(peak) - turn + 180) % 360 - 180) <= 22.5
    browser.run("[...document.querySelectorAll('.toolbar label')].find((l) => l.textContent === 'Compass').click()")
    assert browser.run("getComputedStyle(document.querySelector('.rose')).display") == "none"
