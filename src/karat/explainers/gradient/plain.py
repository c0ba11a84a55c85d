"""Gradients of the answer's raw score with respect to the input: one forward, one backward, shared by all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from karat.explainers.gradient.looking import Channels, at_input, input_request, one_number
from karat.explainers.placing import attributions
from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.models.torch_model import TorchModel
from karat.probe.request import Request
from karat.probe.session import Session

_NEEDS, _BOTH = frozenset({"gradients"}), frozenset({"visual", "words"})


@dataclass(frozen=True)
class Gradient:
    """dy/dx, where y is the raw score of the answer. `channels`: "sum" keeps the sign, "max" is Simonyan's map."""

    channels: Channels = "sum"
    passes: ClassVar[int] = 1
    card: ClassVar[Card] = Card(
        "gradient/gradient",
        "where a small change of the input would change the answer's score most",
        "explainer",
        needs=_NEEDS,
        gives=_BOTH,
        citation="Simonyan et al. 2014, Deep inside convolutional networks",
        departures='channels are added, sign kept; channels="max" is the largest absolute value, as published',
        passes="1",
        extra="vision",
    )

    def traces(self, model: TorchModel) -> Request:
        return input_request(model)

    def __call__(self, session: Session) -> list[Attribution]:
        maps, tokens = at_input(session, lambda _, gradients, axis: one_number(gradients, axis, self.channels))
        return attributions(session, maps, tokens, space="pixel", signed=self.channels == "sum")


@dataclass(frozen=True)
class GradientNorm:
    """|dy/dx|, the Euclidean norm over the channels of a pixel and over the width of a word embedding."""

    passes: ClassVar[int] = 1
    card: ClassVar[Card] = Card(
        "gradient/gradient_norm",
        "how strongly the answer's score reacts at each place, whatever the direction",
        "explainer",
        needs=_NEEDS,
        gives=_BOTH,
        citation="creg2026, section 3.2",
        departures="at the pixels; the paper does not say of what the norm is taken",
        passes="1",
        extra="vision",
    )

    def traces(self, model: TorchModel) -> Request:
        return input_request(model)

    def __call__(self, session: Session) -> list[Attribution]:
        maps, tokens = at_input(session, lambda _, gradients, axis: one_number(gradients, axis, "norm"))
        return attributions(session, maps, tokens, space="pixel")


@dataclass(frozen=True)
class InputXGradient:
    """x · dy/dx, added over channels: exact for a linear model without bias. x is what the model gets, normalised."""

    passes: ClassVar[int] = 1
    card: ClassVar[Card] = Card(
        "gradient/input_x_gradient",
        "input times gradient: the share of a linearised answer that each place brings",
        "explainer",
        needs=_NEEDS,
        gives=_BOTH,
        citation="Shrikumar et al. 2016, Not just a black box; fsyn2026, A.2",
        passes="1",
        extra="vision",
    )

    def traces(self, model: TorchModel) -> Request:
        return input_request(model)

    def __call__(self, session: Session) -> list[Attribution]:
        maps, tokens = at_input(session, lambda values, gradients, axis: (values * gradients).sum(axis))
        return attributions(session, maps, tokens, space="pixel", signed=True)
