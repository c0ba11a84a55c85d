"""The page of `karat explain` in a real browser: words, keys, offline."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from karat.drawing import Scale
from karat.drawing.heat import layer
from karat.kernel.attribution import Attribution, Subject
from karat.kernel.explanation import Explanation, Method, Spoken
from karat.kernel.sample import Sample
from karat.kernel.target import Target
from karat.report.explanation_page import explanation_page, explanation_sheet
from tests.report.chromium import Browser

ANSWER = 'a <dog> & "cat"'
SAMPLE = Sample("x</script>.png", np.full((40, 60, 3), 120, np.uint8), "Is it <red>?")


def explanation() -> Explanation:
    targets = (Target.whole(ANSWER), Target.word("dog", ANSWER), Target.word("cat", ANSWER))
    rng, n = np.random.default_rng(0), len(SAMPLE.words)
    maps = tuple(
        Attribution(rng.normal(size=(4, 6)), rng.normal(size=n), rng.normal(size=(24, n)), signed=True, passes=3,
                    of=Subject(SAMPLE, t, "toy", "one/two"))
        for t in targets
    )  # fmt: skip
    flat = tuple(Attribution(np.abs(rng.normal(size=(2, 2))), of=Subject(SAMPLE, t, "toy", "b")) for t in targets)
    spoken = tuple(Spoken(str(t), 0.25 * (k + 1)) for k, t in enumerate(targets))
    methods = (Method("one/two", maps, "recorded: 0.5"), Method("b", flat, note="run with less"))
    return Explanation(SAMPLE, "toy", ANSWER, True, (Spoken("a", 0.5),), targets, spoken, methods, ("believe it",))


@pytest.mark.browser
def test_words_are_clicked_pointed_at_and_stepped_through(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(explanation_page(explanation()), "utf-8")
    browser.open(page, "", "document.body.dataset.chosen === '0'")
    heat = "[...document.querySelectorAll('.heat')].map((h) => h.src)"
    at = "document.body.dataset.chosen"
    assert browser.run("[...document.querySelectorAll('.answer .word')].map((w) => w.textContent)") == [
        "all",
        "dog",
        "cat",
    ]
    assert browser.run("document.querySelector('.answer').textContent.includes('<dog>')")
    first = browser.run(heat)
    browser.run("document.querySelector('[data-target=\"1\"]').click()")
    second = browser.run(heat)
    assert browser.run(at) == "1"
    assert all(a != b for a, b in zip(first, second, strict=True))
    assert "“dog”, probability 0.5" in browser.run("document.getElementById('chosen').textContent")
    browser.run("document.querySelector('[data-target=\"2\"]').dispatchEvent(new PointerEvent('pointerenter'))")
    assert browser.run(at) == "2"
    browser.run("document.querySelector('[data-target=\"2\"]').dispatchEvent(new PointerEvent('pointerleave'))")
    assert browser.run(at) == "1"  # back to what was clicked
    browser.press("ArrowDown")
    assert browser.run(at) == "2"
    browser.press("ArrowDown")
    assert browser.run(at) == "0"  # round
    browser.press("ArrowUp")
    assert browser.run(at) == "2"
    browser.run("document.querySelector('.of-question').click()")  # a word of the question: its pairs
    pairs = browser.run(heat)
    assert pairs[0] != browser.run("JSON.parse(document.getElementById('core').textContent).targets[2][0].map")
    assert not browser.problems
    wide = browser.run("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert wide


@pytest.mark.browser
def test_the_page_paints_what_the_drawing_paints(browser: Browser, tmp_path: Path) -> None:
    made = explanation()
    page = tmp_path / "page.html"
    page.write_text(explanation_page(made), "utf-8")
    browser.open(page, "", "document.body.dataset.chosen === '0'")
    shown = browser.run("""(async () => {
      const image = document.querySelector('.heat');
      await image.decode();
      const canvas = document.createElement('canvas');
      [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
      const paint = canvas.getContext('2d');
      paint.drawImage(image, 0, 0);
      return [...paint.getImageData(0, 0, canvas.width, canvas.height).data];
    })()""")
    visual = made.methods[0].maps[0].visual
    assert visual is not None
    scale = Scale.of([one.visual for one in made.methods[0].maps if one.visual is not None], signed=True)
    np.testing.assert_allclose(np.array(shown).reshape(4, 6, 4), layer(visual, scale), atol=2)


def test_the_page_asks_for_nothing_and_escapes_everything() -> None:
    page = explanation_page(explanation())
    assert "http" not in page.replace("http-equiv", "")
    assert page.count("</script>") == 2  # its data and its script
    assert "believe it" in page
    assert "run with less" in page


def test_the_picture_has_a_row_for_every_word() -> None:
    sheet = explanation_sheet(explanation())
    assert [len(row) for row in sheet.rows] == [2, 2, 2]
    assert len({row[0].scale for row in sheet.rows}) == 1
    assert sheet.heading == f"Is it <red>?  →  {ANSWER}"
