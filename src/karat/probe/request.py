"""`Request`: what a trace shall record. Requests add up, so that explainers can share one pass. No torch here."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
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
        return Request(*(mine | theirs for mine, theirs in self._beside(other)))

    def __le__(self, other: Request) -> bool:
        """Whether everything asked for here is asked for there."""
        return all(mine <= theirs for mine, theirs in self._beside(other))

    def _beside(self, other: Request) -> Iterable[tuple[frozenset[str], frozenset[str]]]:
        return zip(vars(self).values(), vars(other).values(), strict=True)
