"""`Law`: something that must hold, whether it does, and where it broke."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Law:
    """`found` says what was compared, and where it broke."""

    name: str
    holds: bool
    found: str


class Broken(AssertionError):
    """Laws that do not hold, one line each. An AssertionError, so that test runners show it as a failed test."""


def tried(name: str, law: Callable[[], str]) -> Law:
    """Try a law: it returns what is wrong, "" for nothing. A law that cannot be tried does not hold."""
    try:
        broken = law()
    except Exception as error:
        broken = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    return Law(name, not broken, broken or "holds")


def demand(what: str, laws: Sequence[Law]) -> None:
    """Raise `Broken` with every law that does not hold."""
    broken = [law for law in laws if not law.holds]
    if broken:
        lines = "".join(f"\n  - {law.name}: {law.found}" for law in broken)
        raise Broken(f"{what} breaks {len(broken)} of {len(laws)} laws:{lines}")


def unlike(ours: npt.ArrayLike, theirs: npt.ArrayLike, within: float = 1e-5) -> str:
    """What differs between two arrays by more than `within` of the largest value, "" if nothing does."""
    one, other = np.asarray(ours, dtype=np.float64), np.asarray(theirs, dtype=np.float64)
    if one.shape != other.shape:
        return f"shape {one.shape} beside {other.shape}"
    if not one.size:
        return ""
    room = within * max(1.0, float(np.nanmax(np.abs(other), initial=0.0)))
    off = ~(np.isclose(one, other, rtol=0.0, atol=room, equal_nan=True))
    if not off.any():
        return ""
    at = tuple(int(k) for k in np.argwhere(off)[0])
    return f"{one[at]:.6g} beside {other[at]:.6g} at {at}, {int(off.sum())} of {off.size} values differ"
