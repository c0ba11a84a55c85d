"""AblationCAM: each channel is judged by how much the score falls without it. No gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from karat.explainers.cam.looking import layer_request, named, together
from karat.explainers.placing import attributions, wide
from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.errors import BadInput
from karat.models.torch_model import TorchModel
from karat.probe.request import Request
from karat.probe.session import Session

Variant = Literal["paper", "released"]


@dataclass(frozen=True)
class AblationCam:
    """ReLU(Σ_c w_c A_c), w_c = (y - y without channel c) / y.

    With `ratio` < 1 only the channels that lie most, and those that lie least, on what stands out are asked about, that
    share of each; the others weigh nothing (semscore2025 takes .02). `variant`: in the paper an absent channel is 0;
    in pytorch-grad-cam, which semscore2025 uses, it is 1e7 or more below the smallest activation, unless that is 0.
    """

    layer: str = "vision.last"
    ratio: float = 1.0
    variant: Variant = "paper"
    eigen_smooth: bool = False
    batch_size: int = 64
    passes: ClassVar[int] = 512  # as many as the layer has channels; the exact number is in `Attribution.passes`
    card: ClassVar[Card] = Card(
        "cam/ablationcam",
        "activations of one layer, each channel weighted by the fall of the score without it",
        "explainer",
        needs=frozenset({"activations"}),
        gives=frozenset({"visual"}),
        citation="Desai and Ramaswamy 2020, Ablation-CAM",
        departures='an absent channel is 0; variant="released" is as in pytorch-grad-cam',
        passes="channels",
        extra="vision",
    )

    def traces(self, model: TorchModel) -> Request:
        return layer_request(model, self.layer, gradients=False)

    def __call__(self, session: Session) -> list[Attribution]:
        from karat.explainers.cam.ablate import falls

        if not 0 < self.ratio <= 1:
            raise BadInput(f"{self.card.name}: ratio must be above 0 and at most 1; got {self.ratio}.")
        layer = named(session.torch_model, self.layer)
        seen = session.trace((layer,), want=("activations",))
        activations = wide(seen.spatial(layer))
        weights, asked = falls(session, seen, layer, self.ratio, self.variant == "released", self.batch_size)
        maps = together(weights[..., None, None] * activations, self.eigen_smooth)
        return attributions(session, maps, passes=1 + asked / max(len(session.samples), 1))
