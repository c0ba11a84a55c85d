"""How the page grows with rows: time and memory to make it, first paint and filters, at 50 thousand to 5 million rows.

    python benchmarks/measure_page_growth.py [--sizes 50000 500000 5000000] [--write docs/recorded/page_growth.csv]

Two shapes: many explainers on many models (1,736 samples × 6 models × 40 explainers × 12 scores), and many samples
(100,000 × 1 × 10 × 5), maps kept in both. Each page is made by a process of its own, whose peak memory is its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from measure_findings_growth import peak_mb

from karat.kernel.attribution import Attribution
from karat.kernel.cell import Cell
from karat.kernel.row import Outcomes
from karat.results.shard import CellResult, ShardResult, write_shard
from karat.results.store import Store

SHAPES = {"deep": (1736, 6, 40, 12), "wide": (100_000, 1, 10, 5)}  # samples, models, explainers, metrics at 5 million
ROWS = 5_000_000
SHARD = 64
SIDE = 12
CONTROLS = ("control/random", "control/oracle")


def synthetic_run(path: Path, samples: int, models: int, explainers: int, metrics: int, maps: bool = True) -> Path:
    """A complete run with values of known means: explainer e lies a little above e - 1, controls first and last."""
    store = Store(path)
    rng = np.random.default_rng([samples, models, explainers, metrics])
    names = [f"model.{k}" for k in range(models)]
    ranked = [CONTROLS[0], *(f"synthetic/e{k:02d}" for k in range(1, explainers - 1)), CONTROLS[1]]
    scores = [f"score{k}" for k in range(metrics)]
    dataset = f"pictures(n={samples})"
    wanted: list[str] = []
    for model in names:
        for start in range(0, samples, SHARD):
            stop = min(samples, start + SHARD)
            n = stop - start
            cells = []
            for e, explainer in enumerate(ranked):
                fields = {"model": model, "explainer": explainer, "shard": [start, stop]}
                cell = Cell("synthetic", model, explainer, dataset, start, stop, fields)
                values = np.clip(0.1 + 0.8 * e / explainers + 0.2 * rng.standard_normal((metrics, n)), 0, 1)
                kept = rng.random((n, SIDE, SIDE)) if maps else ()
                cells.append(CellResult(
                    cell, {name: Outcomes(values[k]) for k, name in enumerate(scores)}, np.full(n, float(e)),
                    [Attribution(one, space="patch", signed=False) for one in kept],
                ))  # fmt: skip
                wanted.append(cell.id)
            ids = [f"pictures/{i}" for i in range(start, stop)]
            meta: list[Any] = [{"bucket": f"b{i % 38}", "depth": i % 4, "mode": "ab"[i % 2], "index": i}
                               for i in range(start, stop)]  # fmt: skip
            answers = ["yes" if i % 2 else "no" for i in range(start, stop)]
            write_shard(store, ShardResult(ids, meta, answers, [0.9] * n, answers, cells))
            event = {"event": "job_done", "title": f"{model}[{start}]", "seconds": 1.5}
            store.append("events.jsonl", json.dumps({**event, "cells": [c.cell.id for c in cells]}))
    spec = {"name": path.name, "about": "A synthetic run.", "protocol": {"name": "synthetic"}}
    store.write_json(
        "spec.json", {**spec, "datasets": [{"name": "tests.report.runs:Pictures", "n": samples}]},
    )  # fmt: skip
    mechanism = ("reasons", "matches_words")
    store.write_json("manifest.json", {
        "format": 1, "name": path.name, "protocol": "synthetic", "cells": sorted(wanted), "seed": 0,
        "scores": {name: {"direction": "higher", "summary": "a synthetic score"} for name in scores},
        "models": dict.fromkeys(names, "1"), "datasets": {dataset: "1"}, "versions": {}, "refusals": [],
        "parts": {
            "model": {m: {"name": m, "family": "model", "mechanism": mechanism[k % 2]} for k, m in enumerate(names)},
            "dataset": {dataset: {"name": "pictures", "family": "pictures"}},
            "explainer": {e: {"name": e, "family": e.partition("/")[0], "is_control": e in CONTROLS} for e in ranked},
        },
    })  # fmt: skip
    return path


def make_page(run: Path, out: Path) -> None:
    """In a process of its own: prints seconds by the clock, of the processor, and peak memory in megabytes."""
    from karat.report import report

    clock, used = time.monotonic(), time.process_time()
    report([run], out)
    print(json.dumps({
        "seconds": round(time.monotonic() - clock, 1), "cpu": round(time.process_time() - used, 1),
        "peak_mb": peak_mb(),
    }))  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[ROWS // 100, ROWS // 10, ROWS])
    parser.add_argument("--shapes", nargs="+", choices=list(SHAPES), default=list(SHAPES))
    parser.add_argument("--keep", type=Path, help="keep runs and pages here, and use the runs that are there")
    parser.add_argument("--no-browser", action="store_true")
    parser.add_argument("--write", type=Path, help="put the figures into this CSV file, too: docs are filled from it")
    parser.add_argument("--page", type=Path, nargs=2, metavar=("RUN", "OUT"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.page:
        make_page(*chosen.page)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = chosen.keep or Path(temporary)
        for rows in chosen.sizes:
            for shape in chosen.shapes:
                samples, *rest = SHAPES[shape]
                run = folder / f"{shape}-{rows}"
                if not (run / "manifest.json").exists():
                    synthetic_run(run, max(2, samples * rows // ROWS), *rest)
                page = folder / f"page-{shape}-{rows}"
                command = [sys.executable, __file__, "--page", str(run), str(page)]
                told = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
                told.pop("seconds")  # by the clock: of this machine and this hour
                files = [path for path in page.rglob("*") if path.is_file()]
                told |= {"files": len(files), "mb": round(sum(path.stat().st_size for path in files) / 1e6)}
                if not chosen.no_browser:
                    told |= in_browser(page / "index.html")
                print(f"{shape}, {rows:,} rows: {told}", flush=True)
                if chosen.write:
                    _keep(chosen.write, {"shape": shape, "rows": rows, **told})


def _keep(path: Path, line: dict[str, Any]) -> None:
    """A line of the record, in the place of an older one of that shape and size; nothing that the clock told, which
    depends on what else the machine does."""
    new = pd.DataFrame([{name: value for name, value in line.items() if not name.endswith("_ms")}])
    if path.exists():
        old = pd.read_csv(path)
        new = pd.concat([old[(old["shape"] != line["shape"]) | (old["rows"] != line["rows"])], new])
    new.sort_values(["shape", "rows"]).to_csv(path, index=False)


def in_browser(page: Path) -> dict[str, Any]:
    """First paint, and the slowest filter, in milliseconds."""
    from bench_report import READY, choose, timed

    from tests.report.chromium import BINARY, Browser

    if BINARY is None:
        return {"browser": "no chromium here"}
    with Browser() as browser:
        browser.size(1280, 900)
        browser.open(page, "overview", "document.querySelector('#leaderboard tbody tr')", seconds=120)
        paint = browser.run("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        browser.open(page, "samples", READY, seconds=240)
        opened = browser.run("performance.now()")
        browser.run("document.querySelector('.filters').open = true")
        acts = {
            "bucket": choose("bucket", ("b3", "")), "answer": choose("Model's answer", ("wrong", "")),
            "score": choose("at least", ("0.6", "")), "search": choose("Search", ("red", "")),
            "sort": choose("Sort by", ("scores", "")),
        }  # fmt: skip
        slow = {name: round(timed(browser, act)[0]) for name, act in acts.items()}
        assert browser.problems == [], browser.problems
        return {
            "first_paint_ms": round(paint),
            "samples_open_ms": round(opened),
            "slowest_filter_ms": max(slow.values()),
        }


if __name__ == "__main__":
    main()
