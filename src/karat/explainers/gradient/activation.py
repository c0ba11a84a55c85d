"""Gradient times activation at inner layers: of one layer, and creg2026's contrastive form over several."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from karat.explainers.placing import at_text, attributions, in_sequence, wide
from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.errors import BadInput
from karat.models.torch_model import TorchModel
from karat.probe.request import Request
from karat.probe.session import Session

if TYPE_CHECKING:
    from torch import Tensor

_NEEDS = frozenset({"gradients", "activations"})
_BOTH = frozenset({"visual", "words"})
_ATTENTION = re.compile(r"att(entio)?n", re.IGNORECASE)


@dataclass(frozen=True)
class GradXAct:
    """Σ_d g_d · h_d at every token or cell of one layer. `layer` is a role ("vision.last") or a dotted name."""

    layer: str = "vision.last"
    passes: ClassVar[int] = 1
    card: ClassVar[Card] = Card(
        "gradient/grad_x_act",
        "gradient times activation at one layer",
        "explainer",
        needs=_NEEDS,
        gives=_BOTH,
        citation="creg2026 Eq. 7, one layer",
        departures="sign kept; the paper takes the absolute value",
        passes="1",
        extra="vision",
    )

    def traces(self, model: TorchModel) -> Request:
        return Request.of(model.layers, (self.layer,), ("activations", "gradients"), ())

    def __call__(self, session: Session) -> list[Attribution]:
        seen = session.trace((self.layer,))
        maps = wide(seen.spatial(self.layer)) * wide(seen.spatial(self.layer, "gradients"))
        tokens = None
        if in_sequence(session, seen, self.layer):
            tokens = at_text(session, wide(seen.activations[self.layer]) * wide(seen.gradients[self.layer]))
        return attributions(session, maps.sum(1), None if tokens is None else tokens.sum(-1), signed=True)


@dataclass(frozen=True)
class ContrastiveGradXAct:
    """|Σ_d g_d · h_d| of the difference between the answer's score and its strongest rival's, over several layers.

    `layers` count hidden states from the end, as in transformers: -1 is the model's output, so -2 is the state after
    the last block but one. Those that a shallow model does not have are left out. `candidates` are the answers among
    which the rival is found; by default all that the model can give, where it has a list of them, else the choices of
    the sample.
    """

    layers: tuple[int, ...] = (-2, -3, -4, -5)
    candidates: tuple[str, ...] = ()
    card: ClassVar[Card] = Card(
        "gradient/contrastive_grad_x_act",
        "what speaks for the answer and against its strongest rival, over several layers",
        "explainer",
        needs=_NEEDS | {"attention"},
        gives=_BOTH,
        citation="creg2026 Eq. 7-9",
        departures="the layer weights of Eq. 8 come from visual tokens and serve words too: the paper has no words",
        passes="2 + candidates",
        extra="vision",
        version=2,
    )

    @property
    def passes(self) -> int:
        """Two traces, and the scores of the candidates: in one pass where the model tables all its answers."""
        return 2 + (len(self.candidates) or 1)

    def traces(self, model: TorchModel) -> Request:
        return Request.of(model.layers, self._names(model), ("activations", "gradients"), ())

    def __call__(self, session: Session) -> list[Attribution]:
        from karat.explainers.gradient.rivals import rivals

        names = self._names(session.torch_model)
        # The prompt's hidden states do not depend on the answer, so ∇(z_tgt - z_neg) is a difference of two gradients.
        others, asked = rivals(session, self.candidates)
        against = session.trace(names, targets=others)
        seen = session.trace(names)
        maps, tokens = [], []
        for name in names:
            slope = wide(seen.spatial(name, "gradients")) - wide(against.spatial(name, "gradients"))
            maps.append((slope * wide(seen.spatial(name))).sum(1).abs())  # creg2026 Eq. 7
            state = at_text(session, seen.activations[name])
            for_it, for_rival = at_text(session, seen.gradients[name]), at_text(session, against.gradients[name])
            if state is not None and for_it is not None and for_rival is not None:
                tokens.append(((wide(for_it) - wide(for_rival)) * wide(state)).sum(-1).abs())
        return attributions(session, *_weighted(maps, tokens), passes=2 + asked)

    def _names(self, model: TorchModel) -> list[str]:
        blocks = block_names(model)
        names = [blocks[k] for k in self.layers if -len(blocks) <= k < -1]
        if not names:
            raise BadInput(
                f"{self.card.name}: of the hidden states {self.layers}, {model.name!r} has none; it has {len(blocks)} "
                f"blocks, so give layers from -2 to -{len(blocks)}."
            )
        return names


def block_names(model: TorchModel) -> list[str]:
    """The blocks around the attention layers, first to last: their outputs are the hidden states."""
    names = []
    for layer in model.attention_layers:
        parts = layer.split(".")
        while parts and _ATTENTION.search(parts[-1]):
            parts.pop()
        names.append(".".join(parts) or layer)
    return names


def _weighted(maps: Sequence[Tensor], tokens: Sequence[Tensor]) -> tuple[Tensor, Tensor | None]:
    """creg2026 Eq. 8: softmax over layers of the largest relevance of each."""
    import torch

    if len({tuple(each.shape) for each in maps}) > 1:
        sizes = ", ".join(f"{each.shape[1]}×{each.shape[2]}" for each in maps)
        raise BadInput(f"layers with grids of different sizes ({sizes}) cannot be added; name some of one size.")
    stacked = torch.stack(list(maps), 1)  # (n, layers, h, w)
    weights = stacked.amax((2, 3)).softmax(1)
    words = (torch.stack(list(tokens), 1) * weights[..., None]).sum(1) if tokens else None
    return (stacked * weights[..., None, None]).sum(1), words
