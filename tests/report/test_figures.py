"""Colours, maps and saved files in a real browser."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from tests.report.chromium import Browser

pytestmark = pytest.mark.browser

BOARD = "document.querySelector('#leaderboard tbody tr')"
CARDS = "document.querySelectorAll('.card').length > 3"


def test_heatmaps_have_the_colours_of_their_values(browser: Browser, demo: Path) -> None:
    browser.open(demo, "samples?layout=one", CARDS)
    checked = browser.run("""(async () => {
      const maps = (await KARAT.need((await KARAT.need('items')).maps[0]))[0];
      const names = KARAT.core.browser.explainers;
      let checked = 0;
      for (const card of document.querySelectorAll('.card')) {
        const e = names.indexOf(card.querySelector('.name').textContent);
        if (e < 0 || !maps[names[e]]?.map) continue;
        const [h, w, signed, data] = maps[names[e]].map;
        const table = KARAT.colour.table(signed ? 'blue–orange' : 'ember');
        const levels = KARAT.bytes(data);
        const shown = card.querySelector('canvas').getContext('2d').getImageData(0, 0, w, h).data;
        for (let i = 0; i < h * w; i++) {
          const strength = signed ? Math.abs(levels[i] - 127) / 127 : levels[i] / 255;
          if (shown[4 * i + 3] !== KARAT.colour.cover(strength)) return `${names[e]} covers otherwise at ${i}`;
          for (let c = 0; c < 3; c++)  // a canvas keeps colours times what they cover, in bytes
            if (Math.abs(shown[4 * i + c] - table[3 * levels[i] + c]) > 2) return `${names[e]} differs at ${i}`;
        }
        checked += h * w;
      }
      return checked;
    })()""")
    assert checked == 6 * 12 * 12


def _lightness(table: np.ndarray) -> np.ndarray:
    """OKLab L, a, b of sRGB bytes (n, 3)."""
    c = table / 255
    lin = np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
    lms = np.cbrt(
        lin
        @ np.array(
            [
                [0.4122214708, 0.5363325363, 0.0514459929],
                [0.2119034982, 0.6806995451, 0.1073969566],
                [0.0883024619, 0.2817188376, 0.6299787005],
            ]
        ).T
    )
    return (
        lms
        @ np.array(
            [
                [0.2104542553, 0.793617785, -0.0040720468],
                [1.9779984951, -2.428592205, 0.4505937099],
                [0.0259040371, 0.7827717662, -0.8086757660],
            ]
        ).T
    )


def test_colour_maps_are_even_and_rise(browser: Browser, demo: Path) -> None:
    browser.open(demo)
    for name in browser.run("KARAT.colour.plain"):
        lab = _lightness(np.array(browser.run(f"[...KARAT.colour.table({name!r})]")).reshape(256, 3))
        steps = np.linalg.norm(np.diff(lab[::8], axis=0), axis=1)  # over 8 levels, so that rounding to bytes is small
        assert (np.diff(lab[::8, 0]) > 0).all(), name
        assert steps.max() / steps.min() < 1.35, (name, steps.max() / steps.min())
    for name in browser.run("KARAT.colour.signed"):
        lab = _lightness(np.array(browser.run(f"[...KARAT.colour.table({name!r})]")).reshape(256, 3))
        assert lab[:, 0].argmax() in range(124, 131)
        assert lab[127, 0] > 0.95
        np.testing.assert_allclose(lab[127 - 120 : 127, 0], lab[247:127:-1, 0], atol=0.03)  # both arms weigh the same
        assert abs(lab[7, 2] - lab[247, 2]) > 0.1 or abs(lab[7, 1] - lab[247, 1]) > 0.1


def test_the_pointer_reads_every_map_at_once(browser: Browser, demo: Path) -> None:
    browser.open(demo, "samples?layout=one", CARDS)
    browser.run("""(() => {
      const stage = document.querySelector('.card .stage');
      const box = stage.getBoundingClientRect();
      const [clientX, clientY] = [box.left + box.width / 2, box.top + box.height / 2];
      stage.dispatchEvent(new PointerEvent('pointermove', {clientX, clientY}));
    })()""")
    said = browser.run("[...document.querySelectorAll('.readout')].map((r) => r.textContent)")
    assert len(said) == 6
    assert all("here" in text for text in said)


def test_zoom_magnifies_all_maps_around_the_chosen_place_and_reads_the_same_value(browser: Browser, demo: Path) -> None:
    browser.open(demo, "samples?layout=one", CARDS)
    point = """((x, y) => {
      const stage = document.querySelectorAll('.card .stage')[1];
      const box = stage.getBoundingClientRect();
      const at = {clientX: box.left + x * box.width, clientY: box.top + y * box.height, bubbles: true};
      stage.dispatchEvent(new PointerEvent('pointermove', at));
      const said = document.querySelectorAll('.readout')[0].textContent;
      stage.dispatchEvent(new MouseEvent('click', at));
      return said;
    })"""
    before = browser.run(f"{point}(0.3, 0.7)")
    browser.run("""(() => {
      const label = [...document.querySelectorAll('.toolbar label')].find((l) => l.textContent === 'Zoom');
      const field = document.getElementById(label.htmlFor);
      field.value = 4;
      field.dispatchEvent(new Event('input'));
    })()""")
    assert browser.run(f"{point}(0.3, 0.7)") == before  # the chosen place stays where it is
    wide = browser.run("[...document.querySelectorAll('.card .stage')].map((s) =>"
                       " s.querySelector('canvas, img').getBoundingClientRect().width / s.clientWidth)")  # fmt: skip
    assert wide == pytest.approx([4] * len(wide), rel=0.01)


def test_tables_and_figures_are_saved(browser: Browser, demo: Path, tmp_path: Path) -> None:
    browser.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    browser.open(demo, "overview", BOARD)
    for kind in ("CSV", "LaTeX", "Markdown", "SVG", "PNG"):
        browser.run(
            "[...document.querySelector('#leaderboard .menu').querySelectorAll('button')]"
            f".find((b) => b.textContent === {kind!r}).click()"
        )
    names = [tmp_path / f"leaderboard-grid-mass.{suffix}" for suffix in ("csv", "tex", "md", "svg", "png")]
    end = time.monotonic() + 15
    while not all(path.exists() and path.stat().st_size for path in names):
        assert time.monotonic() < end, [p.name for p in tmp_path.iterdir()]
        browser.run("0")
        time.sleep(0.05)
    csv, tex, md, svg, png = (path.read_bytes() for path in names)
    lines = csv.decode("utf-8-sig").splitlines()
    assert lines[0].startswith("Rank,Explainer,Mean")
    assert len(lines) == 7
    assert b"\\begin{tabular}{rlrrrrr}" in tex
    assert b"82/96" in tex
    assert md.decode().splitlines()[1].startswith("| ---: | --- |")
    assert svg.startswith(b"<svg")
    assert b"perturbation/rise" in svg
    assert b"class=" not in svg
    assert b"var(--" not in svg  # a saved figure stands alone: its colours are written out
    assert png.startswith(b"\x89PNG")


def test_exports_escape_what_their_format_would_misread(browser: Browser, demo: Path) -> None:
    browser.open(demo)
    rows = "[['=cmd|x & \"y\", 50%', '-1.5'], ['p_q', '−2']]"
    table = f"{{heads: ['a', 'b'], numeric: [false, true], caption: 'x_y', rows: {rows}}}"
    assert browser.run(f"KARAT.save.csv({table})") == 'a,b\r\n"\'=cmd|x & ""y"", 50%",-1.5\r\np_q,−2\r\n'
    tex = browser.run(f"KARAT.save.latex({table})")
    assert '=cmd|x \\& "y", 50\\% & -1.5 \\\\' in tex
    assert "p\\_q & $-$2" in tex
    assert "\\caption{x\\_y}" in tex
    assert '=cmd\\|x \\& "y", 50% | -1.5 |' in browser.run(f"KARAT.save.markdown({table})")
