"""Guided backpropagation and the deconvnet: gradients that pass ReLUs by other rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from karat.explainers.gradient.looking import Channels, one_number
from karat.explainers.placing import attributions, wide
from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.errors import BadInput
from karat.models.torch_model import TorchModel
from karat.probe.request import Request
from karat.probe.session import Session

_NEEDS, _IMAGE = frozenset({"gradients"}), frozenset({"visual"})


@dataclass(frozen=True)
class GuidedBackprop:
    """At a ReLU only positive gradients pass, and only where its input was positive.

    A model without ReLUs is refused, since nothing would differ from the gradient; `require_relu=False` gives just
    that, as captum does (pixelrules2024 has such columns for ViTs).
    """

    channels: Channels = "sum"
    require_relu: bool = True
    passes: ClassVar[int] = 1
    card: ClassVar[Card] = Card(
        "gradient/guided_backprop",
        "gradients without what speaks against: sharp, and nearly blind to the answer",
        "explainer",
        needs=_NEEDS,
        gives=_IMAGE,
        citation="Springenberg et al. 2015, Striving for simplicity; Adebayo et al. 2018 on its blindness",
        passes="1",
        extra="vision",
    )

    def traces(self, model: TorchModel) -> Request:
        return Request(relu=frozenset({"guided"}))

    def __call__(self, session: Session) -> list[Attribution]:
        return _explain(session, "guided", self.channels, self.require_relu)


@dataclass(frozen=True)
class Deconvnet:
    """At a ReLU only positive gradients pass, whatever its input was."""

    channels: Channels = "sum"
    passes: ClassVar[int] = 1
    card: ClassVar[Card] = Card(
        "gradient/deconvnet",
        "the network run backwards: ReLUs applied to what comes back",
        "explainer",
        needs=_NEEDS,
        gives=_IMAGE,
        citation="Zeiler and Fergus 2014, Visualizing and understanding convolutional networks",
        passes="1",
        extra="vision",
    )

    def traces(self, model: TorchModel) -> Request:
        return Request(relu=frozenset({"deconvnet"}))

    def __call__(self, session: Session) -> list[Attribution]:
        return _explain(session, "deconvnet", self.channels, True)


def _explain(session: Session, rule: str, channels: Channels, require_relu: bool) -> list[Attribution]:
    from karat.probe.relu_rules import PLAIN

    found = session.traced(Request(relu=frozenset({rule}))).relu_gradients
    if require_relu and rule not in found:
        raise BadInput(
            "this model has no ReLU, so guided backpropagation and the deconvnet do not differ from the gradient; "
            "use gradient/gradient."
        )
    maps = one_number(wide(found[rule if rule in found else PLAIN]), 1, channels)
    return attributions(session, maps, space="pixel", signed=channels == "sum")
