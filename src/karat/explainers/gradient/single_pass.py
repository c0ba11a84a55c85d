"""Gradients that one forward and one backward pass give: of the input, past ReLUs by other rules, and of biases.

A formula of the input and its gradient is one entry: a card and `reduce`. All of them share the session's trace.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from karat.explainers.to_attribution import WORDS, at_text, attributions, reads_text, wide
from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.constraints import checked
from karat.kernel.errors import BadInput
from karat.models.torch_model import TorchModel
from karat.probe.request import PIXELS, Request
from karat.probe.session import Session

if TYPE_CHECKING:
    from torch import Tensor, nn

Channels = Literal["sum", "max", "norm"]
_card = partial(Card, kind="explainer", needs=frozenset({"gradients"}), passes="1", extra="vision")
_with_words = partial(_card, gives=frozenset({"visual", "words"}))
_of_image = partial(_card, gives=frozenset({"visual"}))


class InputGradient:
    """A formula of the pixels, the word embeddings and the gradients of the answer's raw score y there.

    Called with a `Session` of n samples it returns n attributions: a map of pixels and, for a model that reads text,
    one score per word.
    """

    passes: ClassVar[int] = 1

    @property
    def signed(self) -> bool:
        return True

    def reduce(self, values: Tensor, gradients: Tensor, axis: int) -> Tensor:
        """One number per place, `axis` reduced: of pixels (n, 3, H, W), then of embeddings (n, T, width)."""
        raise NotImplementedError

    def traces(self, model: TorchModel) -> Request:
        return Request.of(model.layers, input_layers(model), ("activations", "gradients"), ())

    def __call__(self, session: Session) -> list[Attribution]:
        trace = session.trace(input_layers(session.torch_model))
        maps = self.reduce(wide(trace.activations[PIXELS]), wide(trace.gradients[PIXELS]), 1)
        tokens = None
        if reads_text(session.torch_model):
            values, gradients = at_text(session, trace.activations[WORDS]), at_text(session, trace.gradients[WORDS])
            if values is not None and gradients is not None:
                tokens = self.reduce(wide(values), wide(gradients), 2)
        return attributions(session, maps, tokens, space="pixel", signed=self.signed)


@dataclass(frozen=True)
@checked
class Gradient(InputGradient):
    """dy/dx, where y is the raw score of the answer. `channels`: "sum" keeps the sign, "max" is Simonyan's map."""

    channels: Channels = "sum"
    card: ClassVar[Card] = _with_words(
        "gradient/gradient",
        "where a small change of the input would change the answer's score most",
        citation="Simonyan et al. 2014, Deep inside convolutional networks",
        departures='channels are added, sign kept; channels="max" is the largest absolute value, as published',
    )

    @property
    def signed(self) -> bool:
        return self.channels == "sum"

    def reduce(self, values: Tensor, gradients: Tensor, axis: int) -> Tensor:
        return one_number(gradients, axis, self.channels)


@dataclass(frozen=True)
class GradientNorm(InputGradient):
    """|dy/dx|, the Euclidean norm over the channels of a pixel and over the width of a word embedding."""

    card: ClassVar[Card] = _with_words(
        "gradient/gradient_norm",
        "how strongly the answer's score reacts at each place, whatever the direction",
        citation="creg2026, section 3.2",
        departures="at the pixels; the paper does not say of what the norm is taken",
    )

    @property
    def signed(self) -> bool:
        return False

    def reduce(self, values: Tensor, gradients: Tensor, axis: int) -> Tensor:
        return one_number(gradients, axis, "norm")


@dataclass(frozen=True)
class InputXGradient(InputGradient):
    """x · dy/dx, added over channels: exact for a linear model without bias. x is what the model gets, normalised."""

    card: ClassVar[Card] = _with_words(
        "gradient/input_x_gradient",
        "input times gradient: the share of a linearised answer that each place brings",
        citation="Shrikumar et al. 2016, Not just a black box; fsyn2026, A.2",
    )

    def reduce(self, values: Tensor, gradients: Tensor, axis: int) -> Tensor:
        return (values * gradients).sum(axis)


def input_layers(model: TorchModel) -> tuple[str, ...]:
    """The pixels, and the word embeddings of a model that reads text."""
    return (PIXELS, WORDS) if reads_text(model) else (PIXELS,)


def one_number(gradients: Tensor, axis: int, channels: Channels) -> Tensor:
    """Channels to one number: their sum (sign kept), the largest absolute value, or the Euclidean norm."""
    if channels == "sum":
        return gradients.sum(axis)
    if channels == "max":
        return gradients.abs().amax(axis)
    return gradients.norm(dim=axis)


# ---- other rules at ReLUs


