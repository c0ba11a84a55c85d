"""Files for others, written whole or not at all: tables as CSV or Parquet, and anything that is bytes already."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from karat.kernel.errors import BadInput
from karat.results.store import Store

if TYPE_CHECKING:
    import pandas as pd

    from karat.results.run import Run


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


def write_rows(run: Run, path: str | Path) -> tuple[dict[str, str], int]:
    """All rows of a run in one Parquet file, a shard at a time; gives the columns with their kinds, and how many rows.

    A cell counts once; rows of cells that the spec no longer asks for are left out.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = Path(path)
    kinds: dict[str, pa.DataType] = {}
    for table in run.tables():
        for column in table.schema:
            kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
            known = kinds.get(column.name, pa.null())
            # a property that is a number in one shard and a text in another is a text
            kinds[column.name] = kind if pa.types.is_null(known) or known == kind else pa.string()
    schema = pa.schema([(name, pa.string() if pa.types.is_null(kind) else kind) for name, kind in kinds.items()])
    n = 0
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.tmp")
    try:
        with pq.ParquetWriter(unfinished, schema, compression="zstd") as writer:
            for table in run.tables():
                writer.write_table(pa.table({
                    name: table.column(name).cast(kind) if name in table.column_names else pa.nulls(len(table), kind)
                    for name, kind in zip(schema.names, schema.types, strict=True)
                }, schema))  # fmt: skip
                n += len(table)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return {name: str(kind) for name, kind in zip(schema.names, schema.types, strict=True)}, n
