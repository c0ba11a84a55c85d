"""Scores of a model without one channel of one layer."""

from __future__ import annotations

import torch
from torch import Tensor

from karat.explainers.cam.projection import first_component
from karat.explainers.exchange import exchanged
from karat.explainers.placing import wide
from karat.models.torch_model import ArrangesVision
from karat.probe import Trace
from karat.probe.hooks import evaluating
from karat.probe.inputs import take
from karat.probe.session import Session

_RELEASED_BATCH = 32  # pytorch-grad-cam lowers its floor by another 1e7 with every row of a batch of this size


def falls(
    session: Session, seen: Trace, layer: str, ratio: float, released: bool, batch_size: int
) -> tuple[Tensor, int]:
    """(n, c) relative falls (y - y_c) / y, 0 for channels not asked about, and the number of rows asked."""
    raw, maps = seen.activations[layer], seen.spatial(layer)
    axis = 1 if maps is raw else raw.ndim - 1
    scores = wide(seen.scores)
    found = wide(maps).new_zeros(maps.shape[:2])
    asked = 0
    with torch.no_grad(), evaluating(session.torch_model.module):
        rows = _Rows(session, session.torch_model.layers.get(layer, layer))
        for i in range(len(raw)):
            channels = chosen(wide(maps[i]), ratio)
            fills = _floor(raw[i], len(channels)) if released else raw.new_zeros(len(channels))
            for start in range(0, len(channels), batch_size):
                part = slice(start, start + batch_size)
                without = _without(raw[i], axis, channels[part], fills[part])
                found[i, channels[part]] = ((scores[i] - rows.score(i, without)) / scores[i]).to(found.dtype)
            asked += len(channels)
    return found, asked


def chosen(maps: Tensor, ratio: float) -> Tensor:
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


class _Rows:
    """Scores of m versions of a layer's output, for one sample.

    What comes before the layer is the same for all m. Where the model lets it, that part runs on one row and the layer
    hands on m; whether it does is found by trying both ways on the first rows and comparing.
    """

    def __init__(self, session: Session, layer: str) -> None:
        self.session = session
        self.layer = layer
        self.one_row: bool | None = None

    def score(self, i: int, states: Tensor) -> Tensor:
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
        vision = getattr(model, "vision", None)

        def change(output: Tensor) -> Tensor:
            """Sequences are cut to the length at hand: that of this sample's answer."""
            if isinstance(model, ArrangesVision) and f"{self.layer}.".startswith(f"{vision}."):
                return model.as_run(self.layer, states, inputs)
            return states[:, : output.shape[1]] if output.ndim == 3 else states

        module = self.session.torch_model.module
        with exchanged(module, self.layer, change):
            return wide(self.session.torch_model.readout(inputs, [self.session.targets[i]] * len(states)))


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
