"""Attention rolled out from the answer back to the input, one row, one layer, a few query rows at a time.

Every rollout is a product of one matrix (L, L) per layer, of which only the rows that speak for the answer are read.
So a row is carried from the last layer to the first: row <- row M. No product of matrices is ever formed, and of a map
only as many rows as fit into a few megabytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from karat.probe.attention import Heads

Fusion = Literal["mean", "max", "min"]
# (weights (n, heads, rows, K), whose gradients, query rows) -> (n, rows, K)
Fuse = Callable[[Tensor, Heads, Tensor], Tensor]


def plain(fusion: Fusion) -> Fuse:
    """The attention itself, heads fused."""

    def fuse(weights: Tensor, _: Heads, __: Tensor) -> Tensor:
        return weights.mean(1) if fusion == "mean" else weights.amax(1) if fusion == "max" else weights.amin(1)

    return fuse


def positive_then_mean(weights: Tensor, of: Heads, rows: Tensor) -> Tensor:
    """E_h (A ∘ dy/dA)^+: Chefer et al. 2021 (generic), Eq. 5."""
    return of.slopes(rows).mul_(weights).clamp_(min=0).mean(1)


def mean_then_positive(weights: Tensor, of: Heads, rows: Tensor) -> Tensor:
    """(E_h A ∘ dy/dA)^+: gradient attention rollout."""
    return of.slopes(rows).mul_(weights).mean(1).clamp_(min=0)


@dataclass(frozen=True, eq=False)
class Discard:
    """Drop the lowest `ratio` of all pairs (query, key) of a layer.

    Pairs are those of tokens that are there (`present`, (n, L)) and may look at each other; `guards` is, for every
    sample, the position whose look at itself is never dropped.
    """

    ratio: float
    present: Tensor
    guards: Sequence[int] | None


def read(layer: Heads, row: Tensor, fuse: Fuse) -> Tensor:
    """row · F of one layer: (n, L)."""
    product = torch.zeros_like(row)
    for rows, fused in _rows(layer, row, fuse):
        product += _product(row[:, rows], fused)
    return product


def sums(heads: Sequence[Heads], row: Tensor, fuse: Fuse) -> Tensor:
    """row · (I + F_B) ··· (I + F_1), F the fused map of a layer: (n, L)."""
    for layer in reversed(heads):
        row = row + read(layer, row, fuse)
    return row


def shares(heads: Sequence[Heads], row: Tensor, fuse: Fuse) -> Tensor:
    """row · M_B ··· M_1 with M = F + I, each row divided by its sum: (F + I) / 2 where the rows of F sum to 1."""
    for layer in reversed(heads):
        carried = torch.zeros_like(row)
        for rows, fused in _rows(layer, row, fuse):
            share = row[:, rows] / (fused.sum(-1) + 1)
            carried += _product(share, fused)
            carried[:, rows] += share
        row = carried
    return row


def discarding(heads: Sequence[Heads], row: Tensor, fuse: Fuse, drop: Discard, released: bool = False) -> Tensor:
    """`shares` of thinned maps. The map of one layer at a time is held, heads fused.

    `released` as vit-explain has it: gradients in reverse order of the layers, every pair of positions counts, and row
    sums divide columns.
    """
    for k in reversed(range(len(heads))):
        slopes = heads[len(heads) - 1 - k] if released else heads[k]
        fused = _thinned(heads[k], slopes, fuse, drop, every_pair=released)
        total = fused.sum(-1) + 1
        if released:
            row = (_product(row, fused) + row) / total
        else:
            share = row / total
            row = _product(share, fused) + share
    return row


def contributions(layer: Heads, row: Tensor) -> Tensor:
    """(n, K) ReLU(Σ_h a_j · w_h · v_jh) of DAAM, weighted over the answer's rows."""
    given = torch.zeros_like(row)
    assert layer.output_gradient is not None
    for rows in layer.runs(row.ne(0).any(0).nonzero()[:, 0]):
        slopes = layer.output_gradient[..., rows, :].to(layer.values.dtype).clamp(min=0)  # (n, heads, rows, width)
        by_token = (layer.weights(rows) * (slopes @ layer.values.transpose(-2, -1))).sum(1).clamp(min=0)
        given += (row[:, rows, None] * by_token).sum(1)
    return given


def _rows(layer: Heads, row: Tensor, fuse: Fuse) -> Iterator[tuple[Tensor, Tensor]]:
    """The fused map, in runs of rows; rows that have no part in the answer are left out."""
    for rows in layer.runs(row.ne(0).any(0).nonzero()[:, 0]):
        yield rows, fuse(layer.weights(rows), layer, rows)


def _product(row: Tensor, matrix: Tensor) -> Tensor:
    return (row[:, None] @ matrix)[:, 0]


def _thinned(layer: Heads, slopes: Heads, fuse: Fuse, drop: Discard, every_pair: bool) -> Tensor:
    n, length = drop.present.shape
    fused = torch.empty(n, length, length, device=layer.value.device, dtype=layer.dtype)
    pairs = drop.present[:, :, None].expand(n, length, length).clone()
    for rows in layer.runs(torch.arange(length, device=layer.value.device)):
        weights = layer.weights(rows)
        fused[:, rows] = fuse(weights, slopes, rows)
        if not every_pair:
            pairs[:, rows] &= weights.amax(1) > 0
    if every_pair:
        pairs.fill_(True)
    for i in range(n):
        values = fused[i][pairs[i]].cpu().numpy()
        if (count := int(drop.ratio * len(values))) > 0:
            values.partition(count - 1)  # in place: torch's kthvalue would take five times the memory
            limit = float(values[count - 1])
            guard = None if drop.guards is None else drop.guards[i]
            guarded = None if guard is None else fused[i, guard, guard].clone()
            fused[i].masked_fill_((fused[i] <= limit) & pairs[i], 0.0)
            if guard is not None and guarded is not None:
                fused[i, guard, guard] = guarded
    return fused
