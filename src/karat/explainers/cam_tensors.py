"""What CAMs need torch for: principal components, views of the input, scores through and without single channels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from scipy.linalg import eigh
from torch import Tensor
from torch.nn import functional

from karat.explainers.patched_forward import patched_forward
from karat.explainers.to_attribution import wide
from karat.models.torch_model import ArrangesVision
from karat.probe import Trace, trace
from karat.probe.hooks import evaluating
from karat.probe.inputs import take
from karat.probe.session import Session

FACTORS = (0.9, 1.0, 1.1)  # multiply the normalised pixels, as pytorch-grad-cam does
_RELEASED_BATCH = 32  # pytorch-grad-cam lowers its floor by another 1e7 with every row of a batch of this size


def first_component(features: Tensor, sign: Literal["largest", "svd"] = "largest") -> Tensor:
    """(n, c, h, w) to (n, h, w): each place's vector, centred over the places, projected on their first component.

    The direction of a component is arbitrary. "largest" turns it so that the entry of largest absolute value is
    positive (Chung and Ying 2025, Eq. 13), which does not depend on where things are in the image; "svd" takes what
    LAPACK happens to give, as pytorch-grad-cam does. A sample that is the same everywhere has no component and gets
    zeros; one with NaN gets NaN.
    """
    n, _, rows, columns = features.shape
    places = features.flatten(2).transpose(1, 2).cpu().numpy()  # (n, places, c)
    centred = places - places.mean(axis=1, keepdims=True)
    rounding = 4 * np.finfo(places.dtype).eps * np.abs(places).max(axis=(1, 2), initial=0.0)
    projected = np.full((n, rows * columns), np.nan, dtype=places.dtype)
    for i, sample in enumerate(centred):
        if np.abs(sample).max() <= rounding[i]:
            projected[i] = 0.0
        elif np.isfinite(sample).all():
            projected[i] = _project(sample) if sign == "largest" else sample @ np.linalg.svd(sample, False)[2][0]
    return torch.from_numpy(projected.reshape(n, rows, columns)).to(features.device)


def _project(sample: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """(places, c) to (places,), by the smaller of the two Gram matrices: only one eigenvector is needed."""
    exact = sample.astype(np.float64)
    tall = exact.shape[0] > exact.shape[1]
    gram = exact.T @ exact if tall else exact @ exact.T
    last = len(gram) - 1
    value, vector = eigh(gram, subset_by_index=(last, last), check_finite=False)
    projection = exact @ vector[:, 0] if tall else vector[:, 0] * np.sqrt(max(value[0], 0.0))
    return projection if projection.max() >= -projection.min() else -projection


# ---- augmentation smoothing


def over_views(session: Session, layer: str, unaltered: Trace, draw: Callable[[Trace], Tensor]) -> Tensor:
    """(n, H, W): the map of every view (flipped or not, times each of `FACTORS`) scaled to [0, 1], resized to the
    input, turned back, and averaged. The view that `unaltered` is a trace of is not traced again.
    """
    pixels = session.inputs.pixels
    total = pixels.new_zeros(())
    for flipped in (False, True):
        for factor in FACTORS:
            if not flipped and factor == 1.0:
                maps = _to_input(draw(unaltered), pixels)
            else:
                view = (pixels.flip(-1) if flipped else pixels) * factor
                inputs = replace(session.inputs, pixels=view, reuse={})
                with trace(session.torch_model, inputs, session.targets, (layer,)) as altered:
                    maps = _to_input(draw(altered), pixels)
            total = total + (maps.flip(-1) if flipped else maps)
    return total / (2 * len(FACTORS))


def _to_input(maps: Tensor, pixels: Tensor) -> Tensor:
    """Scaled before and after resizing, because interpolation lowers the maximum."""
    tall = functional.interpolate(_scaled(maps)[:, None], pixels.shape[-2:], mode="bilinear", align_corners=False)
    return _scaled(tall[:, 0])


def _scaled(maps: Tensor) -> Tensor:
    """Each map to [0, 1]; a flat one to zero."""
    maps = maps - maps.amin((1, 2), keepdim=True)
    return maps / (maps.amax((1, 2), keepdim=True) + 1e-7)


# ---- ScoreCAM: the image seen through one channel


def scores_through_channels(session: Session, activations: Tensor, batch_size: int) -> tuple[Tensor, int]:
    """(n, c) raw scores of the pixels times each channel of activations (n, c, h, w), and the number of rows run."""
    n, channels = activations.shape[:2]
    flat = activations.amax((2, 3)) == activations.amin((2, 3))
    pixels = session.inputs.pixels
    scores = activations.new_zeros(n, channels)
    rows = [(i, k) for i in range(n) for k in _distinct_channels(flat[i])]
    with torch.no_grad(), evaluating(session.torch_model.module):
        for start in range(0, len(rows), batch_size):
            i, k = torch.tensor(rows[start : start + batch_size]).T
            channel = activations[i, k][:, None]
            masks = functional.interpolate(channel, pixels.shape[-2:], mode="bilinear", align_corners=True)
            low, high = masks.amin((2, 3), keepdim=True), masks.amax((2, 3), keepdim=True)
            masks = (masks - low) / (high - low + 1e-8)
            inputs = replace(take(session.inputs, i), pixels=pixels[i] * masks.to(pixels.dtype), reuse={})
            targets = [session.targets[row] for row in i.tolist()]
            scores[i, k] = session.torch_model.readout(inputs, targets).to(scores.dtype)
    for i in range(n):
        if bool(flat[i].any()):
            scores[i, flat[i]] = scores[i, int(flat[i].nonzero()[0])].clone()
    return scores, len(rows)


def _distinct_channels(flat: Tensor) -> Sequence[int]:
    """Every channel that is not flat, and the first that is: the others mask everything just like it."""
    kept: list[int] = (~flat).nonzero()[:, 0].tolist()
    return kept if len(kept) == len(flat) else [*kept, int(flat.nonzero()[0])]


# ---- AblationCAM: the model without one channel


def falls_without_channels(
    session: Session, trace: Trace, layer: str, ratio: float, released: bool, batch_size: int
) -> tuple[Tensor, int]:
    """(n, c) relative falls (y - y_c) / |y|, as released (y - y_c) / y, 0 for channels not asked about; and the number
    of rows run."""
    raw, maps = trace.activations[layer], trace.spatial(layer)
    axis = 1 if maps is raw else raw.ndim - 1
    scores = wide(trace.scores)
    size = scores if released else scores.abs()
    falls = wide(maps).new_zeros(maps.shape[:2])
    rows = 0
    with torch.no_grad(), evaluating(session.torch_model.module):
        altered = _AlteredLayer(session, session.torch_model.layers.get(layer, layer))
        for i in range(len(raw)):
            channels = ablated_channels(wide(maps[i]), ratio)
            fills = _floor(raw[i], len(channels)) if released else raw.new_zeros(len(channels))
            for start in range(0, len(channels), batch_size):
                part = slice(start, start + batch_size)
                states = _without(raw[i], axis, channels[part], fills[part])
                falls[i, channels[part]] = ((scores[i] - altered.scores(i, states)) / size[i]).to(falls.dtype)
            rows += len(channels)
    return falls, rows


def ablated_channels(maps: Tensor, ratio: float) -> Tensor:
    """Channels of (c, h, w) to ask about: all, or the share `ratio` that lies most and the share that lies least on
    what stands out, which is where the first principal component exceeds a hundredth of its range."""
    if ratio == 1.0:
        return torch.arange(len(maps), device=maps.device)
    component = first_component(maps[None])[0].abs()
    component = component - component.min()
    stands_out = component / component.max() > 0.01
    size = maps.abs()
    size = size - size.amin((1, 2), keepdim=True)
    share = (size * stands_out).sum((1, 2)) / size.sum((1, 2))
    order = share.argsort(stable=True)  # a flat channel has NaN and counts as the highest, as in pytorch-grad-cam
    count = int(len(order) * ratio)
    return torch.cat([order.flip(0)[:count], order[:count]])


class _AlteredLayer:
    """Scores of m versions of a layer's output, for one sample.

    What comes before the layer is the same for all m. Where the model lets it, that part runs on one row and the layer
    hands on m; whether it does is found by trying both ways on the first rows and comparing.
    """

    def __init__(self, session: Session, layer: str) -> None:
        self.session = session
        self.layer = layer
        self.one_row: bool | None = None

    def scores(self, i: int, states: Tensor) -> Tensor:
        """(m,) of the states (m, ...)."""
        if self.one_row is None and len(states) > 1:
            self.one_row = self._agrees(i, states[:2])
        return self._run(i, states, 1 if self.one_row else len(states))

    def _agrees(self, i: int, states: Tensor) -> bool:
        try:
            quick = self._run(i, states, 1)
        except Exception:  # every model objects in its own words
            return False
        slow = self._run(i, states, len(states))
        return quick.shape == slow.shape and torch.allclose(quick, slow, rtol=1e-4, atol=1e-5, equal_nan=True)

    def _run(self, i: int, states: Tensor, rows: int) -> Tensor:
        inputs, model = take(self.session.inputs, torch.full((rows,), i)), self.session.torch_model

        def change(output: Tensor) -> Tensor:
            """Sequences are cut to the length at hand: that of this sample's answer."""
            if isinstance(model, ArrangesVision) and f"{self.layer}.".startswith(f"{model.vision}."):
                return model.as_run(self.layer, states, inputs)
            return states[:, : output.shape[1]] if output.ndim == 3 else states

        with patched_forward(model.module, self.layer, change):
            return wide(model.readout(inputs, [self.session.targets[i]] * len(states)))


def _without(state: Tensor, axis: int, channels: Tensor, fills: Tensor) -> Tensor:
    """(m, ...) copies of one sample's state, each with one channel filled."""
    copies = state.expand(len(channels), *state.shape).clone()
    row = torch.arange(len(channels), device=state.device)
    fill = fills.reshape(-1, *[1] * (state.ndim - 1))
    if axis == 1:
        copies[row, channels] = fill
    else:
        copies[row, ..., channels] = fill
    return copies


def _floor(state: Tensor, count: int) -> Tensor:
    """What pytorch-grad-cam puts for an absent channel: 0 if that is the minimum; else ever lower within a batch."""
    lowest = state.min()
    if lowest == 0:
        return state.new_zeros(count)
    depth = torch.arange(count, device=state.device) % _RELEASED_BATCH + 1
    return lowest - 1e7 * depth.to(state.dtype)
