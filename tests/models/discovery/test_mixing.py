"""With its own tile each place of a map shows itself alone, and afterwards everything is as before."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from karat.models.discovery.mixing import OwnTiles, silenced


class Squeezing(nn.Module):
    """Squeeze and excitation."""

    def forward(self, maps: Tensor) -> Tensor:
        return maps * maps.mean((2, 3), keepdim=True).sigmoid()


def moved(network: nn.Module, row: int, column: int, side: int = 16) -> set[tuple[int, int]]:
    """Places of the output that move when one pixel does."""
    maps = torch.rand(1, 3, side, side, generator=torch.Generator().manual_seed(0))
    other = maps.clone()
    other[0, :, row, column] += 1
    with torch.no_grad():
        change = (network(maps) - network(other)).abs().amax((0, 1))
    return {(int(r), int(c)) for r, c in (change > 1e-7).nonzero()}


NETWORKS = {
    "depthwise": (nn.Conv2d(3, 3, 7, padding=3, groups=3), 1),
    "same": (nn.Conv2d(3, 3, 3, padding="same"), 1),
    "strided": (nn.Sequential(nn.Conv2d(3, 8, 7, 2, 3), nn.GELU(), nn.Conv2d(8, 8, 3, 2, 1)), 4),
    "patches": (nn.Conv2d(3, 8, 4, 4), 4),
    "squeezing": (nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), Squeezing()), 2),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_pixel_moves_its_own_place_alone(name: str) -> None:
    torch.manual_seed(0)
    network, stride = NETWORKS[name]
    before = moved(network, 6, 9)
    with OwnTiles():
        for row, column in ((0, 0), (6, 9), (15, 15)):
            assert moved(network, row, column) == {(row // stride, column // stride)}
    assert moved(network, 6, 9) == before
    assert len(before) > 1 or name == "patches"


def test_a_convolution_that_does_not_keep_proportions_is_left_as_it_is() -> None:
    torch.manual_seed(0)
    network = nn.Conv2d(3, 8, 3, 2, 1)
    before = moved(network, 8, 8, side=17)
    with OwnTiles():
        assert moved(network, 8, 8, side=17) == before
        assert moved(nn.Conv2d(3, 8, 5), 8, 8) != {(8, 8)}


def test_silenced_parts_speak_again() -> None:
    network = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    given = torch.ones(1, 2)
    before = network(given)
    with silenced(network, ["1"]):
        assert not network(given).any()
    assert torch.equal(network(given), before)
