"""Gradients at altered inputs, in batches of bounded size: what integrated and sampled gradients are made of."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from karat.explainers.exchange import exchanged
from karat.explainers.gradient.looking import input_layers
from karat.explainers.placing import WORDS, at_text, wide
from karat.kernel.errors import BadInput
from karat.probe import trace
from karat.probe.inputs import take
from karat.probe.request import PIXELS
from karat.probe.session import Session


@dataclass(frozen=True, eq=False)
class Points:
    """m altered inputs: pixels (m, 3, H, W) and, to alter the text too, embeddings (m, T, width) of its tokens."""

    pixels: Tensor
    words: Tensor | None = None


@dataclass(frozen=True, eq=False)
class Slopes:
    """Gradients at m points: `pixels` (m, 3, H, W) and, for a model with text, `words` (m, T, width)."""

    pixels: Tensor
    words: Tensor | None


# rows (m,) are sample numbers, steps (m,) the number of the point among the sample's own
Make = Callable[[Tensor, Tensor], Points]
Use = Callable[[Tensor, Tensor, Slopes], None]


def walk(session: Session, steps: int, batch_size: int, make: Make, use: Use) -> None:
    """Visit `steps` points of every sample, never more than `batch_size` at a time.

    Memory is that of one forward and backward over `batch_size` rows, however many steps and samples there are.
    """
    if steps < 1 or batch_size < 1:
        raise BadInput(f"steps and batch_size must be at least 1; got {steps} and {batch_size}.")
    total = len(session.samples) * steps
    for start in range(0, total, batch_size):
        flat = torch.arange(start, min(start + batch_size, total))
        rows, step = flat // steps, flat % steps
        use(rows, step, slopes(session, rows, make(rows, step)))


def slopes(session: Session, rows: Tensor, points: Points) -> Slopes:
    """One forward and backward at the points of the given samples."""
    model = session.torch_model
    inputs = replace(take(session.inputs, rows), pixels=points.pixels.to(session.inputs.pixels.dtype), reuse={})
    targets = [session.targets[row] for row in rows.tolist()]
    layers = input_layers(model)
    with ExitStack() as stack:
        if points.words is not None:
            stack.enter_context(_said(session, points.words))
        seen = stack.enter_context(trace(model, inputs, targets, layers, want=("gradients",)))
        pixels = wide(seen.gradients[PIXELS])
        words = at_text(session, seen.gradients[WORDS]) if WORDS in layers else None
    return Slopes(pixels, None if words is None else wide(words))


def _said(session: Session, words: Tensor) -> AbstractContextManager[None]:
    """Other embeddings at the places of the text; whatever else the sequence holds stays."""
    model = session.torch_model
    assert session.inputs.tokens is not None
    length = session.inputs.tokens.shape[1]

    def change(output: Tensor) -> Tensor:
        if output.shape[1] == length:
            return words.to(output.dtype)
        places = model.layout(session.inputs).text
        assert places is not None
        return output.index_copy(1, torch.tensor(places, device=output.device), words.to(output.dtype))

    return exchanged(model.module, model.layers[WORDS], change)
