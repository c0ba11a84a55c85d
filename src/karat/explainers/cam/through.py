"""Scores of images seen through the channels of a feature map."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional

from karat.probe.hooks import evaluating
from karat.probe.inputs import take
from karat.probe.session import Session


def seen_through(session: Session, activations: Tensor, batch_size: int) -> tuple[Tensor, int]:
    """(n, c) raw scores of the pixels times each channel of activations (n, c, h, w), and the number of rows asked."""
    n, channels = activations.shape[:2]
    flat = activations.amax((2, 3)) == activations.amin((2, 3))
    pixels = session.inputs.pixels
    scores = activations.new_zeros(n, channels)
    rows = [(i, k) for i in range(n) for k in _worth_asking(flat[i])]
    with torch.no_grad(), evaluating(session.torch_model.module):
        for start in range(0, len(rows), batch_size):
            i, k = torch.tensor(rows[start : start + batch_size]).T
            channel = activations[i, k][:, None]
            masks = functional.interpolate(channel, pixels.shape[-2:], mode="bilinear", align_corners=True)
            low, high = masks.amin((2, 3), keepdim=True), masks.amax((2, 3), keepdim=True)
            masks = (masks - low) / (high - low + 1e-8)
            scores[i, k] = score(session, i, pixels[i] * masks.to(pixels.dtype)).to(scores.dtype)
    for i in range(n):
        if bool(flat[i].any()):
            scores[i, flat[i]] = scores[i, int(flat[i].nonzero()[0])].clone()
    return scores, len(rows)


def score(session: Session, rows: Tensor, pixels: Tensor) -> Tensor:
    """(m,) raw scores of other pixels for the given samples, each for its own target."""
    inputs = replace(take(session.inputs, rows), pixels=pixels, reuse={})
    return session.torch_model.readout(inputs, [session.targets[row] for row in rows.tolist()])


def _worth_asking(flat: Tensor) -> Sequence[int]:
    """Every channel that is not flat, and the first that is: the others mask everything just like it."""
    kept: list[int] = (~flat).nonzero()[:, 0].tolist()
    return kept if len(kept) == len(flat) else [*kept, int(flat.nonzero()[0])]
