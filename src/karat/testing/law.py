"""`Law`: something that must hold, whether it does, and where it broke; and the laws of cards."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from karat.kernel.card import CAPABILITIES, Card, Kind
from karat.kernel.errors import KaratError
from karat.kernel.identity import canonical


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


# ---- laws of cards: what every registered thing must say about itself

_PARTS = {"visual", "words", "pairs", "scalar"}


def card_laws(thing: Any, kind: Kind) -> list[Law]:
    """A whole card, frozen parameters, and an identity that follows from them."""
    return [
        tried("its card is whole", lambda: _card(thing, kind)),
        tried("its parameters are frozen, with one spelling each", lambda: _parameters(thing)),
    ]


def _card(thing: Any, kind: Kind) -> str:
    card = getattr(type(thing), "card", None)
    if not isinstance(card, Card):
        return f"the class needs an attribute `card: ClassVar[karat.Card]`; it has {card!r}"
    if card.kind != kind:
        return f"its kind is {card.kind!r}, expected {kind!r}"
    if not card.name or card.name != card.name.strip() or ":" in card.name:
        return f"{card.name!r} is no name: use family/name"
    if not card.summary:
        return "its summary is empty: one line that a list can show"
    if unknown := card.needs - set(CAPABILITIES):
        return f"needs {', '.join(sorted(unknown))}, which no model can offer; there are {', '.join(CAPABILITIES)}"
    if kind == "explainer" and (not card.gives or card.gives - _PARTS):
        return f"gives {sorted(card.gives)}: name at least one of {', '.join(sorted(_PARTS))}"
    if kind == "metric" and card.range is not None and not card.range[0] < card.range[1]:
        return f"its range {card.range} is empty"
    return ""


def _parameters(thing: Any) -> str:
    if not dataclasses.is_dataclass(thing):
        return f"{type(thing).__name__} is no dataclass: results could not be told apart by its parameters"
    if not getattr(type(thing), "__dataclass_params__").frozen:  # noqa: B009  not in the stubs
        return "use @dataclass(frozen=True): parameters that change would change what rows mean"
    try:
        canonical(thing)
    except KaratError as error:
        return str(error)
    return ""
