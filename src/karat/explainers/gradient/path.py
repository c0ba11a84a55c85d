"""Weighted sums of gradients over points of a path, never more than one batch of them in memory."""

from __future__ import annotations

import torch
from torch import Tensor

from karat.explainers.gradient.points import Points, Slopes, walk
from karat.explainers.placing import wide
from karat.kernel.typing import Values
from karat.probe.session import Session

Ends = tuple[Tensor, Tensor | None]  # pixels (n, 3, H, W), embeddings (n, T, width)


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

    walk(session, len(places), batch_size, make, lambda rows, steps, found: sums.add(rows, share[steps], found))
    return Slopes(sums.pixels, sums.words)


class Sums:
    """Weighted gradients of every sample, added up as they come."""

    def __init__(self, pixels: Tensor, words: Tensor | None) -> None:
        """Shapes are taken from the arguments."""
        self.pixels = torch.zeros_like(wide(pixels))
        self.words = None if words is None else torch.zeros_like(wide(words))

    def add(self, rows: Tensor, weights: Tensor, found: Slopes) -> None:
        self.pixels.index_add_(0, rows, found.pixels * weights[:, None, None, None])
        if self.words is not None and found.words is not None:
            self.words.index_add_(0, rows, found.words * weights[:, None, None])


def _between(start: Tensor, end: Tensor, rows: Tensor, at: Tensor) -> Tensor:
    at = at.reshape(-1, *[1] * (start.ndim - 1)).to(start.dtype)
    return start[rows].lerp(end[rows], at)
