"""Rows of an analysis: frozen dataclasses, so that their columns have names and types, and frames made of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, TypeVar

import pandas as pd

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
