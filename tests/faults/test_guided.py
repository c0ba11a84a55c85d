"""The coverage-guided part of the fuzzing, in a process of its own, with its count beside the others."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from faulty import scaled

pytest.importorskip("atheris", reason="atheris is not installed: pip install 'karat[faults]'")


def test_bytes_guided_by_coverage(count: Callable[[str, int], None]) -> None:
    program = Path(__file__).with_name("fuzz_atheris.py")
    runs = scaled(10_000)
    done = subprocess.run(
        [sys.executable, str(program), f"-runs={runs}", "-print_final_stats=1", "-seed=1"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:] + done.stdout[-3000:]
    executed = re.search(r"number_of_executed_units: *(\d+)", done.stderr)
    assert executed is not None
    assert int(executed[1]) >= runs
    count("byte strings guided by coverage: specs, arrays, logs, shards, images, masks", int(executed[1]))
