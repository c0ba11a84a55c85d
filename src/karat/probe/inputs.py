"""Cut and join encoded batches: every tensor of `Inputs` is batch first, and tokens are padded on the right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from karat.kernel.errors import BadInput
from karat.models.torch_model import Frame, Inputs


def take(inputs: Inputs, rows: Tensor) -> Inputs:
    """The rows asked for, in that order, repeats allowed."""
    return replace(
        inputs,
        pixels=inputs.pixels[rows],
        tokens=None if inputs.tokens is None else inputs.tokens[rows],
        token_keep=None if inputs.token_keep is None else inputs.token_keep[rows],
        words=tuple(inputs.words[row] for row in rows.tolist()) if inputs.words else (),
        other={name: tensor[rows] for name, tensor in inputs.other.items()},
        frames=tuple(inputs.frames[row] for row in rows.tolist()) if inputs.frames else inputs.frames,
        reuse={name: tensor[rows] for name, tensor in inputs.reuse.items()},
    )


def join(parts: Sequence[Inputs], pad: int = 0, pixels: bool = True) -> Inputs:
    """One batch of several; shorter token rows are padded with `pad`, which `token_keep` marks as absent.

    Without `pixels` the first image stands in every row, uncopied: for models that are told what they saw (`reuse`).
    """
    first = parts[0]
    if len(parts) == 1:
        return first
    for part in parts[1:]:
        if part.pixels.shape[1:] != first.pixels.shape[1:]:
            raise BadInput(
                f"cannot join batches of pixels {tuple(first.pixels.shape)} and {tuple(part.pixels.shape)}: "
                "samples of one batch need one input size."
            )
    kept = [_keep_of(part) for part in parts]
    rows = sum(len(part.pixels) for part in parts)
    return Inputs(
        pixels=torch.cat([part.pixels for part in parts]) if pixels else first.pixels[:1].expand(rows, -1, -1, -1),
        tokens=_padded([part.tokens for part in parts if part.tokens is not None], pad),
        token_keep=_padded([keep for keep in kept if keep is not None], False),
        words=tuple(spans for part in parts for spans in part.words),
        other={name: torch.cat([part.other[name] for part in parts]) for name in first.other},
        frames=None
        if any(part.frames is None for part in parts)
        else tuple(f for part in parts for f in frames_of(part)),
        reuse={name: torch.cat([part.reuse[name] for part in parts]) for name in first.reuse},
    )


def frames_of(inputs: Inputs) -> tuple[Frame, ...]:
    """One frame per row, where they are known."""
    return inputs.frames or ((0.0, 0.0, 1.0, 1.0),) * len(inputs.pixels)


def _keep_of(part: Inputs) -> Tensor | None:
    if part.tokens is None or part.token_keep is not None:
        return part.token_keep
    return torch.ones_like(part.tokens, dtype=torch.bool)


def _padded(rows: Sequence[Tensor], fill: int | bool) -> Tensor | None:
    if not rows:
        return None
    width = max(row.shape[1] for row in rows)
    return torch.cat([torch.nn.functional.pad(row, (0, width - row.shape[1]), value=fill) for row in rows])