class ReluRule:
    """Gradients at the pixels that pass ReLUs by the rule `relu` of `karat.probe.relu_rules`."""

    relu: ClassVar[str]
    passes: ClassVar[int] = 1

    def traces(self, model: TorchModel) -> Request:
        return Request(relu=frozenset({self.relu}))

    def explain(self, session: Session, channels: Channels, require_relu: bool = True) -> list[Attribution]:
        from karat.probe.relu_rules import PLAIN

        gradients = session.traced(Request(relu=frozenset({self.relu}))).relu_gradients
        if require_relu and self.relu not in gradients:
            raise BadInput(
                "this model has no ReLU, so guided backpropagation and the deconvnet do not differ from the gradient; "
                "use gradient/gradient."
            )
        maps = one_number(wide(gradients[self.relu if self.relu in gradients else PLAIN]), 1, channels)
        return attributions(session, maps, space="pixel", signed=channels == "sum")


@dataclass(frozen=True)
@checked
class GuidedBackprop(ReluRule):
    """At a ReLU only positive gradients pass, and only where its input was positive.

    A model without ReLUs is refused, since nothing would differ from the gradient; `require_relu=False` gives just
    that, as captum does (pixelrules2024 has such columns for ViTs). `channels` as for `Gradient`.
    """

    channels: Channels = "sum"
    require_relu: bool = True
    relu: ClassVar[str] = "guided"
    card: ClassVar[Card] = _of_image(
        "gradient/guided_backprop",
        "gradients without what speaks against: sharp, and nearly blind to the answer",
        citation="Springenberg et al. 2015, Striving for simplicity; Adebayo et al. 2018 on its blindness",
    )

    def __call__(self, session: Session) -> list[Attribution]:
        return self.explain(session, self.channels, self.require_relu)


@dataclass(frozen=True)
@checked
class Deconvnet(ReluRule):
    """At a ReLU only positive gradients pass, whatever its input was. `channels` as for `Gradient`."""

    channels: Channels = "sum"
    relu: ClassVar[str] = "deconvnet"
    card: ClassVar[Card] = _of_image(
        "gradient/deconvnet",
        "the network run backwards: ReLUs applied to what comes back",
        citation="Zeiler and Fergus 2014, Visualizing and understanding convolutional networks",
    )

    def __call__(self, session: Session) -> list[Attribution]:
        return self.explain(session, self.channels)


# ---- input and biases


@dataclass(frozen=True)
class FullGrad:
    """Σ over channels of rescale(|x · dy/dx|), plus the same of bias · dy/d(output) of every layer that has a bias.

    Layers are convolutions with a bias and batch norms, whose mean acts as one. It was made for CNNs: of a transformer
    little but the input term is left (as in semscore2025's table of CLIPs).
    """

    passes: ClassVar[int] = 1
    card: ClassVar[Card] = _of_image(
        "gradient/fullgrad",
        "input gradients and bias gradients of every layer in one map (made for CNNs)",
        needs=frozenset({"gradients", "activations"}),
        citation="Srinivas and Fleuret 2019, Full-gradient representation",
        departures="channels are added before they are resized, which gives the same and costs less",
    )

    def traces(self, model: TorchModel) -> Request:
        return Request(gradients=frozenset({PIXELS, *biases(model.module)}))

    def __call__(self, session: Session) -> list[Attribution]:
        from torch.nn import functional

        by_layer = biases(session.torch_model.module)
        trace = session.trace((PIXELS, *by_layer), want=("gradients",))
        pixels = wide(session.inputs.pixels)
        maps = rescaled_sum(pixels * wide(trace.gradients[PIXELS]))
        for name, bias in by_layer.items():
            part = rescaled_sum(wide(bias)[None, :, None, None] * wide(trace.gradients[name]))
            maps = maps + functional.interpolate(part[:, None], pixels.shape[-2:], mode="bilinear")[:, 0]
        return attributions(session, maps, space="pixel")


def biases(module: nn.Module) -> dict[str, Tensor]:
    """What every convolution and batch norm adds to its output, per channel, by dotted name.

    Subclasses that fuse more into their output (timm's norm with activation) are not among them.
    """
    from torch import nn

    by_layer: dict[str, Tensor] = {}
    for name, part in module.named_modules():
        if type(part) is nn.Conv2d and part.bias is not None:
            by_layer[name] = part.bias.detach()
        elif type(part) is nn.BatchNorm2d and part.bias is not None and part.running_mean is not None:
            norm: Any = part
            mean = norm.running_mean * norm.weight / (norm.running_var + norm.eps).sqrt()
            by_layer[name] = (norm.bias - mean).detach()
    return by_layer


def rescaled_sum(parts: Tensor) -> Tensor:
    """(n, c, h, w) to (n, h, w): absolute values, each channel scaled to [0, 1], then added."""
    size = parts.abs()
    size = size - size.amin((2, 3), keepdim=True)
    return (size / (size.amax((2, 3), keepdim=True) + 1e-7)).sum(1)
