"""From a long frame (one row per score) to the arrays of a mixed model: response, fixed columns, groupings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from karat.kernel.errors import BadInput

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Term:
    """One fixed column: treatment-coded against its first level, or a slope where `levels` is empty."""

    column: str
    levels: tuple[str, ...]  # empty for a numeric covariate
    positions: tuple[int, ...]  # columns of X: one per level but the first, or the slope
    mean: float  # of a covariate, where marginal means are taken


@dataclass(frozen=True)
class Grouping:
    """One random factor: row i belongs to level `codes[i]`."""

    column: str
    codes: Codes  # (n,)
    levels: tuple[str, ...]  # (q,)


@dataclass(frozen=True)
class Design:
    """`y` (n,), `x` (n, p) with the intercept first, groupings that can be estimated, and what was left out and why."""

    y: Floats
    x: Floats
    names: tuple[str, ...]  # (p,)
    terms: tuple[Term, ...]
    groupings: tuple[Grouping, ...]
    omitted: tuple[tuple[str, str], ...]  # (random column, reason)
    n_dropped: int


def build_design(
    frame: pd.DataFrame, response: str, fixed: Sequence[str], random: Sequence[str], reference: str | None
) -> Design:
    """Drop rows with a missing value in any used column, code the rest. Raises BadInput on what cannot be fitted."""
    used = [response, *fixed, *random]
    for name in used:
        if name not in frame.columns:
            raise BadInput(f"mixed_model: no column {name!r}; the frame has {', '.join(map(repr, frame.columns))}.")
    if len(set(used)) < len(used):
        raise BadInput(f"mixed_model: each column has one role, got response, fixed, random = {used}.")
    if not pd.api.types.is_numeric_dtype(frame[response].dtype):
        raise BadInput(f"mixed_model: response {response!r} must be numbers, got dtype {frame[response].dtype}.")
    rows = frame[used].dropna()
    n = len(rows)
    if n == 0:
        raise BadInput(f"mixed_model: all {len(frame)} rows have a missing value in {used}; nothing is left to fit.")
    y = rows[response].to_numpy(dtype=np.float64)
    if not np.isfinite(y).all():
        raise BadInput(f"mixed_model: response {response!r} holds infinite values; drop them or make them missing.")

    blocks: list[Floats] = [np.ones((n, 1))]
    names, terms = ["(Intercept)"], []
    for k, column in enumerate(fixed):
        term, block, labels = _fixed_term(rows[column], len(names), reference if k == 0 else None, len(fixed) > 1)
        blocks.append(block)
        names += labels
        terms.append(term)
    x = np.hstack(blocks)
    if n <= x.shape[1]:
        raise BadInput(f"mixed_model: {n} complete rows cannot carry {x.shape[1]} fixed effects; give more rows.")
    groupings, omitted = _groupings(rows, random, n)
    return Design(y, x, tuple(names), tuple(terms), groupings, omitted, len(frame) - n)


def _fixed_term(
    values: pd.Series[Any], start: int, reference: str | None, several: bool
) -> tuple[Term, Floats, list[str]]:
    column = str(values.name)
    dtype = values.dtype
    if pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_bool_dtype(dtype):
        covariate = np.asarray(values, dtype=np.float64)
        if not np.isfinite(covariate).all():
            raise BadInput(f"mixed_model: covariate {column!r} holds infinite values.")
        return Term(column, (), (start,), float(covariate.mean())), covariate[:, None], [column]
    codes, levels = code_levels(values)
    if reference is not None:
        if reference not in levels:
            raise BadInput(f"mixed_model: reference {reference!r} is no level of {column!r}: {', '.join(levels)}.")
        first = levels.index(reference)
        order = [first, *(i for i in range(len(levels)) if i != first)]
        new_code = np.empty(len(levels), dtype=np.intp)
        new_code[order] = np.arange(len(levels))
        codes, levels = new_code[codes], tuple(levels[i] for i in order)
    block = np.asarray(codes[:, None] == np.arange(1, len(levels)), dtype=np.float64)
    labels = [f"{column}={level}" if several else level for level in levels[1:]]
    return Term(column, levels, tuple(range(start, start + len(levels) - 1)), 0.0), block, labels


def code_levels(values: pd.Series[Any]) -> tuple[Codes, tuple[str, ...]]:
    """Codes (n,) and level names of a column without missing values: categorical order if it has one, else sorted."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        present = values.cat.remove_unused_categories()
        codes: Codes = np.array(present.cat.codes, dtype=np.intp)
        return codes, tuple(str(level) for level in present.cat.categories)
    numbers, levels = pd.factorize(values, sort=True)
    codes = np.array(numbers, dtype=np.intp)
    return codes, tuple(str(level) for level in levels)


def _groupings(
    rows: pd.DataFrame, random: Sequence[str], n: int
) -> tuple[tuple[Grouping, ...], tuple[tuple[str, str], ...]]:
    """Groupings whose variance the data can tell from the rest; the others are left out with the reason."""
    kept: list[Grouping] = []
    omitted: list[tuple[str, str]] = []
    for column in random:
        codes, levels = code_levels(rows[column])
        twin = next((g.column for g in kept if _same_partition(g, codes, len(levels))), None)
        if len(levels) == 1:
            omitted.append((column, "has one level, so its variance cannot be told from the intercept"))
        elif len(levels) == n:
            omitted.append((column, "has one row per level, so its variance cannot be told from the residual"))
        elif twin is not None:
            omitted.append((column, f"splits the rows exactly as {twin!r} does, so only their sum can be estimated"))
        else:
            kept.append(Grouping(column, codes, levels))
    return tuple(kept), tuple(omitted)


def _same_partition(grouping: Grouping, codes: Codes, n_levels: int) -> bool:
    if len(grouping.levels) != n_levels:
        return False
    image = np.full(n_levels, -1, dtype=np.intp)
    image[grouping.codes] = codes  # a bijection maps every row right; with equal level counts, a function suffices
    return bool((image[grouping.codes] == codes).all())
