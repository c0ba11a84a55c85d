"""The page at 50,000 rows and 2,000 samples in headless chromium: first paint, filters, keys.

There is no peer to set beside it, so what a reader notices stands in its place: one second to the first paint, a
tenth of a second for a filter. Beside the clock stands the processor time of all of the browser's processes,
which does not grow when others use the machine. The numbers of samples shown are checked against the run.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import tempfile
import time
from pathlib import Path

from side_by_side import compared, size, skipped

from karat.report import report
from karat.results import load_run
from tests.report.chromium import BINARY, Browser
from tests.report.runs import make_run

SAMPLES, METRICS = size(2000, 100), ("mass", "outside", "relation", "other", "more")
EXPLAINERS = ("cam/gradcam", "attention/rollout", "perturbation/rise", "control/random", "control/oracle")
READY = "document.querySelectorAll('.row').length && document.querySelectorAll('.card, .matrix td').length > 3"
TURNS = size(9, 3)


def timed(browser: Browser, act: str) -> tuple[float, float]:
    """Milliseconds from the act to the next painted frame (median over turns), and processor time of a turn."""
    code = (
        "(async () => { const start = performance.now(); %s;"
        " await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));"
        " return performance.now() - start; })()"
    )
    before = processor(browser)
    clock = statistics.median(float(browser.run(code % act)) for _ in range(TURNS))
    return clock, (processor(browser) - before) / TURNS


def processor(browser: Browser) -> float:
    """Milliseconds of processor time that the browser and all its child processes have used."""
    stats = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # a process that has just ended
            fields = path.read_text().rpartition(")")[2].split()
            stats[int(path.parent.name)] = (int(fields[1]), int(fields[11]) + int(fields[12]))
    family = {browser.process.pid}
    while more := {pid for pid, (parent, _) in stats.items() if parent in family} - family:
        family |= more
    return 1000 * sum(stats[pid][1] for pid in family if pid in stats) / os.sysconf("SC_CLK_TCK")


def choose(label: str, values: tuple[str, str]) -> str:
    """Set a field of the side bar to one value, next time to the other."""
    return (
        f"const label = [...document.querySelectorAll('.side label')].find((l) => l.textContent === {label!r});"
        " const field = document.getElementById(label.htmlFor);"
        f" field.value = field.value === {values[0]!r} ? {values[1]!r} : {values[0]!r};"
        " field.dispatchEvent(new Event(field.tagName === 'SELECT' ? 'change' : 'input'))"
    )


def main() -> None:
    if BINARY is None:
        skipped("the page in a browser", "a reader's patience", "no chromium here")
        return
    with tempfile.TemporaryDirectory() as folder:
        place, models = Path(folder) / "run", ("twin.pure",)
        run = make_run(place, SAMPLES, models, EXPLAINERS, METRICS, concluded=True)
        start = time.process_time()
        page = report([run], Path(folder) / "page")
        written = time.process_time() - start
        scores = load_run(run).scores()
        files = [path for path in page.parent.rglob("*") if path.is_file()]
        print(f"processes waiting for a core meanwhile: {os.getloadavg()[0]:.0f}, cores: {os.cpu_count()}")
        print(f"{len(scores):,} rows, {SAMPLES:,} samples: written in {written:.1f} s of CPU time,")
        print(f"  index.html {page.stat().st_size / 1e3:.0f} kB, {len(files)} files, "
              f"{sum(path.stat().st_size for path in files) / 1e6:.1f} MB in all")  # fmt: skip
        with Browser() as browser:
            browser.size(1280, 900)
            paints = []
            for _ in range(5):
                browser.open(page, "overview", "document.querySelector('#leaderboard tbody tr')")
                paints.append(browser.run("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
            print(f"first paint {statistics.median(paints):.0f} ms (at most 1,000)")
            rows = f"{len(scores):,} rows"
            compared(f"first paint, {rows}, by the clock", "one second", paints, [1000.0] * 5, "samples counted", "≥ 1")
            browser.open(page, "samples", READY, seconds=30)
            ready = browser.run("performance.now()")
            note = browser.run("document.querySelector('.side .note').textContent")
            assert note == f"{SAMPLES:,} of {SAMPLES:,} shown", note
            print(f"samples open and drawn {ready:.0f} ms after the page was asked for")
            assert browser.run("document.querySelectorAll('.row').length") < 40  # only what is in view
            browser.run("document.querySelector('.filters').open = true")
            acts = {
                "filter by bucket": choose("bucket", ("D2_M_F0", "")),
                "filter by answer": choose("Model's answer", ("wrong", "")),
                "filter by score": choose("at least", ("0.6", "")),
                "search": choose("Search", ("red", "")),
                "sort by disagreement of maps": choose("Sort by", ("maps", "")),
                "sort by disagreement of scores": choose("Sort by", ("scores", "")),
                "next sample": "KARAT.browser.go(1)",
            }
            for name, act in acts.items():
                clock, used = timed(browser, act)
                print(f"{name} {clock:.0f} ms (at most 100), {used:.0f} ms of processor time")
                compared(f"{name}, {rows}, by the clock", "a tenth of a second", clock, 100.0, "samples counted", "≥ 1")
            wanted = int(
                (scores[scores["metric"] == "mass"].drop_duplicates("sample")["meta.bucket"] == "D2_M_F0").sum()
            )
            browser.open(page, "samples?meta.bucket=D2_M_F0", READY)
            assert browser.run("document.querySelector('.side .note').textContent").startswith(f"{wanted} of")
            assert browser.problems == [], browser.problems


if __name__ == "__main__":
    main()
