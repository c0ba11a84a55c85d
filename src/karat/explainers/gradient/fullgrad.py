"""FullGrad: the answer's score as input-gradient plus bias-gradients, all of them drawn into one map."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from karat.explainers.placing import attributions, wide
from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.models.torch_model import TorchModel
from karat.probe.request import PIXELS, Request
from karat.probe.session import Session

if TYPE_CHECKING:
    from torch import Tensor, nn


@dataclass(frozen=True)
class FullGrad:
    """Σ over channels of rescale(|x · dy/dx|), plus the same of bias · dy/d(output) of every layer that has a bias.

    Layers are convolutions with a bias and batch norms, whose mean acts as one. It was made for CNNs: of a transformer
    little but the input term is left (as in semscore2025's table of CLIPs).
    """

    passes: ClassVar[int] = 1
    card: ClassVar[Card] = Card(
        "gradient/fullgrad",
        "input gradients and bias gradients of every layer in one map (made for CNNs)",
        "explainer",
        needs=frozenset({"gradients", "activations"}),
        gives=frozenset({"visual"}),
        citation="Srinivas and Fleuret 2019, Full-gradient representation",
        departures="channels are added before they are resized, which gives the same and costs less",
        passes="1",
        extra="vision",
    )

    def traces(self, model: TorchModel) -> Request:
        return Request(gradients=frozenset({PIXELS, *biases(model.module)}))

    def __call__(self, session: Session) -> list[Attribution]:
        from torch.nn import functional

        held = biases(session.torch_model.module)
        seen = session.trace((PIXELS, *held), want=("gradients",))
        pixels = wide(session.inputs.pixels)
        maps = rescaled_sum(pixels * wide(seen.gradients[PIXELS]))
        for name, bias in held.items():
            part = rescaled_sum(wide(bias)[None, :, None, None] * wide(seen.gradients[name]))
            maps = maps + functional.interpolate(part[:, None], pixels.shape[-2:], mode="bilinear")[:, 0]
        return attributions(session, maps, space="pixel")


def biases(module: nn.Module) -> dict[str, Tensor]:
    """What every convolution and batch norm adds to its output, per channel, by dotted name.

    Subclasses that fuse more into their output (timm's norm with activation) are not among them.
    """
    from torch import nn

    found: dict[str, Tensor] = {}
    for name, part in module.named_modules():
        if type(part) is nn.Conv2d and part.bias is not None:
            found[name] = part.bias.detach()
        elif type(part) is nn.BatchNorm2d and part.bias is not None and part.running_mean is not None:
            norm: Any = part
            found[name] = (norm.bias - norm.running_mean * norm.weight / (norm.running_var + norm.eps).sqrt()).detach()
    return found


def rescaled_sum(parts: Tensor) -> Tensor:
    """(n, c, h, w) to (n, h, w): absolute values, each channel scaled to [0, 1], then added."""
    size = parts.abs()
    size = size - size.amin((2, 3), keepdim=True)
    return (size / (size.amax((2, 3), keepdim=True) + 1e-7)).sum(1)
