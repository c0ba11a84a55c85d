"""What absence does to the twins: a table of docs/tutorials/grid.md, from the record beside their weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from record_tables import markdown

from karat.kernel.empty import EMPTY
from karat.models import recipe
from karat.models.weights.absence import broken_states, kept_answers

TWINS = ("gridnet.pure", "gridnet.spur", "gridvlm.pure", "gridvlm.spur")


def kept() -> str:
    """What hidden cells look like, and what that does to the twins; bold is a state that breaks one."""
    body = []
    for twin in TWINS:
        revision = recipe(twin).revision
        broken, shares = broken_states(twin, revision), kept_answers(twin, revision)
        cells = []
        for state in EMPTY:
            share = shares[state]
            text = f"{share.value:.1%} ({share.low:.1%} to {share.high:.1%})"
            cells.append(f"**{text}**" if state in broken else text)
        body.append((twin, str(shares[EMPTY[0]].n), *cells))
    return markdown(("twin", "samples", *EMPTY), body)


TABLES: Mapping[str, Callable[[], str]] = {"grid/kept": kept}
