"""SIGKILL at random moments of small runs, again and again, until each is finished: the rows are those of a quiet one.

The runs are forked from this process after it has imported everything, so that kills fall into work and not into
imports. Most write in the process that is killed; the others have two workers, and driver or worker dies.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count as count_up
from pathlib import Path

import pandas as pd
import pytest
import toys
from faulty import complaint, scaled

from karat.engine.run import run
from karat.kernel.spec import Spec
from karat.results import load_run

KILLS = {0: 160, 2: 40}  # by number of workers
LET_BE = 8  # kills of one run, after which it may finish: on a slow machine none might outlive its start
SPEC = Spec.parse(
    toys.spec(
        datasets=[{"name": "toys:Squares", "n": 40}],
        explainers=[{"name": "toys:Noise", "wait": 0.004}, "control/oracle"],
        shard_size=4,
        batch_size=2,
    )
)


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> tuple[pd.DataFrame, float]:
    run(SPEC, tmp_path_factory.mktemp("warm"), workers=0)
    began = time.monotonic()
    scores = run(SPEC, tmp_path_factory.mktemp("whole"), workers=0).scores()
    return scores, time.monotonic() - began


def fork(out: Path, workers: int) -> int:
    child = os.fork()
    if child == 0:
        code = 70
        with suppress(BaseException):
            run(SPEC, out, workers=workers)
            code = 0
        os._exit(code)
    return child


def children(parent: int) -> list[int]:
    try:
        return [int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]
    except OSError:
        return []


def ended(child: int) -> int | None:
    pid, status = os.waitpid(child, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if pid else None


def rows_so_far(out: Path) -> pd.DataFrame:
    """What a reader sees just after the kill: never an error other than that there is no run yet."""
    if said := complaint(lambda: load_run(out)):
        assert "not a run directory" in said
        return pd.DataFrame()
    return load_run(out).scores()


def check(found: pd.DataFrame, whole: pd.DataFrame) -> None:
    """Every row that is trusted is right, and there once."""
    if len(found):
        keys = ["cell", "metric", "sample"]
        joined = found.merge(whole, on=keys, suffixes=("", "_whole"))
        assert len(joined) == len(found)
        assert joined["value"].equals(joined["value_whole"])


@pytest.mark.parametrize("workers", [0, 2])
def test_killed_at_random_moments(
    workers: int, tmp_path: Path, quiet: tuple[pd.DataFrame, float], count: Callable[[str, int], None]
) -> None:
    whole, seconds = quiet
    random_ = random.Random(workers)
    kills, runs = 0, 0
    while kills < scaled(KILLS[workers]):
        out = tmp_path / f"run-{runs}"
        for attempt in count_up():
            child = fork(out, workers)
            patience = random_.uniform(0, seconds * (0.9 if workers == 0 else 6)) if attempt < LET_BE else 3600
            deadline = time.monotonic() + patience
            code = None
            while code is None and time.monotonic() < deadline:
                time.sleep(0.002)
                code = ended(child)
            if code is not None:
                assert code == 0
                break
            victims = [child, *children(child)] if workers else [child]
            hit = random_.choice(victims)
            os.kill(hit, signal.SIGKILL)
            kills += 1
            if hit != child and random_.random() < 0.5:  # a worker was: its driver is to end the run without it
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
                break
            if workers:
                time.sleep(0.05)
                with suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            check(rows_so_far(out), whole)
        pd.testing.assert_frame_equal(load_run(out).scores(), whole, check_exact=True)
        runs += 1
    count(f"SIGKILL at random moments ({'driver' if workers == 0 else 'driver or one of two workers'})", kills)
