"""Draws report.png (the page of a run, its first screen and its samples) and figures.png (every kind of figure).

make demo RUN=demo   # or any run that kept its maps
python docs/images/report_pictures.py demo
"""

from __future__ import annotations

import io
import json
import sys
import tempfile
import time
from pathlib import Path

from PIL import Image

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from karat.report import report  # noqa: E402
from tests.report.chromium import Browser  # noqa: E402  the tests' browser is found from the root
from tests.report.examples import cloud, grid, intervals, lines, long_bars, slopes  # noqa: E402

FIGURES = (long_bars, lines, cloud, intervals, slopes, grid)
WIDE, GAP = 560, 28
READY = "document.querySelector('.page:not([hidden]) :is(#leaderboard tbody tr, .card, .matrix td)')"


def shot(browser: Browser, path: Path) -> Image.Image:
    browser.screenshot(path, whole=False)
    return Image.open(io.BytesIO(path.read_bytes())).convert("RGB")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, Browser() as browser:
        page = report([sys.argv[1]], Path(folder) / "page")
        browser.size(1180, 900)
        views = []
        for place in ("overview", "samples"):
            browser.open(
                page,
                place,
                "document.querySelector('.page:not([hidden]) :is(#leaderboard tbody tr, .card, .matrix td)')",
                seconds=90,
            )
            time.sleep(1.5)
            views.append(shot(browser, Path(folder) / "shot.png"))
        both = Image.new("RGB", (2 * 1180 + 24, 900), "white")
        for k, view in enumerate(views):
            both.paste(view, (k * (1180 + 24), 0))
        size = (both.width * 3 // 5, both.height * 3 // 5)
        both.resize(size, Image.Resampling.LANCZOS).save(HERE / "report.png", optimize=True)
        tiles = []
        for make in FIGURES:
            plain = make().__dict__ | {"series": [vars(s) for s in make().series]}
            browser.run(f"""(() => {{
              const place = document.createElement('div');
              place.style.cssText = 'width:{WIDE}px;background:#fff;padding:0';
              place.append(KARAT.plot.draw({json.dumps(plain)}, {WIDE}));
              document.body.replaceChildren(place);
              document.body.style.background = '#fff';
            }})()""")
            high = int(browser.run("Math.ceil(document.querySelector('.chart').getBoundingClientRect().height)"))
            tiles.append(shot(browser, Path(folder) / "shot.png").crop((0, 0, WIDE, high)))
    rows = [tiles[k : k + 2] for k in range(0, len(tiles), 2)]
    heights = [max(tile.height for tile in row) for row in rows]
    sheet = Image.new("RGB", (2 * WIDE + GAP, sum(heights) + GAP * (len(rows) - 1)), "white")
    top = 0
    for row, high in zip(rows, heights, strict=True):
        for k, tile in enumerate(row):
            sheet.paste(tile, (k * (WIDE + GAP), top))
        top += high + GAP
    sheet.save(HERE / "figures.png", optimize=True)


if __name__ == "__main__":
    main()
