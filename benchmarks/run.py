"""All comparisons, each script in a process of its own, in turns; writes docs/benchmarks.md.

    python benchmarks/run.py [--rounds 3] [--only games metrics] [--page docs/benchmarks.md]

Every round runs every script once (the second round in reverse, and so on), so that what disturbs the machine disturbs
all alike. A row's ratio is the median over rounds, with the least and the greatest beside it. Scripts compare results
before they time anything, and one that finds a difference fails here. What is kept of each round lies in .benchmarks/.
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
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from side_by_side import RECORD

HERE = Path(__file__).parent
ROOT = HERE.parent
KEPT = ROOT / ".benchmarks"
PACKAGES = ("assay", "numpy", "scipy", "pandas", "pyarrow", "torch", "torchvision", "timm", "transformers", "captum",
            "grad-cam", "quantus", "shapiq", "statsmodels", "scikit-image", "pillow", "ray")  # fmt: skip

GROWTH = [
    "## How cost grows",
    "",
    "![Cost against samples, players, steps, classes and workers](images/growth.png)",
    "",
    "Every line is divided by its first point; the dashed one grows in proportion. Workers: the cost model's forecast,",
    "and what was measured at 1, 2 and 4 (see [Scaling](concepts/scaling.md)).",
    "",
]


def scripts(only: list[str]) -> list[Path]:
    found = sorted(HERE.glob("bench_*.py"))
    names = {path.stem.removeprefix("bench_"): path for path in found}
    unknown = set(only) - set(names)
    if unknown:
        raise SystemExit(f"no benchmark called {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    return [names[name] for name in only] if only else found


def run_one(script: Path, number: int) -> bool:
    """One round of one script; its rows and what it printed go to .benchmarks/<name>/<round>.*"""
    folder = KEPT / script.stem.removeprefix("bench_")
    folder.mkdir(parents=True, exist_ok=True)
    rows, text = folder / f"{number}.jsonl", folder / f"{number}.txt"
    rows.unlink(missing_ok=True)
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    environment = {**os.environ, RECORD: str(rows), "OMP_NUM_THREADS": "1", "PYTHONPATH": paths}
    began = time.monotonic()
    done = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True, cwd=ROOT)
    print(f"{script.name}, round {number + 1}: {time.monotonic() - began:.0f} s", flush=True)
    if done.returncode:
        text.unlink(missing_ok=True)
        print(f"  failed: {(done.stderr or done.stdout).strip().splitlines()[-1:]}", flush=True)
        return False
    text.write_text(f"load {os.getloadavg()[0]:.1f}\n{done.stdout}")
    return True


def gathered(folder: Path) -> list[dict[str, Any]]:
    """Rows of one script over its rounds, in the order they were written first."""
    rounds: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text().splitlines():
            row = json.loads(line)
            rounds.setdefault((row["what"], row["peer"]), []).append(row)
    found = []
    for (what, peer), rows in rounds.items():
        ratios = [row["theirs"] / row["ours"] for row in rows]
        spread = f"{min(ratios):.3g} to {max(ratios):.3g}" if len(ratios) > 1 else "one round"
        found.append({"what": what, "peer": peer, "ratio": statistics.median(ratios), "spread": spread,
                      "rounds": len(rows), "agree": rows[-1]["agree"], "aim": rows[-1]["aim"]})  # fmt: skip
    return found


def page() -> str:
    lines = [
        "# Benchmarks",
        "",
        "Assay beside its peers, both in the same process on the same inputs, results compared before times. A ratio",
        "is the peer's cost over Assay's (CPU time unless said otherwise): more is better. The spread is over rounds.",
        "`make bench` runs everything again and writes this page.",
        "",
        f"Machine: {platform.machine()}, {os.cpu_count()} cores, {platform.system()}, Python "
        f"{platform.python_version()}. Versions: {', '.join(_versions())}.",
        "",
    ]
    texts = []
    for folder in sorted(path for path in KEPT.iterdir() if path.is_dir()):
        rows = gathered(folder)
        last = sorted(folder.glob("*.txt"))
        if not last:
            continue
        load, _, said = last[-1].read_text().partition("\n")
        if rows:
            lines += [
                f"## {folder.name}",
                "",
                "| what | peer | ratio | spread | results | aim |",
                "|---|---|---|---|---|---|",
            ]
            for row in rows:
                values = [row["what"], row["peer"], f"{row['ratio']:.3g}", row["spread"], row["agree"], row["aim"]]
                lines.append(f"| {' | '.join(values)} |")
            lines.append("")
        texts += [f"### {folder.name}", "", f"Processes waiting for a core meanwhile: {load.split()[1]}.", ""]
        texts += ["```text", said.rstrip(), "```", ""]
    if (ROOT / "docs" / "images" / "growth.png").exists():
        lines += GROWTH
    return "\n".join([*lines, "## What the scripts said", "", *texts]).rstrip() + "\n"


def _versions() -> list[str]:
    found = []
    for name in PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=[], help="names without bench_ and .py")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "benchmarks.md")
    options = parser.parse_args()
    chosen = scripts(options.only)
    sound = True
    for number in range(options.rounds):
        for script in chosen if number % 2 == 0 else reversed(chosen):
            sound &= run_one(script, number)
    options.page.write_text(page())
    print(f"wrote {options.page}")
    if not sound:
        raise SystemExit("some scripts failed: see above")


if __name__ == "__main__":
    main()
