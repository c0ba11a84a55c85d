"""What all comparisons have in common: times taken in turns, one record for each ratio, a full and a quick size.

Imported before Karat, it puts this checkout on the path, so that a script runs as it stands: the code that is timed is
that of the checkout, and what it is compared with may be a slow twin, or a small model, of its tests.

A script prints what it likes; beside that it calls `compared` once for every ratio that is worth a row of the table
that `benchmarks/run.py` makes of them all, and `skipped` for what it cannot do here. A record is one line of JSON in
the file that KARAT_BENCH_RECORD names.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path[:0] = [str(path) for path in (ROOT / "src", ROOT, ROOT / "tests" / "support", HERE)]

RECORD = "KARAT_BENCH_RECORD"  # the file that records go to; without it, nothing is kept
QUICK = "KARAT_BENCH_QUICK"  # set: every script in its shortest form, to see that it works

T = TypeVar("T")
Seconds = float | Sequence[float]  # one measurement, or several


def size(full: T, quick: T) -> T:
    """How much of something to do: the full measure, or the little that `run.py --quick` asks for."""
    return quick if os.environ.get(QUICK) else full


def in_turns(*runs: Callable[[], object], rounds: int = 5, warm: bool = False) -> list[list[float]]:
    """CPU seconds of each, measured in turns, so that a busy machine is busy for all; (runs, rounds).

    All are called once before, untimed: what is loaded or made on first use is not what is compared. Not if `warm`:
    they have just been called, to compare what they give.
    """
    taken: list[list[float]] = [[] for _ in runs]
    for run in () if warm else runs:
        run()
    for _ in range(size(rounds, 1)):
        for run, seconds in zip(runs, taken, strict=True):
            began = time.process_time()
            run()
            seconds.append(time.process_time() - began)
    return taken


def median(seconds: Seconds) -> float:
    """The middle of several measurements, or the one there is."""
    return float(seconds) if isinstance(seconds, int | float) else statistics.median(seconds)


def resident(field: str) -> float:
    """Memory of this process in MB: "VmRSS" now, "VmHWM" the most so far (getrusage: perhaps its parent's)."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(field)) / 1024


def compared(what: str, peer: str, ours: Seconds, theirs: Seconds, agree: str, aim: str = "") -> None:
    """Costs of both sides in the same unit (most often CPU seconds), each one number or one for every turn.

    The ratio is theirs over ours, more is better; `agree` says how the results were found to agree before anything was
    timed, `aim` what the ratio should be.
    """
    sides = {"ours": _listed(ours), "theirs": _listed(theirs)}
    _record({"what": what, "peer": peer, **sides, "agree": agree, "aim": aim})


def skipped(what: str, peer: str, why: str) -> None:
    """What is not compared here, and why: a row as well, so that nobody takes it for done."""
    print(f"{what}, {peer}: skipped, {why}")
    _record({"what": what, "peer": peer, "skipped": why})


def _record(row: dict[str, object]) -> None:
    if path := os.environ.get(RECORD):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def _listed(seconds: Seconds) -> list[float]:
    return [float(seconds)] if isinstance(seconds, int | float) else [float(each) for each in seconds]
