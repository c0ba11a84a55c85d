"""Context managers around a module: they undo themselves, whatever happens inside."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from probe_worlds import hooks_on, small_cnn
from torch import Tensor, nn

from karat.kernel.errors import BadInput
from karat.probe import trace
from karat.probe.hooks import evaluating, frozen, recorded


@pytest.fixture
def pixels() -> Tensor:
    return torch.rand(3, 3, 12, 12, generator=torch.Generator().manual_seed(1))


def state_of(module: nn.Module) -> list[object]:
    flags = [part.training for part in module.modules()]
    return [hooks_on(module), flags, [(p.requires_grad, p.grad) for p in module.parameters()]]


def test_in_place_operations_do_not_change_recordings(pixels: Tensor) -> None:
    recordings = []
    for inplace in (True, False):
        with trace(small_cnn(inplace), pixels, [0, 1, 2], layers=["norm", "body"]) as recording:
            assert (recording.activations["body"] < 0).any(), "the ReLU after it would have cut these"
            recordings.append([*recording.activations.values(), *recording.gradients.values()])
    for ours, plain in zip(*recordings, strict=True):
        torch.testing.assert_close(ours, plain)


def test_everything_is_restored(pixels: Tensor) -> None:
    module = small_cnn().train()
    module.norm.eval()
    module.head.weight.requires_grad_(False)
    before = state_of(module)
    statistics = module.norm.running_mean.clone()
    with trace(module, pixels, [0, 1, 2], layers=["body", "pixels"]):
        pass
    assert state_of(module) == before
    assert torch.equal(module.norm.running_mean, statistics)


@pytest.mark.parametrize("where", ["forward", "target", "block"])
def test_everything_is_restored_after_an_error(pixels: Tensor, where: str) -> None:
    module = small_cnn().train()
    before = state_of(module)
    boom = ValueError("boom")

    def fail(*_: object) -> Tensor:
        raise boom

    handle = module.pool.register_forward_hook(fail) if where == "forward" else None
    before = state_of(module)
    target = fail if where == "target" else [0, 1, 2]
    with pytest.raises(ValueError, match="boom"), trace(module, pixels, target, layers=["body"]):
        raise boom
    assert state_of(module) == before
    if handle:
        handle.remove()


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Conv2d(3, 3, 1)
        self.idle = nn.Conv2d(3, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(self.inner(x)).mean((2, 3))


@pytest.mark.parametrize(
    ("layer", "says"),
    [("inner", "more than once"), ("idle", "did not run"), ("outer.inner", "has no layer 'outer.inner'; it has inner")],
)
def test_layers_that_cannot_be_recorded(pixels: Tensor, layer: str, says: str) -> None:
    with pytest.raises(BadInput, match=says), trace(Twice(), pixels, [0, 1, 2], layers=[layer]):
        pass


def test_modes_and_parameters_come_back_after_an_error() -> None:
    module = small_cnn().train()
    module.norm.eval()
    before = state_of(module)
    boom = ValueError("boom")
    with evaluating(module), frozen(module):
        assert not any(part.training for part in module.modules())
        assert not any(parameter.requires_grad for parameter in module.parameters())
    assert state_of(module) == before
    with pytest.raises(ValueError, match="boom"), evaluating(module), frozen(module):
        raise boom
    assert state_of(module) == before


def test_a_recording_of_a_tuple_is_its_first_tensor_and_the_rest_flows_on(pixels: Tensor) -> None:
    class Pair(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, int]:
            return x * 2, 7

    class Uses(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.pair = Pair()

        def forward(self, x: Tensor) -> Any:
            return self.pair(x)

    module, recordings = Uses(), dict[str, Tensor]()
    with recorded(module, "pair", recordings, differentiate=False):
        tensor, rest = module(pixels)
    assert rest == 7
    assert torch.equal(recordings["pair"], tensor)
    assert recordings["pair"] is not tensor  # what flows on is a copy
    assert hooks_on(module) == 0
