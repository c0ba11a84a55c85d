"""DAAM: what each token gave to the answer's position in every block, weighted by what that was worth, added up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from karat.explainers.attention.plain import BOTH, Variant
from karat.explainers.attention.reading import check_finite, heads_request, look, placed, sequence, speakers
from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.models.torch_model import TorchModel
from karat.probe.request import Request
from karat.probe.session import Session

if TYPE_CHECKING:
    from torch import Tensor

    from karat.probe.attention import Heads


@dataclass(frozen=True)
class Daam:
    """Σ over blocks of ReLU(Σ_c w_c a_j v_jc): a the answer's attention, v the values of all heads side by side,
    w = ReLU(dy/dO) at the answer's position.

    `squash` is σ(5x / max) - 1/2, then min-max: on in the released class, off in its scripts and in semscore2025.
    variant="released" also rounds min-max maps to 256 levels, as the code does.
    """

    squash: bool = False
    variant: Variant = "paper"
    passes: ClassVar[int] = 1
    card: ClassVar[Card] = Card(
        "attention/daam",
        "what each token gave to the answer's position, block by block, weighted by its gradient",
        "explainer",
        needs=frozenset({"attention", "gradients"}),
        gives=BOTH,
        citation="Liao et al. 2024, Dynamic accumulated attention map; semscore2025",
        departures="words of models that read text are scored like patches",
        passes="1",
        extra="vision",
    )

    def traces(self, model: TorchModel) -> Request:
        return heads_request(model, gradients=True)

    def __call__(self, session: Session) -> list[Attribution]:
        heads = look(session, self.card.name, gradients=True)
        layers = list(heads.values())
        row = speakers(session, self.card.name, layers[-1])
        total = sum(_given(layer, row) for layer in layers[1:]) + _given(layers[0], row)
        check_finite(self.card.name, total, heads)
        visual = list(sequence(session, self.card.name)[1])
        if self.squash:
            highest = total[:, visual].amax(1, keepdim=True).clamp(min=1e-12)
            total = _spread((5 * total / highest).sigmoid() - 0.5, visual)
        if self.variant == "released":
            total = (_spread(total, visual) * 255).floor()
        return placed(session, self.card.name, total)


def _given(layer: Heads, row: Tensor) -> Tensor:
    """(n, K) ReLU(Σ_h a_j · w_h · v_jh), weighted over the answer's rows."""
    import torch

    rows = row.ne(0).any(0).nonzero()[:, 0]
    found = torch.zeros_like(row)
    assert layer.output_gradient is not None
    for some in layer.runs(rows):
        worth = layer.output_gradient[..., some, :].to(layer.values.dtype).clamp(min=0)  # (n, heads, rows, width)
        brought = (layer.weights(some) * (worth @ layer.values.transpose(-2, -1))).sum(1).clamp(min=0)
        found += (row[:, some, None] * brought).sum(1)
    return found


def _spread(row: Tensor, visual: list[int]) -> Tensor:
    """From 0 to 1 over the image of each sample."""
    low, high = row[:, visual].amin(1, keepdim=True), row[:, visual].amax(1, keepdim=True)
    return (row - low) / (high - low).clamp(min=1e-12)
