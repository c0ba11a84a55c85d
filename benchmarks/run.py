"""All comparisons, each script in a process of its own, in turns; writes docs/benchmarks.md.

    python benchmarks/run.py [--rounds 3] [--only games metrics] [--page docs/benchmarks.md]
    python benchmarks/run.py --quick          # every script once in its shortest form: does it work at all?

Every round runs every script once (the second round in reverse, and so on), so that what disturbs the machine disturbs
all alike. A row's ratio is that of the medians over all turns of all rounds, with the least and the greatest of the
single turns beside it. Scripts compare results before they time anything, and one that finds a difference fails here,
and on the page. What is kept of each round lies in .benchmarks/; scripts that are not run keep what they had, unless it
is of another machine or of other versions.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from side_by_side import HERE, QUICK, RECORD, ROOT

PACKAGES = ("karat", "numpy", "scipy", "pandas", "pyarrow", "torch", "torchvision", "timm", "transformers", "captum",
            "grad-cam", "quantus", "shapiq", "statsmodels", "scikit-image", "pillow", "ray")  # fmt: skip

# So that all of a script runs. A turn of the peer's on 200 images takes minutes: one in every round.
ARGUMENTS = {"cams": ("--asking", "--memory"), "semantic": ("--memory", "--turns", "1")}

PICTURES = {
    "growth.png": [
        "## How cost grows",
        "",
        "![Cost against samples, players, steps, classes and workers](images/growth.png)",
        "",
        "Every line is divided by its first point; the dashed one grows in proportion (for workers: falls). Workers:",
        "the forecast of the [cost model](concepts/scaling.md).",
        "",
    ],
    "scaling.png": [
        "![Measured runs on their forecast, and the papers' grids on up to 1,000 workers](images/scaling.png)",
        "",
        "Left: runs of 24 jobs of a second at 1, 2 and 4 workers, on what the cost model makes of the first. Right:",
        "what it says of the papers' full grids, in shards of 8.",
        "",
    ],
}


def scripts(only: list[str]) -> list[Path]:
    paths = sorted(HERE.glob("bench_*.py"))
    names = {path.stem.removeprefix("bench_"): path for path in paths}
    unknown = set(only) - set(names)
    if unknown:
        raise SystemExit(f"no benchmark called {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    return [names[name] for name in only] if only else paths


def run_one(script: Path, number: int, kept: Path, quick: bool) -> bool:
    """One round of one script: <kept>/<name>/<round>.jsonl has its records, .txt what it printed, .json its origin."""
    name = script.stem.removeprefix("bench_")
    folder = kept / name
    folder.mkdir(parents=True, exist_ok=True)
    if number == 0:
        for old in folder.glob("*.*"):  # of another day, perhaps of more rounds
            old.unlink()
    rows, text, origin = (folder / f"{number}.{ending}" for ending in ("jsonl", "txt", "json"))
    environment = {**os.environ, RECORD: str(rows), "OMP_NUM_THREADS": "1"}
    if quick:
        environment[QUICK] = "1"
    began = time.monotonic()
    command = [sys.executable, str(script), *ARGUMENTS.get(name, ())]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=ROOT)
    records = len(rows.read_text().splitlines()) if rows.exists() else 0
    print(f"{script.name}, round {number + 1}: {time.monotonic() - began:.0f} s, {records} records", flush=True)
    failed = ""
    if done.returncode:
        rows.unlink(missing_ok=True)  # of a comparison that did not hold
        failed = "".join((done.stderr or done.stdout).strip().splitlines()[-1:]) or f"ended with {done.returncode}"
        print(f"  failed: {failed}", flush=True)
    text.write_text(f"load {os.getloadavg()[0]:.1f}\n{done.stdout}", encoding="utf-8")
    stamp = {**here(), "day": time.strftime("%Y-%m-%d"), "commit": commit(), "failed": failed}
    origin.write_text(json.dumps(stamp), encoding="utf-8")
    return not failed


def drop_others(kept: Path) -> None:
    """Forget rounds of another machine, of other versions or of unknown origin: they cannot share a page with ours."""
    now = here()
    for text in kept.glob("*/*.txt"):
        origin = text.with_suffix(".json")
        stamp = json.loads(origin.read_text(encoding="utf-8")) if origin.exists() else {}
        if {key: stamp.get(key) for key in now} != now:
            for path in (text, origin, text.with_suffix(".jsonl")):
                path.unlink(missing_ok=True)


def gathered(folder: Path) -> list[dict[str, Any]]:
    """Rows of one script over its rounds, in the order they were written first."""
    rounds: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            rounds.setdefault((row["what"], row["peer"]), []).append(row)
    comparisons = []
    for (what, peer), rows in rounds.items():
        timed = [row for row in rows if "skipped" not in row]
        comparisons.append({**(merged(timed) if timed else rows[-1]), "what": what, "peer": peer})
    return comparisons


def table(folder: Path, stamps: Sequence[dict[str, str]]) -> list[str]:
    """Rows of the page; where a round failed, that stands first, and beside the rows of the other rounds."""
    reasons = [stamp["failed"] for stamp in stamps if stamp["failed"]]
    failed = f"failed in {len(reasons)} of {len(stamps)} rounds" if reasons else ""
    rows = [[f"**{failed}**", "", "", "", "; ".join(dict.fromkeys(reasons)), ""]] if failed else []
    for row in gathered(folder):
        if "skipped" in row:
            rows.append([row["what"], row["peer"], "skipped", "", row["skipped"], ""])
        else:
            agree = ", ".join(filter(None, (row["agree"], failed)))
            rows.append([row["what"], row["peer"], f"{row['ratio']:.3g}", row["spread"], agree, row["aim"]])
    return [f"| {' | '.join(' '.join(value.split()).replace('|', '&#124;') for value in row)} |" for row in rows]


def merged(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """One row of many: the ratio of the medians, and the least and greatest ratio of two turns side by side.

    >>> merged([{"ours": [1.0, 2.0], "theirs": [4.0, 4.0], "agree": "equal", "aim": ""}])["spread"]
    '2 to 4'
    """
    ours, theirs = ([value for row in rows for value in row[side]] for side in ("ours", "theirs"))
    single = [t / o for row in rows for o, t in zip(row["ours"], row["theirs"], strict=False)]
    spread = f"{min(single):.3g} to {max(single):.3g}" if len(single) > 1 else "measured once"
    ratio = statistics.median(theirs) / statistics.median(ours)
    return {"ratio": ratio, "spread": spread, "agree": rows[-1]["agree"], "aim": rows[-1]["aim"]}


def page(kept: Path) -> str:
    lines = [
        "# Benchmarks",
        "",
        "Karat beside its peers, both in the same process on the same inputs, in turns, results compared before times.",
        "A ratio is the median cost of the peer over that of Karat (CPU time unless said otherwise): more is better.",
        "The spread is over single turns. `make bench` runs everything again and writes this page.",
        "",
        f"Machine: {machine()}. Versions: {versions()}.",
        "",
    ]
    texts, absent = [], []
    for name in (script.stem.removeprefix("bench_") for script in scripts([])):
        folder = kept / name
        outputs = sorted(folder.glob("*.txt"))
        if not outputs:
            absent.append(name)
            continue
        stamps = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
        if rows := table(folder, stamps):
            lines += [f"## {name}", "", "| what | peer | ratio | spread | results | aim |", "|---|---|---|---|---|---|"]
            lines += [*rows, ""]
        load, _, text = outputs[-1].read_text(encoding="utf-8").partition("\n")
        rounds = "one round" if len(outputs) == 1 else f"{len(outputs)} rounds"
        when = "".join(f", {stamp['day']}, commit {stamp['commit']}" for stamp in stamps[-1:])
        texts += [f"### {name}", "", f"The last of {rounds}{when}; processes at work or waiting for a core meanwhile: "
                  f"{load.split()[1]}.", "", "```text", text.rstrip(), "```", ""]  # fmt: skip
    if absent:
        lines += [f"Not run on this machine with these versions: {', '.join(absent)}.", ""]
    for name, about in PICTURES.items():
        if (ROOT / "docs" / "images" / name).exists():
            lines += about
    return "\n".join([*lines, "## What the scripts said", "", *texts]).rstrip() + "\n"


def here() -> dict[str, str]:
    """What results must share to stand on one page."""
    return {"machine": machine(), "versions": versions()}


def commit() -> str:
    """Of the code that is timed; Karat's version does not tell."""
    done = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, cwd=ROOT)
    return done.stdout.strip() or "unknown"


