"""Draws docs/images/compass_findings.png: figures of the recorded run, as its page draws them."""

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

from assay.protocols.paper import recorded  # noqa: E402
from assay.report import report  # noqa: E402
from assay.results.run import load_run  # noqa: E402
from tests.report.chromium import Browser  # noqa: E402  the tests' browser is found from the root

#: Beginnings of the titles, in the order they are shown.
SHOWN = (
    "Signal injection", "Probe agreement", "gridprog.pure on", "Reasoning twin minus",
    "DAE by centre: gridprog.pure on", "DAE by damage: gridprog.pure on",
)  # fmt: skip
WIDE, HIGH, GAP = 560, 1600, 28


def main() -> None:
    run = recorded("compass")
    figures = [figure for finding in load_run(run).findings() for figure in finding.figures]
    chosen = [next(figure for figure in figures if figure.title.startswith(title)) for title in SHOWN]
    tiles = []
    with tempfile.TemporaryDirectory() as folder, Browser() as browser:
        browser.size(1180, HIGH)
        browser.open(report([str(run)], Path(folder) / "page"), "overview")
        time.sleep(1.5)
        for figure in chosen:
            plain = vars(figure) | {"series": [vars(series) for series in figure.series]}
            browser.run(f"""(() => {{
              const place = document.createElement('div');
              place.style.cssText = 'width:{WIDE}px;background:#fff;padding:0';
              place.append(ASSAY.plot.draw({json.dumps(plain)}, {WIDE}));
              document.body.replaceChildren(place);
              document.body.style.background = '#fff';
            }})()""")
            high = int(browser.run("Math.ceil(document.querySelector('.chart').getBoundingClientRect().height)"))
            shot = Path(folder) / "shot.png"
            browser.screenshot(shot, whole=False)
            tiles.append(Image.open(io.BytesIO(shot.read_bytes())).convert("RGB").crop((0, 0, WIDE, high)))
    rows = [tiles[k : k + 2] for k in range(0, len(tiles), 2)]
    heights = [max(tile.height for tile in row) for row in rows]
    sheet = Image.new("RGB", (2 * WIDE + GAP, sum(heights) + GAP * (len(rows) - 1)), "white")
    top = 0
    for row, high in zip(rows, heights, strict=True):
        for k, tile in enumerate(row):
            sheet.paste(tile, (k * (WIDE + GAP), top))
        top += high + GAP
    sheet.quantize(96).save(HERE / "compass_findings.png", optimize=True)


if __name__ == "__main__":
    main()
