"""Attention weighted by its gradient: what the answer's position looks at and what its score depends on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from karat.explainers.attention.plain import BOTH, Variant, check_ratio, discard
from karat.explainers.attention.reading import check_finite, heads_request, look, placed, speakers
from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.errors import BadInput
from karat.models.torch_model import TorchModel
from karat.probe.request import Request
from karat.probe.session import Session

_NEEDS = frozenset({"attention", "gradients"})


@dataclass(frozen=True)
class GradRollout:
    """The product over layers of I + E_h (A ∘ dy/dA)^+.

    creg2026 calls it Transformer Attribution, fsyn2026 Grad×Rollout.
    On one sequence this is attention/generic by another road. `normalise` divides rows by their sum in every layer, as
    rollout does and as Chefer et al.'s code for BERT does.
    """

    normalise: bool = False
    passes: ClassVar[int] = 1
    card: ClassVar[Card] = Card(
        "attention/grad_rollout",
        "rollout of attention weighted by its positive gradient",
        "explainer",
        needs=_NEEDS,
        gives=BOTH,
        citation="Chefer et al. 2021, Transformer interpretability beyond attention visualization, Eq. 13; creg2026",
        departures="attention stands where Chefer et al. have its LRP relevance, as creg2026 and fsyn2026 have it",
        passes="1",
        extra="vision",
    )

    def traces(self, model: TorchModel) -> Request:
        return heads_request(model, gradients=True)

    def __call__(self, session: Session) -> list[Attribution]:
        from karat.explainers.attention.rolling import positive_then_mean, shares, sums

        heads = look(session, self.card.name, gradients=True)
        layers = list(heads.values())
        row = speakers(session, self.card.name, layers[-1])
        row = (shares if self.normalise else sums)(layers, row, positive_then_mean)
        check_finite(self.card.name, row, heads)
        return placed(session, self.card.name, row)


@dataclass(frozen=True)
class Generic:
    """R <- R + E_h (A ∘ dy/dA)^+ R, read at the answer's row: the rule for one sequence, decoders included.

    `start_layer` is the first layer taken in; negative counts from the end (the released CLIP demo has -1: the last
    layer only). Two streams with co-attention: `karat.explainers.attention.bimodal`.
    """

    start_layer: int = 0
    passes: ClassVar[int] = 1
    card: ClassVar[Card] = Card(
        "attention/generic",
        "relevance carried back through attention weighted by its positive gradient",
        "explainer",
        needs=_NEEDS,
        gives=BOTH,
        citation="Chefer et al. 2021, Generic attention-model explainability, Eq. 5-6",
        passes="1",
        extra="vision",
    )

    def traces(self, model: TorchModel) -> Request:
        return heads_request(model, gradients=True)

    def __call__(self, session: Session) -> list[Attribution]:
        from karat.explainers.attention.rolling import positive_then_mean, sums

        heads = look(session, self.card.name, gradients=True)
        if not -len(heads) <= self.start_layer < len(heads):
            raise BadInput(f"{self.card.name}: {session.model.name!r} has {len(heads)} layers; got {self.start_layer}.")
        layers = list(heads.values())[self.start_layer :]
        row = sums(layers, speakers(session, self.card.name, layers[-1]), positive_then_mean)
        check_finite(self.card.name, row, heads)
        return placed(session, self.card.name, row)


@dataclass(frozen=True)
class Gar:
    """Gradient attention rollout: rollout of (E_h A ∘ dy/dA)^+ whose lowest pairs are dropped.

    variant="released" is vit-explain's code, which semscore2025 keeps: the gradients of the layers in reverse order,
    no guard, row sums that divide columns.
    """

    discard_ratio: float = 0.9
    variant: Variant = "paper"
    passes: ClassVar[int] = 1
    card: ClassVar[Card] = Card(
        "attention/gar",
        "rollout of attention times gradient, the weakest pairs dropped",
        "explainer",
        needs=_NEEDS,
        gives=BOTH,
        citation="Gildenblat 2020, vit-explain; semscore2025",
        departures='gradients in the order of the layers, rows divided by their sums; not so in variant="released"',
        passes="1",
        extra="vision",
    )

    def __post_init__(self) -> None:
        check_ratio(self.card.name, self.discard_ratio)

    def traces(self, model: TorchModel) -> Request:
        return heads_request(model, gradients=True)

    def __call__(self, session: Session) -> list[Attribution]:
        from dataclasses import replace

        from karat.explainers.attention.rolling import discarding, mean_then_positive

        heads = look(session, self.card.name, gradients=True)
        layers, released = list(heads.values()), self.variant == "released"
        if released and len({layer.count for layer in layers}) > 1:
            raise BadInput(
                f'{self.card.name}: variant="released" pairs each layer with the gradient of its mirror image; '
                f"the layers of {session.model.name!r} have different numbers of heads."
            )
        drop = discard(session, self.card.name, self.discard_ratio, layers[-1].queries)
        drop = replace(drop, guards=None) if released else drop
        row = speakers(session, self.card.name, layers[-1])
        row = discarding(layers, row, mean_then_positive, drop, released)
        check_finite(self.card.name, row, heads)
        return placed(session, self.card.name, row)
