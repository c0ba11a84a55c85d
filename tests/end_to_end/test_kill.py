"""A run killed with SIGKILL at any moment and started again ends with the rows of one that was never killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
import toys
import yaml

from karat.engine.run import run
from karat.kernel.spec import Spec
from karat.results import load_run

SPEC = toys.spec(
    datasets=[{"name": "toys:Squares", "n": 40}], explainers=[{"name": "toys:Noise", "wait": 0.03}, "control/oracle"]
)


def start(spec: Path, out: Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [
        sys.executable,
        "-c",
        "from karat.cli.main import main; main()",
        "run",
        str(spec),
        "--out",
        str(out),
        "--workers",
        "2",
    ]
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    return run(Spec.parse(SPEC), tmp_path_factory.mktemp("whole"), workers=0).scores()


@pytest.mark.parametrize("moment", [0.6, 1.1, 1.5, 2.0])
def test_killed_and_started_again(moment: float, tmp_path: Path, undisturbed: pd.DataFrame) -> None:
    spec, out = tmp_path / "spec.yaml", tmp_path / "run"
    spec.write_text(yaml.safe_dump(SPEC))
    first = start(spec, out)
    time.sleep(moment)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    kept = set((out / "scores").glob("*.parquet"))
    second = start(spec, out)
    _, said = second.communicate(timeout=60)
    assert second.returncode == 0, said.decode()
    pd.testing.assert_frame_equal(load_run(out).scores(), undisturbed, check_exact=True)
    events = [e for e in load_run(out).events() if e["event"] == "run_started"]
    # Nothing that was on disk when the first was killed is computed again. (Its orphans may have added a shard since.)
    assert events[-1]["cells_done"] >= 2 * len(kept)


def test_the_event_log_survives_a_torn_last_line(tmp_path: Path) -> None:
    finished = run(Spec.parse(toys.spec()), tmp_path, workers=0)
    with open(tmp_path / "events.jsonl", "a") as file:
        file.write('{"event": "job_do')
    assert json.dumps(list(finished.events())[-1]).startswith('{"event": "run_done"')
