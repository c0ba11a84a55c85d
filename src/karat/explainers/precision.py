"""Which explainers stay what they are in few bits, as `benchmarks/measure_precision.py` measured it: data.

`precision.json` holds, by explainer and precision, the rank correlation of maps with those of float32 on the trained
twins. Whoever has a correlation below `STAYS` on one of them draws another map than in float32.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

RECORD = Path(__file__).with_name("precision.json")
STAYS = 0.9  # the least mean rank correlation of an explainer that stays what it is
FULL = ("float32", "float64")


@dataclass(frozen=True)
class Agreement:
    """Mean rank correlation with float32 of one explainer in one precision, on `n` maps of `model`. `problem` is what
    went wrong where there are no maps."""

    model: str
    explainer: str
    dtype: str
    n: int
    mean: float | None
    least: float | None
    problem: str = ""

    @property
    def stays(self) -> bool:
        return self.mean is not None and self.mean >= STAYS


@cache
def agreements(record: Path = RECORD) -> tuple[Agreement, ...]:
    """The record, row by row."""
    fields = ("model", "explainer", "dtype", "n", "mean", "least", "problem")
    return tuple(Agreement(*(row[name] for name in fields)) for row in json.loads(record.read_text(encoding="utf-8")))


def lost_agreement(explainer: str, precision: str, record: Path = RECORD) -> Agreement | None:
    """The worst row of an explainer that does not stay what it is in a precision ("bfloat16", "4bit"); None where it
    does, or where nobody measured it.

    >>> lost_agreement("attention/rollout", "float16") is None
    True
    """
    rows = [row for row in agreements(record) if (row.explainer, row.dtype) == (explainer, precision)]
    lost = [row for row in rows if not row.stays and (row.n or row.problem)]  # no maps and no problem: it draws none
    return min(lost, key=lambda row: -1.0 if row.mean is None else row.mean, default=None)


def measured(precision: str, record: Path = RECORD) -> frozenset[str]:
    """Explainers of which it was measured what a precision does to them."""
    return frozenset(row.explainer for row in agreements(record) if row.dtype == precision)
