"""Positions and masks of a sequence that holds one image: what a decoder is told besides the embeddings."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from karat.models.families.family import Size


def counted(seen: Tensor) -> Tensor:
    """(n, L) positions that count real tokens only; padding may stand anywhere. `seen` (n, L) is 1 at real tokens."""
    return (seen.cumsum(1) - 1).clamp(min=0)


def on_grid(seen: Tensor, image: Sequence[int], grid: Size) -> Tensor:
    """(3, n, L) positions in time, height and width (M-RoPE): the image's tokens have a row and a column.

    The image starts where the text before it ends, and the text goes on after its longer side.
    """
    first, last = image[0], image[-1] + 1
    text = seen.clone()
    text[:, first:last] = 0
    places = (text.cumsum(1) - 1).clamp(min=0)
    places[:, last:] += max(grid)
    start = text[:, :first].sum(1, keepdim=True)  # (n, 1)
    cell = torch.arange(grid[0] * grid[1], device=seen.device)
    three = places[None].repeat(3, 1, 1)
    for axis, inner in enumerate((torch.zeros_like(cell), cell // grid[1], cell % grid[1])):
        three[axis, :, first:last] = start + inner
    return three


def both_ways(seen: Tensor, image: Sequence[int], queries: int, window: int | None, dtype: torch.dtype) -> Tensor:
    """(n, 1, queries, L) additive mask of the last `queries` tokens: causal, but image tokens see each other too.

    `window`: nobody looks back that many real tokens or more.
    """
    length = seen.shape[1]
    at = torch.arange(length, device=seen.device)
    shown = torch.zeros(length, dtype=torch.bool, device=seen.device)
    shown[list(image)] = True
    allowed = (at[None] <= at[:, None]) | (shown[:, None] & shown[None])
    kept = allowed[None] & seen[:, None].bool()
    if window is not None:
        places = counted(seen)
        kept &= places[:, :, None] - places[:, None] < window
    kept = kept[:, None, length - queries :]
    return torch.zeros(kept.shape, dtype=dtype, device=seen.device).masked_fill(~kept, torch.finfo(dtype).min)
