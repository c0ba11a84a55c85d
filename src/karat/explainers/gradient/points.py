"""Gradients at altered inputs, in batches of bounded size: what integrated and sampled gradients are made of."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from karat.explainers.gradient.single_pass import input_layers
from karat.explainers.patched_forward import patched_forward
from karat.explainers.to_attribution import WORDS, at_text, wide
from karat.kernel.typing import Values
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
Ends = tuple[Tensor, Tensor | None]  # pixels (n, 3, H, W), embeddings (n, T, width)


def walk(session: Session, steps: int, batch_size: int, make: Make, use: Use) -> None:
    """Visit `steps` points of every sample, never more than `batch_size` at a time.

    Memory is that of one forward and backward over `batch_size` rows, however many steps and samples there are.
    """
    total = len(session.samples) * steps
    for start in range(0, total, batch_size):
        flat = torch.arange(start, min(start + batch_size, total))
        rows, step = flat // steps, flat % steps
        use(rows, step, slopes_at(session, rows, make(rows, step)))


def slopes_at(session: Session, rows: Tensor, points: Points) -> Slopes:
    """One forward and backward at the points of the given samples."""
    model = session.torch_model
    inputs = replace(take(session.inputs, rows), pixels=points.pixels.to(session.inputs.pixels.dtype), reuse={})
    targets = [session.targets[row] for row in rows.tolist()]
    layers = input_layers(model)
    with ExitStack() as stack:
        if points.words is not None:
            stack.enter_context(_embeddings_replaced(session, points.words))
        recorded = stack.enter_context(trace(model, inputs, targets, layers, want=("gradients",)))
        pixels = wide(recorded.gradients[PIXELS])
        words = at_text(session, recorded.gradients[WORDS]) if WORDS in layers else None
    return Slopes(pixels, None if words is None else wide(words))


def _embeddings_replaced(session: Session, words: Tensor) -> AbstractContextManager[None]:
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

    return patched_forward(model.module, model.layers[WORDS], change)


def integrate(session: Session, start: Ends, end: Ends, places: Values, weights: Values, batch_size: int) -> Slopes:
    """Σ_k weights[k] · gradient at start + places[k] · (end - start), per sample."""
    sums = Sums(start[0], start[1])
    at = torch.as_tensor(places, dtype=start[0].dtype, device=start[0].device)
    share = torch.as_tensor(weights, dtype=start[0].dtype, device=start[0].device)

    def make(rows: Tensor, steps: Tensor) -> Points:
        pixels = _between(start[0], end[0], rows, at[steps])
        if start[1] is None or end[1] is None:
            return Points(pixels)
        return Points(pixels, _between(wide(start[1]), wide(end[1]), rows, at[steps]))

    walk(session, len(places), batch_size, make, lambda rows, steps, slopes: sums.add(rows, share[steps], slopes))
    return Slopes(sums.pixels, sums.words)


class Sums:
    """Weighted gradients of every sample, added up as they come."""

    def __init__(self, pixels: Tensor, words: Tensor | None) -> None:
        """Shapes are taken from the arguments."""
        self.pixels = torch.zeros_like(wide(pixels))
        self.words = None if words is None else torch.zeros_like(wide(words))

    def add(self, rows: Tensor, weights: Tensor, slopes: Slopes) -> None:
        self.pixels.index_add_(0, rows, slopes.pixels * weights[:, None, None, None])
        if self.words is not None and slopes.words is not None:
            self.words.index_add_(0, rows, slopes.words * weights[:, None, None])


def _between(start: Tensor, end: Tensor, rows: Tensor, at: Tensor) -> Tensor:
    at = at.reshape(-1, *[1] * (start.ndim - 1)).to(start.dtype)
    return start[rows].lerp(end[rows], at)
