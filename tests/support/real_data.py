"""Where real photographs for tests are, if anywhere: `KARAT_REAL_DATA`, or ../shared/data of the repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def real_data(name: str) -> Path:
    """The folder of that name, or a skip with the reason."""
    root = Path(os.environ.get("KARAT_REAL_DATA") or Path(__file__).parents[3] / "shared" / "data")
    if not (root / name).is_dir():
        pytest.skip(f"no real data at {root / name}: set KARAT_REAL_DATA to where it is")
    return root / name
