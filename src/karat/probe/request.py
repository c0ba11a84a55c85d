"""`Request`: what a trace shall record. Requests add up, so that explainers can share one pass. No torch here."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

PIXELS = "pixels"  # the input itself, where layer names are taken
WANTS = ("activations", "gradients", "attention", "attention_gradients", "heads", "head_gradients")


@dataclass(frozen=True)
class Request:
    """Dotted layer names per kind of recording.

    `relu` are rules by which gradients of the pixels shall be taken once more: "guided" lets back what is positive and
    meets a ReLU whose input was, "deconvnet" what is positive.
    """

    activations: frozenset[str] = frozenset()
    gradients: frozenset[str] = frozenset()
    attention: frozenset[str] = frozenset()
    attention_gradients: frozenset[str] = frozenset()
    heads: frozenset[str] = frozenset()
    head_gradients: frozenset[str] = frozenset()
    relu: frozenset[str] = frozenset()

    @staticmethod
    def of(
        roles: Mapping[str, str], layers: Sequence[str], want: Collection[str], attention_layers: Sequence[str]
    ) -> Request:
        """`layers` may be roles; `want` says what is recorded of `layers` and of `attention_layers`."""
        inner = frozenset(roles.get(layer, layer) for layer in layers)
        heads = frozenset(roles.get(layer, layer) for layer in attention_layers)
        nothing: frozenset[str] = frozenset()
        return Request(
            inner if "activations" in want else nothing,
            inner if "gradients" in want else nothing,
            heads if "attention" in want else nothing,
            heads if "attention_gradients" in want else nothing,
            heads if "heads" in want or "head_gradients" in want else nothing,
            heads if "head_gradients" in want else nothing,
        )

    def __or__(self, other: Request) -> Request:
        return Request(
            self.activations | other.activations,
            self.gradients | other.gradients,
            self.attention | other.attention,
            self.attention_gradients | other.attention_gradients,
            self.heads | other.heads,
            self.head_gradients | other.head_gradients,
            self.relu | other.relu,
        )

    def __le__(self, other: Request) -> bool:
        """Whether everything asked for here is asked for there."""
        return (
            self.activations <= other.activations
            and self.gradients <= other.gradients
            and self.attention <= other.attention
            and self.attention_gradients <= other.attention_gradients
            and self.heads <= other.heads
            and self.head_gradients <= other.head_gradients
            and self.relu <= other.relu
        )
