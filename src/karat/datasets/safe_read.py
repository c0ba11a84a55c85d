"""Reading what others made: packed files that would unpack without end are refused before they fill the memory, and
file names that lead out of their folder before they are opened."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING

from karat.kernel.errors import BadInput

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

DENSE = 100  # bytes unpacked for each packed one: text and masks stay well below
LARGE = 2**31  # a binary file that unpacks into more bytes, and more than DENSE times its own, is a bomb
_SMALL = 2**26  # bytes that may come of any file
_PIECE = 1024  # rows unpacked at a time


def read_packed(path: str | Path, what: str) -> bytes:
    """The content of a file, unpacked if it is gzip."""
    data = Path(path).read_bytes()
    if data[:2] != b"\x1f\x8b":
        return data
    most = max(_SMALL, DENSE * len(data))
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as packed:
            content = packed.read(most + 1)
    except (OSError, EOFError) as error:
        raise BadInput(f"{what}: {path} is damaged: {error}.") from None
    if len(content) > most:
        raise BadInput(
            f"{what}: {path} would unpack into more than {most / 2**20:.0f} MB, {DENSE} times its size and more. "
            "If that is meant, unpack it first."
        )
    return content


def open_parquet(path: str | Path, what: str) -> pq.ParquetFile:
    """A Parquet file that does not claim more rows than it has bytes: rows that repeat take none, images take many."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        raise BadInput(f"{what}: {path} is not a Parquet file: {error}.") from None
    rows, size = file.metadata.num_rows, Path(path).stat().st_size
    if rows > size:
        raise BadInput(f"{what}: {path} would unpack into {rows:,} rows, more than the {size:,} bytes it has.")
    return file


def read_row_group(path: str | Path, number: int, columns: Sequence[str] | None, what: str) -> pa.Table:
    """One row group, unpacked piece by piece: what it says of its size leaves out that a value may be there often."""
    file = open_parquet(path, what)
    group = file.metadata.row_group(number)
    parts = (group.column(i) for i in range(group.num_columns))
    wanted = [part for part in parts if columns is None or part.path_in_schema.partition(".")[0] in columns]
    stated = sum(part.total_uncompressed_size for part in wanted)
    if stated > _most(path):
        raise _endless(path, what)
    rows = max(1, min(_PIECE, LARGE // max(stated, 1)))  # were each as large as all together, still no more than LARGE
    pieces = file.iter_batches(rows, [number], None if columns is None else list(columns))
    return joined(pieces, file.schema_arrow, path, what)


def joined(pieces: Iterable[pa.RecordBatch], schema: pa.Schema, path: str | Path, what: str) -> pa.Table:
    """All pieces as a table, unless they come to too much."""
    import pyarrow as pa

    kept, total, most = [], 0, _most(path)
    for piece in pieces:
        total += piece.nbytes
        if total > most:
            raise _endless(path, what)
        kept.append(piece)
    return pa.Table.from_batches(kept, kept[0].schema if kept else schema)


def _most(path: str | Path) -> int:
    return max(LARGE, DENSE * Path(path).stat().st_size)


def _endless(path: str | Path, what: str) -> BadInput:
    most = _most(path) / 2**30
    return BadInput(
        f"{what}: {path} would unpack into more than {most:.0f} GB, {DENSE} times its size and more. If that is meant, "
        "write it in smaller row groups."
    )


def within(folder: str | Path, name: object) -> Path:
    """Names in annotation files come from outside: one that leads out of its folder is refused.

    >>> str(within("images", "val2014/a.jpg"))
    'images/val2014/a.jpg'
    >>> within("images", "../secret.jpg")
    Traceback (most recent call last):
    karat.kernel.errors.BadInput: the file name '../secret.jpg' leads out of images; file names must stay under it.
    """
    text = str(name)
    parts = {*PurePosixPath(text).parts, *PureWindowsPath(text).parts}
    if ".." in parts or "\0" in text or PurePosixPath(text).is_absolute() or PureWindowsPath(text).anchor:
        raise BadInput(f"the file name {text!r} leads out of {folder}; file names must stay under it.")
    return Path(folder) / text
