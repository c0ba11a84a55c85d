"""How much of the scatter of a score does a grouping explain? One grouping, or several at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from karat.kernel.errors import BadInput
from karat.statistics.design import Floats, code_levels


@dataclass(frozen=True)
class EtaSquared:
    """`eta2` is between over total sum of squares, so 1 - eta2 is the share within groups.

    Groups of pure noise have eta2 near (groups - 1) / (n - 1), not zero; `omega2` takes that off and may be negative.
    """

    eta2: float
    omega2: float
    within: float
    f: float
    p: float
    groups: int
    n: int
    n_dropped: int


def eta_squared(values: npt.ArrayLike, groups: npt.ArrayLike) -> EtaSquared:
    """Share of the variance of values (n,) that lies between groups (n,); rows missing either are left out.

    Args:
        values: (n,) numbers; NaN is missing.
        groups: (n,) labels.

    Returns:
        `EtaSquared`.

    Example:
        >>> eta_squared([1.0, 1.0, 3.0, 3.0], list("aabb")).eta2
        1.0
    """
    frame = pd.DataFrame({"value": np.asarray(values, dtype=np.float64), "group": pd.Series(groups).to_numpy()})
    kept = frame.dropna()
    n, dropped = len(kept), len(frame) - len(kept)
    codes, levels = code_levels(kept["group"])
    k = len(levels)
    y = kept["value"].to_numpy() - kept["value"].mean()
    total = float(y @ y)
    if n == 0 or kept["value"].nunique() == 1:  # no variance to share out
        return EtaSquared(np.nan, np.nan, np.nan, np.nan, np.nan, k, n, dropped)
    between = float((np.bincount(codes, y) ** 2 / np.bincount(codes)).sum())
    residual = max(total - between, 0.0)
    omega2 = f = p = np.nan
    if n > k:
        noise = residual / (n - k)
        omega2 = (between - (k - 1) * noise) / (total + noise)
        if k > 1:
            f = between / (k - 1) / noise if noise > 0 else np.inf
            p = float(stats.f.sf(f, k - 1, n - k))
    return EtaSquared(between / total, float(omega2), residual / total, float(f), p, k, n, dropped)


def variance_partition(frame: pd.DataFrame, response: str, factors: Sequence[str]) -> pd.DataFrame:
    """Share of the variance of `response` that each factor explains beyond all the others (main effects).

    Rows with a missing value are left out; `attrs` of the frame has n and n_dropped.

    Args:
        frame: one row per score.
        response: the column of scores.
        factors: columns of labels.

    Returns:
        A frame indexed by the factors, then `shared` (explained, but by more than one factor alike; zero when the
        design is balanced) and `residual`: df, sum_squares, eta2 (of the total, adding up to 1), partial_eta2 (of
        itself plus the residual), f, p.

    Example:
        >>> frame = pd.DataFrame({"score": [1.0, 2.0, 3.0, 4.1], "model": list("aabb"), "data": list("xyxy")})
        >>> variance_partition(frame, "score", ["model", "data"])["eta2"].abs().round(2).to_dict()
        {'model': 0.79, 'data': 0.21, 'shared': 0.0, 'residual': 0.0}
    """
    missing = [name for name in (response, *factors) if name not in frame.columns]
    if missing:
        raise BadInput(f"variance_partition: no column {missing[0]!r}; the frame has {list(frame.columns)}.")
    kept = frame[[response, *factors]].dropna()
    y = kept[response].to_numpy(dtype=np.float64)
    if len(y) < 2 or np.ptp(y) == 0:
        raise BadInput(f"variance_partition: {len(y)} complete rows without variance in {response!r}.")
    y = y - y.mean()
    blocks = {name: _indicators(kept[name]) for name in factors}
    rank, residual = _fit(y, list(blocks.values()))
    df_residual = len(y) - rank
    total = float(y @ y)
    rows: dict[str, tuple[float, ...]] = {}
    for name in factors:
        less_rank, less = _fit(y, [block for other, block in blocks.items() if other != name])
        df, gain = rank - less_rank, max(less - residual, 0.0)
        f = gain / df / (residual / df_residual) if df > 0 and df_residual > 0 and residual > 0 else np.nan
        p = float(stats.f.sf(f, df, df_residual)) if df > 0 and df_residual > 0 else np.nan
        partial = gain / (gain + residual) if gain + residual > 0 else np.nan
        rows[name] = (df, gain, gain / total, partial, f, p)
    shared = total - residual - sum(row[1] for row in rows.values())
    rows["shared"] = (np.nan, shared, shared / total, np.nan, np.nan, np.nan)
    rows["residual"] = (df_residual, residual, residual / total, np.nan, np.nan, np.nan)
    columns = ["df", "sum_squares", "eta2", "partial_eta2", "f", "p"]
    table = pd.DataFrame.from_dict(rows, orient="index", columns=columns)
    table.attrs = {"n": len(kept), "n_dropped": len(frame) - len(kept)}
    return table


def _indicators(values: pd.Series[str]) -> Floats:
    codes, levels = code_levels(values)
    return np.asarray(codes[:, None] == np.arange(len(levels)), dtype=np.float64)


def _fit(y: Floats, blocks: Sequence[Floats]) -> tuple[int, float]:
    """Rank and residual sum of squares of y on an intercept and the blocks."""
    x = np.hstack([np.ones((len(y), 1)), *blocks])
    solution, _, rank, _ = np.linalg.lstsq(x, y, rcond=None)
    rest = y - x @ solution
    return int(rank), float(rest @ rest)
