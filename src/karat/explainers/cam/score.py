"""ScoreCAM: each channel is judged by the score of the image seen through it. No gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from karat.explainers.cam.looking import layer_request, named, together
from karat.explainers.placing import attributions, wide
from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.models.torch_model import TorchModel
from karat.probe.request import Request
from karat.probe.session import Session


@dataclass(frozen=True)
class ScoreCam:
    """ReLU(Σ_c w_c A_c), w = softmax over channels of the raw score of pixels times the upsampled channel in [0, 1].

    Channels that are flat mask everything and are asked about once per sample.
    """

    layer: str = "vision.last"
    eigen_smooth: bool = False
    batch_size: int = 32
    passes: ClassVar[int] = 512  # as many as the layer has channels; the exact number is in `Attribution.passes`
    card: ClassVar[Card] = Card(
        "cam/scorecam",
        "activations of one layer, each channel weighted by the score of the image seen through it",
        "explainer",
        needs=frozenset({"activations"}),
        gives=frozenset({"visual"}),
        citation="Wang et al. 2020, Score-CAM",
        departures="the score of the empty image is not subtracted: the softmax cancels it",
        passes="channels",
        extra="vision",
    )

    def traces(self, model: TorchModel) -> Request:
        return layer_request(model, self.layer, gradients=False)

    def __call__(self, session: Session) -> list[Attribution]:
        from karat.explainers.cam.through import seen_through

        layer = named(session.torch_model, self.layer)
        activations = wide(session.trace((layer,), want=("activations",)).spatial(layer))
        scores, asked = seen_through(session, activations, self.batch_size)
        weights = scores.softmax(1)[..., None, None]
        maps = together(weights * activations, self.eigen_smooth)
        return attributions(session, maps, passes=1 + asked / max(len(session.samples), 1))
