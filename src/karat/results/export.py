"""Files for others, written whole or not at all: tables as CSV or Parquet, and anything that is bytes already."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from karat.kernel.errors import BadInput
from karat.results.store import Store

if TYPE_CHECKING:
    import pandas as pd


def write_frame(frame: pd.DataFrame, path: str | Path) -> None:
    """Write a table in the format its file name ends in."""
    path = Path(path)
    if path.suffix == ".csv":
        data = frame.to_csv(index=False).encode()
    elif path.suffix == ".parquet":
        buffer = io.BytesIO()
        frame.to_parquet(buffer, index=False)
        data = buffer.getvalue()
    else:
        raise BadInput(f"tables are written as .csv or .parquet; got {path.name}.")
    write_file(data, path)


def write_file(data: bytes, path: str | Path) -> None:
    path = Path(path)
    Store(path.parent).write(path.name, data)
