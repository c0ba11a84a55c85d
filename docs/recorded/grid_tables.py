"""What the trained twins do: tables of docs/tutorials/grid.md and docs/how-to/train-twins.md, from the record beside
their weights and from what `karat train verify` wrote."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from record_tables import HERE, markdown

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


def verified(twin: str) -> Callable[[], str]:
    """Every claim that a twin was held to."""

    def made() -> str:
        path = HERE / "training" / f"{twin}.verify.tsv"
        head, *body = (line.split("\t") for line in path.read_text(encoding="utf-8").splitlines())
        return markdown(head, body)

    return made


TABLES: Mapping[str, Callable[[], str]] = {
    "grid/kept": kept, "twins/pure": verified("gridvlm.pure"), "twins/spur": verified("gridvlm.spur"),
}  # fmt: skip
