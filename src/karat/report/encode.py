"""Python values as text that a page may carry: JSON that no HTML parser can misread, arrays as base64."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

_KINDS: dict[str, np.dtype[Any]] = {"f": np.dtype("<f4"), "i": np.dtype("<i4"), "u": np.dtype("u1")}

# `</script>`, `<!--` and `]]>` cannot occur once these three are escaped; ensure_ascii takes care of U+2028 and of
# lone surrogates, which UTF-8 could not hold.
_ESCAPES = (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026"))


def to_json(value: Any) -> str:
    """Compact JSON that is safe inside a <script> element.

    >>> to_json({"name": "</script>"})
    '{"name":"\\\\u003c/script\\\\u003e"}'
    """
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    for sign, escape in _ESCAPES:  # quicker than `translate` over megabytes
        text = text.replace(sign, escape)
    return text


def number(value: float | None, digits: int = 6) -> float | None:
    """A float with as many digits as a page can use; None for NaN, which JSON does not have."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{digits}g}")


def packed(values: np.ndarray[Any, Any], kind: str) -> dict[str, Any]:
    """An array as little-endian base64: `f` float32, `i` int32, `u` uint8. NaN stays NaN."""
    data = np.ascontiguousarray(values, dtype=_KINDS[kind])
    return {"kind": kind, "shape": list(data.shape), "data": base64.b64encode(data.tobytes()).decode()}


def coded(values: Sequence[str | None]) -> dict[str, Any]:
    """A column of repeated strings: distinct values in order of appearance and one code per row, -1 where missing."""
    known: dict[str, int] = {}
    codes = [-1 if value is None else known.setdefault(value, len(known)) for value in values]
    return {"values": list(known), "codes": packed(np.array(codes, dtype=np.int32), "i")}
