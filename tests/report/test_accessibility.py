"""The page without a mouse, at three widths, dark and light: axe has nothing to say, no label is covered, Tab goes
through every control in the order of the page, and a control keeps the focus when what it belongs to is drawn anew.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.report.chromium import Browser
from tests.report.pages import PAGES

pytestmark = pytest.mark.browser

WIDTHS = {"phone": 360, "tablet": 768, "desk": 1440}
# Every rule at every level: best practices are among them.
AXE = (
    "axe.run(document, {resultTypes: ['violations'], preload: false}).then((r) => r.violations"
    ".map((v) => [v.id, v.impact, v.nodes.map((n) => n.html).slice(0, 3)]))"
)
# What is written over by something else: the middle of a label belongs to another element. What a scrolled place cuts
# off is not covered, it is further on.
COVERED = """[...document.querySelectorAll(
    'label, legend, th, summary, button, figcaption span, h1, h2, h3, .chart text')]
  .filter((node) => node.checkVisibility({visibilityProperty: true}) && node.textContent.trim())
  .filter((node) => {
    const range = document.createRange();
    range.selectNodeContents(node);
    const box = range.getBoundingClientRect();
    const [x, y] = [box.left + box.width / 2, box.top + box.height / 2];
    for (let place = node.parentElement; place; place = place.parentElement) {
      const edge = place.getBoundingClientRect();
      const off = x < edge.left || x > edge.right || y < edge.top || y > edge.bottom;
      if (off && getComputedStyle(place).overflow !== 'visible') return false;
    }
    if (!box.width || node.closest('.sr, .skip')) return false;
    const top = document.elementsFromPoint(x, y).find((one) => getComputedStyle(one).pointerEvents !== 'none');
    return top && !node.contains(top) && !top.contains(node);
  }).map((node) => `${node.tagName} ${node.textContent.trim().slice(0, 40)}`)"""
TABBABLE = """[...document.querySelectorAll('a[href], button:not(:disabled), select, input, summary, [tabindex="0"]')]
  .filter((node) => node.checkVisibility({visibilityProperty: true}))"""
# Where the focus is: its place among the controls, and whether the reader can see that it is there.
FOCUS = f"""(() => {{
  const node = document.activeElement;
  const style = getComputedStyle(node);
  const box = node.getBoundingClientRect();
  const ring = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2;
  const there = box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth;
  return [{TABBABLE}.indexOf(node), ring, there, node.tagName + ' ' + (node.id || node.textContent.slice(0, 30))];
}})()"""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("look", WIDTHS)
@pytest.mark.parametrize("page", PAGES)
def test_a_page_fits_its_width_and_covers_no_label(
    browser: Browser, demo: Path, screenshots: Path, page: str, look: str, dark: bool
) -> None:
    browser.size(WIDTHS[look], 900, dark)
    browser.open(demo, page, PAGES[page])
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")
    assert browser.run(
        "(({scrollWidth, clientWidth}) => scrollWidth <= clientWidth)(document.querySelector('.top nav'))"
    )
    assert browser.run("document.querySelectorAll('main > .page:not([hidden])').length") == 1
    assert browser.run("[...document.querySelectorAll('h1')].filter((h) => h.offsetParent).length") == 1
    browser.screenshot(screenshots / f"{page.replace('?', '-')}-{look}-{'dark' if dark else 'light'}.png")
    browser.size(WIDTHS[look], int(browser.run("document.documentElement.scrollHeight")), dark)
    assert browser.run(COVERED) == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("page", PAGES)
def test_axe_finds_nothing(browser: Browser, demo: Path, axe: str, page: str, dark: bool) -> None:
    browser.size(1280, 900, dark)
    browser.open(demo, page, PAGES[page])
    browser.run(axe + "; 0")
    assert browser.run(AXE) == []


@pytest.mark.parametrize("act", ["document.getElementById('help').click()", "document.querySelector('.pick').click()"])
def test_axe_finds_nothing_in_what_opens(browser: Browser, demo: Path, axe: str, act: str) -> None:
    browser.open(demo, "samples", PAGES["samples"])
    browser.run(act)
    browser.run(axe + "; 0")
    assert browser.run(AXE) == []


def test_the_check_for_covered_labels_can_fail(browser: Browser, demo: Path) -> None:
    browser.open(demo, "overview", PAGES["overview"])
    browser.run("""(() => {
      const lid = document.createElement('div');
      const box = document.querySelector('h1').getBoundingClientRect();
      lid.style.cssText = `position:fixed;left:0;top:${box.top}px;width:100%;height:${box.height}px;background:#fff`;
      document.body.append(lid);
    })()""")
    assert any(text.startswith("H1") for text in browser.run(COVERED))


@pytest.mark.parametrize("page", ["overview", "findings", "slices?key=depth", "samples"])
def test_tab_goes_through_every_control_in_order_and_out_again(browser: Browser, demo: Path, page: str) -> None:
    browser.open(demo, page, PAGES[page])
    controls = int(browser.run(f"{TABBABLE}.length"))
    stops: list[list[Any]] = []
    for _ in range(controls + 10):
        browser.press("Tab")
        stop = browser.run(FOCUS)
        if stops and stop[0] <= 0:  # around: no trap on the way
            break
        stops.append(stop)
    assert [stop[0] for stop in stops] == list(range(controls))
    assert [stop[3] for stop in stops if not (stop[1] and stop[2])] == []


def _focused(browser: Browser) -> str:
    return str(browser.run("document.activeElement.labels?.[0]?.textContent ?? document.activeElement.textContent"))


def test_twins_stand_side_by_side_on_a_phone(browser: Browser, demo: Path) -> None:
    browser.size(WIDTHS["phone"], 900)
    browser.open(demo, "samples", PAGES["samples"])
    assert browser.run(
        "(({scrollWidth, clientWidth}) => scrollWidth <= clientWidth)(document.querySelector('.twins .scroll'))"
    )


def test_enter_and_escape_open_and_close_the_list_of_keys(browser: Browser, demo: Path) -> None:
    browser.open(demo, "overview", PAGES["overview"])
    browser.run("document.getElementById('help').focus()")
    browser.press("Enter")
    assert browser.run("document.getElementById('keys').open")
    for _ in range(3):
        browser.press("Tab")
        assert browser.run("document.activeElement === document.body || !!document.activeElement.closest('#keys')")
    browser.press("Escape")
    browser.until("!document.getElementById('keys').open")
    assert browser.run("document.activeElement.id") == "help"


def test_the_skip_link_goes_past_the_menu(browser: Browser, demo: Path) -> None:
    browser.open(demo, "overview", PAGES["overview"])
    browser.press("Tab")
    assert _focused(browser) == "Skip to content"
    browser.press("Enter")
    browser.until("document.activeElement.id === 'main'")
    browser.press("Tab")
    assert browser.run("!!document.activeElement.closest('main')")


@pytest.mark.parametrize(
    ("page", "label"), [("overview", "Score"), ("slices?key=depth", "Slice by"), ("slices?key=depth", "Score")]
)
def test_a_menu_keeps_the_focus_when_its_arrow_keys_redraw_the_page(
    browser: Browser, demo: Path, page: str, label: str
) -> None:
    browser.open(demo, page, PAGES[page])
    chosen = (
        "[...document.querySelectorAll('main > .page:not([hidden]) label')]"
        f".find((l) => l.textContent === '{label}').control"
    )
    browser.run(f"{chosen}.focus()")
    before = browser.run(f"{chosen}.value")
    browser.press("ArrowUp" if browser.run(f"{chosen}.selectedIndex") else "ArrowDown")
    browser.until(f"{chosen}.value !== {before!r}")
    browser.until(f"document.activeElement === {chosen}", seconds=3)


def test_steps_through_samples_keep_the_focus(browser: Browser, demo: Path) -> None:
    browser.open(demo, "samples?layout=one", PAGES["samples?layout=one"])
    place = "document.querySelector('.viewer .note').textContent.split(' ·')[0]"
    browser.run("[...document.querySelectorAll('.steps button')].at(-1).focus()")
    for number in ("2 of 96", "3 of 96"):
        browser.press("Enter")
        browser.until(f"{place} === '{number}'")
        assert _focused(browser) == "Next →"
    for number in ("2 of 96", "1 of 96"):
        browser.run("document.querySelector('.steps button').focus()")
        browser.press("Enter")
        browser.until(f"{place} === '{number}'")
    assert _focused(browser) == "Next →"  # there is no previous one: its neighbour


def test_two_cells_are_flicked_between_with_keys_alone(browser: Browser, demo: Path) -> None:
    browser.open(demo, "samples", PAGES["samples"])
    picks = "document.querySelectorAll('.pick')"
    for k in (0, 1):
        browser.run(f"{picks}[{k}].focus()")
        browser.press("Enter")
    title = "document.querySelector('.flick p').textContent"
    front = browser.run(title)
    browser.run("document.querySelector('.flick button').focus()")
    browser.press("Enter")
    browser.until(f"{title} !== {front!r}")
    assert _focused(browser) == "Flick to the other"
    browser.press("f")
    browser.until(f"{title} === {front!r}")
    browser.press("Tab")
    assert _focused(browser) == "Done"
    browser.press(" ")
    browser.until("document.querySelector('.flick').hidden")
    assert browser.run(f"document.activeElement === {picks}[1]")
