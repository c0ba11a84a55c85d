"""p-values of a family of tests, adjusted so that they can be read one by one."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from karat.kernel.errors import BadInput

Correction = Literal["bonferroni", "holm", "benjamini-hochberg"]


def adjust(p: npt.ArrayLike, method: Correction = "holm") -> npt.NDArray[np.float64]:
    """Adjusted p-values (k,). NaN stays NaN and does not count as a test.

    `bonferroni` and `holm` bound the chance of any false finding (Holm's is never larger); `benjamini-hochberg`
    bounds the expected share of false ones among the findings.

    Args:
        p: (k,) p-values of one family of tests.
        method: "bonferroni", "holm" or "benjamini-hochberg".

    Returns:
        (k,) adjusted p-values.

    Example:
        >>> adjust([0.01, 0.04, 0.03]).round(6).tolist()
        [0.03, 0.06, 0.06]
    """
    p = np.asarray(p, dtype=np.float64)
    out = np.full(p.shape, np.nan)
    known = np.isfinite(p)
    values = p[known]
    if ((values < 0) | (values > 1)).any():
        raise BadInput("adjust: p-values must lie in [0, 1].")
    k = len(values)
    order = np.argsort(values, kind="stable")
    ranked = values[order]
    if method == "bonferroni":
        adjusted = ranked * k
    elif method == "holm":
        adjusted = np.maximum.accumulate(ranked * np.arange(k, 0, -1))
    elif method == "benjamini-hochberg":
        adjusted = np.minimum.accumulate((ranked * k / np.arange(1, k + 1))[::-1])[::-1]
    else:
        raise BadInput(f"adjust: method must be bonferroni, holm or benjamini-hochberg, got {method!r}.")
    back = np.empty(k)
    back[order] = np.minimum(adjusted, 1.0)
    out[known] = back
    return out
