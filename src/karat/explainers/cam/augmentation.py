"""Augmentation smoothing: the mean of CAMs over flipped and dimmed or brightened views of the input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from torch import Tensor
from torch.nn import functional

from karat.probe import Trace, trace
from karat.probe.session import Session

FACTORS = (0.9, 1.0, 1.1)  # multiply the normalised pixels, as pytorch-grad-cam does
VIEWS = 2 * len(FACTORS)


def over_views(session: Session, layer: str, seen: Trace, draw: Callable[[Trace], Tensor]) -> Tensor:
    """(n, H, W): every view's map scaled to [0, 1], resized to the input, turned back, and averaged.

    `seen` is the trace of the unaltered view, which is not made again.
    """
    pixels = session.inputs.pixels
    total = pixels.new_zeros(())
    for flipped in (False, True):
        for factor in FACTORS:
            if not flipped and factor == 1.0:
                shown = _to_input(draw(seen), pixels)
            else:
                view = (pixels.flip(-1) if flipped else pixels) * factor
                inputs = replace(session.inputs, pixels=view, reuse={})
                with trace(session.torch_model, inputs, session.targets, (layer,)) as other:
                    shown = _to_input(draw(other), pixels)
            total = total + (shown.flip(-1) if flipped else shown)
    return total / VIEWS


def _to_input(maps: Tensor, pixels: Tensor) -> Tensor:
    """Scaled before and after resizing, because interpolation lowers the maximum."""
    tall = functional.interpolate(_scaled(maps)[:, None], pixels.shape[-2:], mode="bilinear", align_corners=False)
    return _scaled(tall[:, 0])


def _scaled(maps: Tensor) -> Tensor:
    """Each map to [0, 1]; a flat one to zero."""
    maps = maps - maps.amin((1, 2), keepdim=True)
    return maps / (maps.amax((1, 2), keepdim=True) + 1e-7)
