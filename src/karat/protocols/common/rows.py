"""Rows of an analysis: frozen dataclasses, so that their columns have names and types, and frames made of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, TypeVar

import pandas as pd

from karat.statistics import Estimate

R = TypeVar("R")


def frame_of(rows: Iterable[R], kind: type[R]) -> pd.DataFrame:
    """A frame with the columns of a dataclass; without rows it still has them.

    >>> @dataclasses.dataclass(frozen=True)
    ... class Mean:
    ...     explainer: str
    ...     value: float
    >>> frame_of([Mean("cam/gradcam", 0.5)], Mean).to_dict("list")
    {'explainer': ['cam/gradcam'], 'value': [0.5]}
    >>> list(frame_of([], Mean))
    ['explainer', 'value']
    """
    names = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]  # R is a dataclass
    values: list[dict[str, Any]] = [{name: getattr(row, name) for name in names} for row in rows]
    return pd.DataFrame(values, columns=names)


def rows_of(frame: pd.DataFrame, kind: type[R]) -> list[R]:
    """The rows of a frame as the dataclass that it was made of, `frame_of` undone. Other columns are left out.

    >>> @dataclasses.dataclass(frozen=True)
    ... class Mean:
    ...     explainer: str
    ...     value: float
    >>> rows_of(frame_of([Mean("cam/gradcam", 0.5)], Mean).assign(p=0.1), Mean)
    [Mean(explainer='cam/gradcam', value=0.5)]
    """
    names = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]  # R is a dataclass
    return [kind(*values) for values in frame[names].itertuples(index=False, name=None)]


def unfolded(frame: pd.DataFrame) -> pd.DataFrame:
    """A frame whose columns of estimates are three columns each, value, low and high: what a table shows.

    >>> frame = pd.DataFrame({"explainer": ["a"], "gap": [Estimate(3.0, 0.5, 2.0, 4.0, 20, 0)]})
    >>> unfolded(frame).to_dict("list")
    {'explainer': ['a'], 'gap': [3.0], 'gap low': [2.0], 'gap high': [4.0]}
    """
    columns: dict[str, Any] = {}
    for name in map(str, frame.columns):
        head, values = name.replace("_", " "), frame[name].tolist()
        if values and isinstance(values[0], Estimate):
            columns[head] = [one.value for one in values]
            columns[f"{head} low"] = [one.low for one in values]
            columns[f"{head} high"] = [one.high for one in values]
        else:
            columns[head] = values
    return pd.DataFrame(columns)
