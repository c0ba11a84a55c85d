"""Attention by itself: where the answer's position looks, in one layer or through all of them. Blind to the answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from karat.explainers.attention.reading import check_finite, heads_request, look, placed, present, sequence, speakers
from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.errors import BadInput
from karat.models.targets import explained_positions
from karat.models.torch_model import TorchModel
from karat.probe.request import Request
from karat.probe.session import Session

if TYPE_CHECKING:
    from karat.explainers.attention.rolling import Discard

NEEDS, BOTH = frozenset({"attention"}), frozenset({"visual", "words"})
Fusion = Literal["mean", "max", "min"]
Variant = Literal["paper", "released"]


@dataclass(frozen=True)
class Raw:
    """The answer's row of one layer's attention, heads fused. `layer` counts from the end if negative."""

    layer: int = -1
    fusion: Fusion = "mean"
    passes: ClassVar[int] = 1
    card: ClassVar[Card] = Card(
        "attention/raw",
        "where the answer's position looks in one layer",
        "explainer",
        needs=NEEDS,
        gives=BOTH,
        citation="Vaswani et al. 2017, Attention is all you need",
        passes="1",
        extra="vision",
    )

    def traces(self, model: TorchModel) -> Request:
        return heads_request(model, gradients=False)

    def __call__(self, session: Session) -> list[Attribution]:
        from karat.explainers.attention.rolling import plain, read

        heads = look(session, self.card.name, gradients=False)
        if not -len(heads) <= self.layer < len(heads):
            raise BadInput(f"{self.card.name}: {session.model.name!r} has {len(heads)} layers; got {self.layer}.")
        layer = list(heads.values())[self.layer]
        row = read(layer, speakers(session, self.card.name, layer), plain(self.fusion))
        check_finite(self.card.name, row, heads)
        return placed(session, self.card.name, row)


@dataclass(frozen=True)
class Rollout:
    """The product over layers of (W + I) / 2, W the attention with heads fused; other fusions are divided by row sums.

    `discard_ratio` drops the lowest pairs of each layer first (the answer's look at itself is spared).
    semscore2025 has fusion="max", discard_ratio=0.9, variant="released": row sums divide columns there.
    """

    fusion: Fusion = "mean"
    discard_ratio: float = 0.0
    variant: Variant = "paper"
    passes: ClassVar[int] = 1
    card: ClassVar[Card] = Card(
        "attention/rollout",
        "where the answer's position looks, through all layers and residual connections",
        "explainer",
        needs=NEEDS,
        gives=BOTH,
        citation="Abnar and Zuidema 2020, Quantifying attention flow in transformers",
        departures="discard ratio and other fusions than the mean are vit-explain's",
        passes="1",
        extra="vision",
    )

    def __post_init__(self) -> None:
        check_ratio(self.card.name, self.discard_ratio)

    def traces(self, model: TorchModel) -> Request:
        return heads_request(model, gradients=False)

    def __call__(self, session: Session) -> list[Attribution]:
        from karat.explainers.attention.rolling import discarding, plain, shares

        heads = look(session, self.card.name, gradients=False)
        layers, fuse = list(heads.values()), plain(self.fusion)
        row = speakers(session, self.card.name, layers[-1])
        if self.discard_ratio == 0 and self.variant == "paper":
            row = shares(layers, row, fuse)
        else:
            drop = discard(session, self.card.name, self.discard_ratio, layers[-1].queries)
            row = discarding(layers, row, fuse, drop, self.variant == "released")
        check_finite(self.card.name, row, heads)
        return placed(session, self.card.name, row)


def discard(session: Session, name: str, ratio: float, length: int) -> Discard:
    from karat.explainers.attention.rolling import Discard

    layout, _ = sequence(session, name)
    guards = None
    if layout.readout is not None:
        guards = [positions.start for positions in explained_positions(session.model, layout, session.targets)]
    return Discard(ratio, present(session, length), guards)


def check_ratio(name: str, ratio: float) -> None:
    if not 0 <= ratio < 1:
        raise BadInput(f"{name}: discard_ratio is a share from 0 to below 1; got {ratio}.")
