"""Traces against plain autograd, and what must be as before once a trace is over."""

from __future__ import annotations

import gc

import pytest
import torch
from probe_worlds import small_cnn
from torch import Tensor, nn

from karat.kernel.errors import BadInput
from karat.probe import trace


@pytest.fixture
def pixels() -> Tensor:
    return torch.rand(3, 3, 12, 12, generator=torch.Generator().manual_seed(1))


def test_equals_plain_autograd(pixels: Tensor) -> None:
    module = small_cnn().eval()
    x = pixels.clone().requires_grad_()
    body = module.body(module.relu(module.norm(module.stem(x))))
    logits = module.head(module.flat(module.pool(torch.relu(body))))
    by_body, by_pixels = torch.autograd.grad(logits[range(3), [0, 1, 2]].sum(), [body, x])
    with trace(module, pixels, [0, 1, 2], layers=["body", "pixels"]) as recording:
        torch.testing.assert_close(recording.activations["body"], body)
        torch.testing.assert_close(recording.gradients["body"], by_body)
        torch.testing.assert_close(recording.gradients["pixels"], by_pixels)
        torch.testing.assert_close(recording.scores, logits[range(3), [0, 1, 2]])
        assert recording.backwards == 1
        assert not recording.activations["body"].requires_grad
        assert recording.spatial("body").shape == (3, 6, 6, 6)


def test_second_order(pixels: Tensor) -> None:
    """score = sum of (a x)^2, so the gradient is 2 a² x and its derivative by a is 4 a x."""

    class Square(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Parameter(torch.tensor(3.0))

        def forward(self, x: Tensor) -> Tensor:
            return ((self.a * x) ** 2).sum((1, 2, 3))

    module = Square()
    with trace(module, pixels, lambda scores: scores, layers=["pixels"], create_graph=True) as recording:
        torch.testing.assert_close(recording.gradients["pixels"], 2 * 9 * pixels)
        (by_a,) = torch.autograd.grad(recording.gradients["pixels"].sum(), [module.a])
    torch.testing.assert_close(by_a, 4 * 3 * pixels.sum())
    assert module.a.grad is None


def test_rows_are_independent(pixels: Tensor) -> None:
    module = small_cnn()
    with trace(module, pixels, [0, 1, 2], layers=["body"]) as together:
        for i in range(3):
            with trace(module, pixels[i : i + 1], [i], layers=["body"]) as alone:
                torch.testing.assert_close(alone.gradients["body"][0], together.gradients["body"][i])


def live_tensors() -> int:
    gc.collect()
    return sum(issubclass(type(thing), Tensor) for thing in gc.get_objects())


def test_nothing_stays_behind(pixels: Tensor) -> None:
    module = small_cnn()
    layers = ["body", "pixels", "stem"]

    def look(times: int) -> None:
        for _ in range(times):
            with trace(module, pixels, [0, 1, 2], layers=layers):
                pass
            with pytest.raises(BadInput), trace(module, pixels, lambda out: out, layers=layers):
                pass

    look(2)
    before = live_tensors()
    look(50)
    assert live_tensors() == before
