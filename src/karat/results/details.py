"""`Details`: what the values of one metric were computed from, over a whole run: named arrays and texts, row by row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pandas as pd

KEYS = ("model", "dataset", "explainer", "sample")  # what tells the details of one metric apart
Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Details:
    """`keys` has one row for each row of every array in `arrays` (n, ...) and of every list in `texts`."""

    keys: pd.DataFrame
    arrays: Mapping[str, Array] = field(default_factory=dict)
    texts: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @staticmethod
    def of(keys: pd.DataFrame, parts: Sequence[Mapping[str, Any]]) -> Details:
        """The parts of cells (name → array or texts) one below the other, sorted by their keys."""
        arrays = dict.fromkeys(n for part in parts for n, values in part.items() if isinstance(values, np.ndarray))
        texts = dict.fromkeys(n for part in parts for n, values in part.items() if not isinstance(values, np.ndarray))
        rows = [len(next(iter(part.values()))) for part in parts]
        return Details(
            keys,
            {name: _stacked([part.get(name) for part in parts], rows) for name in arrays},
            {
                name: [text for part, n in zip(parts, rows, strict=True) for text in part.get(name, [""] * n)]
                for name in texts
            },
        ).take(keys.sort_values(list(KEYS), kind="stable").index.to_numpy())

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, rows: npt.NDArray[Any]) -> Details:
        """Some of the rows: positions, or a mask."""
        chosen = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        return Details(
            self.keys.iloc[chosen].reset_index(drop=True),
            {name: values[chosen] for name, values in self.arrays.items()},
            {name: [texts[i] for i in chosen.tolist()] for name, texts in self.texts.items()},
        )

    def complete(self, *names: str) -> Details:
        """The rows in which the named arrays (all of them, if none is named) are finite throughout."""
        whole = np.ones(len(self), dtype=np.bool_)
        for name in names or self.arrays:
            values = self.arrays[name]
            whole &= np.isfinite(values).reshape(len(values), -1).all(axis=1)
        return self.take(whole)


def _stacked(parts: Sequence[Array | None], rows: Sequence[int]) -> Array:
    """Arrays of one name, NaN where a cell has none; of different shapes, each padded with NaN to the largest."""
    known = [part for part in parts if part is not None]
    shape = tuple(max(sizes) for sizes in zip(*(part.shape[1:] for part in known), strict=True))
    whole = np.full((sum(rows), *shape), np.nan, dtype=known[0].dtype)
    start = 0
    for part, n in zip(parts, rows, strict=True):
        if part is not None:
            whole[(slice(start, start + n), *(slice(size) for size in part.shape[1:]))] = part
        start += n
    return whole
