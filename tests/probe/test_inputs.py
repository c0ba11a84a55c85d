"""Encoded batches, cut and joined."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from karat.kernel.errors import BadInput
from karat.models.torch_model import Inputs
from karat.probe.inputs import frames_of, join, take


def test_inputs_of_different_lengths_join() -> None:
    def part(n: int, length: int) -> Inputs:
        return Inputs(
            torch.rand(n, 3, 2, 2),
            torch.arange(n * length).reshape(n, length) + 1,
            words=tuple(((0, 1),) for _ in range(n)),
        )

    joined = join([part(2, 3), part(1, 5)], pad=0)
    assert joined.tokens is not None
    assert joined.token_keep is not None
    assert joined.tokens.tolist() == [[1, 2, 3, 0, 0], [4, 5, 6, 0, 0], [1, 2, 3, 4, 5]]
    assert joined.token_keep.sum(1).tolist() == [3, 3, 5]
    picked = take(joined, torch.tensor([2, 0, 2]))
    assert picked.tokens is not None
    assert picked.tokens[:, -1].tolist() == [5, 0, 5]
    assert len(picked.words) == 3
    with pytest.raises(BadInput, match="one input size"):
        join([part(1, 2), replace(part(1, 2), pixels=torch.rand(1, 3, 4, 4))])


def test_frames_are_the_whole_image_unless_they_are_told() -> None:
    inputs = Inputs(torch.rand(2, 3, 2, 2))
    assert frames_of(inputs) == ((0.0, 0.0, 1.0, 1.0),) * 2
    assert frames_of(replace(inputs, frames=((0.0, 0.1, 1.0, 0.9),) * 2)) == ((0.0, 0.1, 1.0, 0.9),) * 2


def test_without_pixels_the_first_image_stands_in_every_row() -> None:
    parts = [Inputs(torch.full((2, 3, 2, 2), value)) for value in (1.0, 2.0)]
    joined = join(parts, pixels=False)
    assert joined.pixels.shape == (4, 3, 2, 2)
    assert joined.pixels.unique().tolist() == [1.0]
