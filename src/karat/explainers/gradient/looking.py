"""What the single-pass gradients share: one trace of the input, and a way from channels to one number per place."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from karat.explainers.placing import WORDS, at_text, reads_text, wide
from karat.models.torch_model import TorchModel
from karat.probe.request import PIXELS, Request
from karat.probe.session import Session

if TYPE_CHECKING:
    from torch import Tensor

Channels = Literal["sum", "max", "norm"]


def input_layers(model: TorchModel) -> tuple[str, ...]:
    """The pixels, and the word embeddings of a model that reads text."""
    return (PIXELS, WORDS) if reads_text(model) else (PIXELS,)


def input_request(model: TorchModel) -> Request:
    return Request.of(model.layers, input_layers(model), ("activations", "gradients"), ())


def at_input(session: Session, reduce: Callable[[Tensor, Tensor, int], Tensor]) -> tuple[Tensor, Tensor | None]:
    """`reduce(values, gradients, channel axis)` at the pixels (n, 3, H, W) and at the text tokens (n, T, width).

    Gives (n, H, W) and (n, T), or None for a model without text. One forward and backward, shared.
    """
    seen = session.trace(input_layers(session.torch_model))
    maps = reduce(wide(seen.activations[PIXELS]), wide(seen.gradients[PIXELS]), 1)
    if not reads_text(session.torch_model):
        return maps, None
    values, gradients = at_text(session, seen.activations[WORDS]), at_text(session, seen.gradients[WORDS])
    if values is None or gradients is None:
        return maps, None
    return maps, reduce(wide(values), wide(gradients), 2)


def one_number(gradients: Tensor, axis: int, channels: Channels) -> Tensor:
    """Channels to one number: their sum (sign kept), the largest absolute value, or the Euclidean norm."""
    if channels == "sum":
        return gradients.sum(axis)
    if channels == "max":
        return gradients.abs().amax(axis)
    return gradients.norm(dim=axis)