def machine() -> str:
    """Processor, cores, memory, system: what a ratio may depend on."""
    about = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    names = [line.partition(":")[2].strip() for line in about.splitlines() if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    processor = f"{names[0]} ({platform.machine()})" if names else platform.machine()
    return (
        f"{processor}, {os.cpu_count()} cores, {memory:.0f} GB of memory, {platform.system()}, "
        f"Python {platform.python_version()}, one thread"
    )


def versions() -> str:
    known = []
    for name in PACKAGES:
        try:
            known.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return ", ".join(known)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=[], help="names without bench_ and .py")
    parser.add_argument("--quick", action="store_true", help="one round in the shortest form, page under build/")
    parser.add_argument("--page", type=Path, default=None)
    options = parser.parse_args()
    kept = ROOT / ("build/benchmarks" if options.quick else ".benchmarks")
    written = options.page or ROOT / ("build/benchmarks.md" if options.quick else "docs/benchmarks.md")
    chosen = scripts(options.only)
    sound = True
    for number in range(1 if options.quick else options.rounds):
        for script in chosen if number % 2 == 0 else reversed(chosen):
            sound &= run_one(script, number, kept, options.quick)
    drop_others(kept)
    written.write_text(page(kept), encoding="utf-8")
    print(f"wrote {written}")
    if not sound:
        raise SystemExit("some scripts failed: see above")


if __name__ == "__main__":
    main()
