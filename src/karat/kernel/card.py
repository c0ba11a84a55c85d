"""`Card`: what a registered thing says about itself. Every list and every compatibility check is derived from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

Direction = Literal["higher", "lower", "none"]
Kind = Literal["dataset", "model", "explainer", "metric", "protocol"]
Drawing = Literal["curve", "compass"]

CAPABILITIES = {
    "scores": "probability of an answer",
    "gradients": "a torch module that can be differentiated",
    "attention": "attention maps",
    "activations": "named inner layers",
    "autoregressive": "answers token by token",
    "boxes": "predicts boxes",
    "text": "reads a question",
    "mechanism": "its way of reasoning is known",
}


@dataclass(frozen=True)
class Card:
    """`needs` are capabilities of the model (keys of CAPABILITIES); floor and ceiling say what scores them."""

    name: str
    summary: str
    kind: Kind
    version: int = 1
    needs: frozenset[str] = frozenset()
    gives: frozenset[str] = frozenset()  # parts of an Attribution an explainer defines: visual, words, pairs, scalar
    direction: Direction = "none"
    range: tuple[float, float] | None = None
    floor: str = ""
    ceiling: str = ""
    citation: str = ""
    paper: str = ""  # of a protocol: the number of the paper that it can set a run beside
    departures: str = ""
    passes: str = ""  # forward passes a sample costs, e.g. "1", "steps", "budget"
    extra: str = ""  # the pip extra it needs
    draws: tuple[tuple[str, Drawing], ...] = ()  # of a score: which of its details a page draws, and how

    @property
    def family(self) -> str:
        """What stands before the slash of a registered name: `cam` of `cam/gradcam`."""
        return self.name.partition("/")[0]

    @property
    def is_control(self) -> bool:
        """Whether an explainer is no method but something to read methods against: noise, a flat map, the truth."""
        return self.kind == "explainer" and self.family == "control"


class Carded(Protocol):
    """Anything that carries a card and is a frozen dataclass."""

    card: ClassVar[Card]
    __dataclass_fields__: ClassVar[dict[str, Any]]
