"""`frame_of(tables)`: rows of many files as one frame. Words travel as numbers until the end, so that what is read
costs a few bytes a row, and the frame its own columns and nothing beside them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

ORDER = ("protocol", "model", "dataset", "explainer", "sample", "metric")
Codes = npt.NDArray[np.int32]


def frame_of(tables: Iterable[pa.Table], columns: Collection[str] | None = None, ordered: bool = True) -> pd.DataFrame:
    """All rows of the tables; of the columns those that are asked for and there. In the order of ORDER, which does not
    depend on who wrote which file first, or as they come."""
    import pandas as pd

    grown: dict[str, _Column] = {}
    n = 0
    for table in tables:
        if n and not table.num_rows:
            continue
        for name in table.column_names:
            if columns is None or name in columns or (ordered and name in ORDER):
                grown.setdefault(name, _Column(n)).add(table.column(name))
        n += table.num_rows
        for column in grown.values():
            column.pad(n)
    places = _order([grown[name] for name in ORDER]) if ordered and n else None
    made: dict[str, Any] = {}
    for name in list(grown):
        column = grown.pop(name)  # its parts go as soon as it stands
        if columns is None or name in columns:
            made[name] = column.values(places)
    return pd.DataFrame(made, copy=False)


def coded(column: pa.ChunkedArray) -> tuple[list[Any], Codes]:
    """Distinct values and a number for each row; a missing value is None among them."""
    import pyarrow as pa

    whole = column.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):  # of a table without rows
        whole = pa.concat_arrays(whole.chunks) if whole.num_chunks else pa.array([], pa.string())
    if not pa.types.is_dictionary(whole.type):
        whole = whole.dictionary_encode()
    texts = whole.dictionary.to_pylist()
    indices = whole.indices.fill_null(len(texts)) if whole.null_count else whole.indices
    codes = indices.to_numpy(zero_copy_only=False)
    used = np.flatnonzero(np.bincount(codes, minlength=len(texts)))  # a filtered table keeps names that no row has
    place = np.zeros(len(texts) + 1, dtype=np.int32)
    place[used] = np.arange(len(used), dtype=np.int32)
    return [texts[k] if k < len(texts) else None for k in used.tolist()], place[codes]


class _Column:
    """One column of many tables, absent from the first `before` rows: words as numbers, floats as doubles, all else as
    pandas has it."""

    def __init__(self, before: int) -> None:
        self.names: dict[str | None, int] = {}
        self.parts: list[Any] = []  # codes, or a series
        self.rows = 0
        self.pad(before)

    def add(self, column: pa.ChunkedArray) -> None:
        import pyarrow as pa

        self.rows += len(column)
        if not pa.types.is_dictionary(column.type):
            series = column.to_pandas()
            self.parts.append(series.astype(np.float64) if series.dtype.kind == "f" else series)
            return
        texts, codes = coded(column)
        numbers = np.array([self.names.setdefault(text, len(self.names)) for text in texts], dtype=np.int32)
        self.parts.append(numbers.astype(np.min_scalar_type(len(self.names)))[codes])

    def pad(self, rows: int) -> None:
        """Missing values up to a number of rows, where a table lacks the column."""
        import pandas as pd

        if rows > self.rows:
            coding = bool(self.parts) and isinstance(self.parts[-1], np.ndarray)
            missing = rows - self.rows
            number = self.names.setdefault(None, len(self.names)) if coding else 0
            self.parts.append(
                np.full(missing, number, np.min_scalar_type(number)) if coding else pd.Series(np.nan, range(missing))
            )
            self.rows = rows

    @property
    def texts(self) -> npt.NDArray[Any]:
        return np.array([np.nan if text is None else text for text in self.names] or [""], dtype=object)

    def codes(self) -> npt.NDArray[Any]:
        return np.concatenate(self.parts)

    def values(self, places: npt.NDArray[np.intp] | None) -> pd.Series[Any]:
        import pandas as pd

        if all(isinstance(part, np.ndarray) for part in self.parts):
            codes = self.codes()
            self.parts.clear()
            return pd.Series(self.texts[codes if places is None else codes[places]], dtype=object, copy=False)
        texts = self.texts
        series = [pd.Series(texts[part], dtype=object) if isinstance(part, np.ndarray) else part for part in self.parts]
        self.parts.clear()
        whole = pd.concat(series, ignore_index=True)
        return whole if places is None else whole.take(places).reset_index(drop=True)


def _order(columns: Iterable[_Column]) -> npt.NDArray[np.intp]:
    """Places of the rows by these columns of words, the first before the second; stable."""
    ranks = []
    for column in columns:
        words = column.texts.astype(str)
        rank = np.empty(len(words), dtype=np.min_scalar_type(len(words)))
        rank[np.argsort(words, kind="stable")] = np.arange(len(words))
        ranks.append(rank[column.codes()])
    return np.lexsort(ranks[::-1])
