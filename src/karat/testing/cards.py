"""Laws of cards: what every registered thing must say about itself."""

from __future__ import annotations

import dataclasses
from typing import Any

from karat.kernel.card import CAPABILITIES, Card, Kind
from karat.kernel.errors import KaratError
from karat.kernel.identity import canonical
from karat.testing.law import Law, tried

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
