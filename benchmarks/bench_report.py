"""The report at 50,000 rows and 2,000 samples in headless chromium, beside the same rows as one plain HTML table.

    PYTHONPATH=src:. python benchmarks/bench_report.py

Prints first paint, filtering and stepping in milliseconds, and how many times quicker than the plain table that is.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

from assay.report import report
from assay.results import load_run
from tests.report.chromium import BINARY, Browser
from tests.report.runs import make_run

EXPLAINERS = ("cam/gradcam", "attention/rollout", "perturbation/rise", "control/random", "control/oracle")
METRICS = ("mass", "outside", "relation", "iou", "hit")
CARDS = "document.querySelectorAll('.card').length > 3"
FRAMES = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
PAINT = "performance.getEntriesByName('first-contentful-paint')[0].startTime"


def first_paint(browser: Browser, page: Path, fragment: str, ready: str) -> tuple[float, float]:
    """(first contentful paint, everything ready) in milliseconds since the navigation started."""
    painted = "performance.getEntriesByName('first-contentful-paint').length"
    browser.open(page, fragment, f"({ready}) && {painted}", seconds=180)
    return browser.run(PAINT), browser.run("performance.now()")


def filtering(browser: Browser, label: str, values: list[str]) -> float:
    """Median milliseconds from a change of a filter to the second frame after it: what a reader waits."""
    code = f"""(async () => {{
      const label = [...document.querySelectorAll('.side label')].find((l) => l.textContent === {label!r});
      const field = document.getElementById(label.htmlFor);
      const times = [];
      for (const value of {values!r}) {{
        const start = performance.now();
        field.value = value;
        field.dispatchEvent(new Event(field.tagName === 'SELECT' ? 'change' : 'input'));
        await {FRAMES};
        times.push(performance.now() - start);
      }}
      return times;
    }})()"""
    return statistics.median(browser.run(code))


def main() -> None:
    if BINARY is None:
        sys.exit("no chromium on this machine: nothing measured")
    with tempfile.TemporaryDirectory() as folder, Browser() as browser:
        where = Path(folder)
        run = make_run(where / "run", n=2000, models=("twin.pure",), explainers=EXPLAINERS, metrics=METRICS, cells=16)
        scores = load_run(run).scores()
        began = time.perf_counter()
        page = report([run], where / "page")
        made = time.perf_counter() - began
        size = sum(path.stat().st_size for path in (where / "page").rglob("*") if path.is_file())
        print(f"{len(scores):,} rows, {scores['sample'].nunique():,} samples: {size / 1e6:.1f} MB in {made:.1f} s")

        (where / "plain.html").write_text(scores.to_html())
        browser.size(1280, 900)
        plain = first_paint(browser, where / "plain.html", "", "document.querySelector('tr')")[1]
        board = "document.querySelector('#leaderboard tr')"
        overview = [first_paint(browser, page, "overview", board) for _ in range(5)]
        samples = [first_paint(browser, page, "samples", CARDS) for _ in range(5)]
        print(f"plain table of all rows, ready           {plain:8.0f} ms        1 x")
        for name, times in (("overview", overview), ("samples", samples)):
            for what, column in (("first paint", 0), ("ready", 1)):
                middle = statistics.median(pair[column] for pair in times)
                print(f"{name + ', ' + what:40s} {middle:8.0f} ms   {plain / middle:6,.0f} x")

        for label, values in (
            ("bucket", ["D1_M_F0", "D2_M_F0", "", "D3_M_F0", ""]),
            ("Search", ["red", "red sq", "pictures/19", "green", ""]),
            ("Sort by", ["maps", "scores", "high", "low", ""]),
            ("at least", ["0.1", "0.5", "0.9", "0.3", ""]),
        ):
            middle = filtering(browser, label, values)
            print(f"{'filter: ' + label:40s} {middle:8.1f} ms   {plain / middle:6,.0f} x")
        assert not browser.problems, browser.problems


if __name__ == "__main__":
    main()
