"""Numbers in sentences and tables: one format of a value with its interval, one spelling of a missing number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from karat.kernel.typing import Scalar
from karat.statistics import Estimate


def interval(estimate: Estimate, digits: int = 3, sign: bool = False) -> str:
    """A value with its interval, rounded so that nothing shows as minus zero.

    >>> interval(Estimate(0.12345, 0.01, 0.1, 0.15, 20, 0))
    '0.123 (0.100 to 0.150)'
    >>> interval(Estimate(-0.0001, 0.01, -0.0002, 0.0001, 20, 0))
    '-0.0001 (-0.0002 to 0.0001)'
    >>> interval(Estimate(-0.0004, 0.0002, -0.0012, -0.0003, 20, 0))
    '-0.0004 (-0.0012 to -0.0003)'
    >>> interval(Estimate(float("nan"), 0.01, 0.1, 0.15, 0, 0))
    'no value'
    """
    if not math.isfinite(estimate.value):
        return "no value"
    if not (math.isfinite(estimate.low) and math.isfinite(estimate.high)):
        return rounded(estimate.value, digits, sign)
    # an interval that would read as one number, or one end of which would read as zero, is given the digits it needs
    while digits < 9 and estimate.low != estimate.high and _unclear(estimate, digits):
        digits += 1
    numbers = [rounded(value, digits, sign) for value in (estimate.value, estimate.low, estimate.high)]
    return f"{numbers[0]} ({numbers[1]} to {numbers[2]})"


def _unclear(estimate: Estimate, digits: int) -> bool:
    """Whether the digits hide that an interval is one, or on which side of zero it lies."""
    low, high = round(estimate.low, digits), round(estimate.high, digits)
    return low == high or (estimate.low * estimate.high > 0 and low * high == 0)


def rounded(value: float, digits: int = 3, sign: bool = False) -> str:
    """A number with so many decimals; a minus stands only before what does not round to zero.

    >>> rounded(-0.0001), rounded(0.25, 2, sign=True)
    ('0.000', '+0.25')
    """
    near = round(value, digits) + 0.0  # -0.0 + 0.0 is 0.0
    return f"{near:{'+' if sign else ''}.{digits}f}"


def number(value: Any) -> float | None:
    """A number for a table; None where there is none.

    >>> number(float("nan")), number(0.0), number(None)
    (None, 0.0, None)
    """
    return None if value is None or pd.isna(value) or math.isinf(value) else float(value)


def table_rows(frame: pd.DataFrame, columns: Sequence[str] = ()) -> tuple[tuple[Scalar, ...], ...]:
    """Rows of a frame as a `Finding` keeps them: plain values, None for what is missing."""
    chosen = frame[list(columns)] if columns else frame
    return tuple(tuple(_plain(value) for value in row) for row in chosen.itertuples(index=False, name=None))


def _plain(value: Any) -> Scalar:
    if value is None or value is pd.NA or (isinstance(value, float | np.floating) and not math.isfinite(value)):
        return None
    return value.item() if isinstance(value, np.generic) else value
