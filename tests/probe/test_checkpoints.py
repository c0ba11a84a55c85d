"""Checkpointed traces: the same values for a fraction of the memory, and a layer's second run is no run."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from sequence_models import model as sequence_model
from sequence_models import samples as sequence_samples
from sequence_models import targets as sequence_targets
from torch import Tensor, nn

from karat.kernel.errors import BadInput
from karat.probe.checkpoints import blocks
from karat.probe.session import Session
from karat.probe.trace import trace


class Block(nn.Module):
    """One layer of a transformer, with the parts that a trace may record."""

    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attend = nn.MultiheadAttention(width, heads, batch_first=True)
        self.inner = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.runs = 0

    def forward(self, x: Tensor) -> Tensor:
        self.runs += 1
        normed = self.norm(x)
        x = x + self.attend(normed, normed, normed, need_weights=False)[0]
        return x + self.inner(x)


class Tower(nn.Module):
    """Pixels (n, 3, 8, 8) as 16 patches, through layers, to 5 classes."""

    def __init__(self, layers: int = 6) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.cut = nn.Conv2d(3, 32, 2, 2)
        self.layers = nn.ModuleList(Block() for _ in range(layers))
        self.head = nn.Linear(32, 5)

    def forward(self, pixels: Tensor) -> Tensor:
        x = self.cut(pixels).flatten(2).transpose(1, 2)
        for layer in self.layers:
            x = layer(x)
        out: Tensor = self.head(x.mean(1))
        return out


NAMES = [f"layers.{k}" for k in range(6)]
WANTS = [
    ({"activations", "gradients"}, ["pixels"]),
    ({"activations", "gradients"}, ["layers.1", "layers.4"]),
    ({"activations", "gradients"}, ["layers.2.norm", "layers.3.inner.0"]),  # inside of what is run again
    ({"attention", "attention_gradients"}, []),
    ({"heads", "head_gradients"}, []),
    ({"activations"}, ["layers.3"]),
]


def flat(recorded: Any) -> dict[str, Tensor]:
    tensors = {f"activation {k}": v for k, v in recorded.activations.items()}
    tensors |= {f"gradient {k}": v for k, v in recorded.gradients.items()}
    tensors |= {f"map {k}": v for k, v in recorded.attention.items()}
    tensors |= {f"slope {k}": v for k, v in recorded.attention_gradients.items()}
    for k, part in recorded.heads.items():
        tensors |= {f"value {k}": part.value, f"query {k}": part.query, f"out {k}": part.output_gradient}
    return {name: tensor.clone() for name, tensor in tensors.items() if tensor is not None}


@pytest.mark.parametrize(("want", "layers"), WANTS)
def test_values_are_bitwise_the_same(want: set[str], layers: list[str]) -> None:
    module, pixels = Tower(), torch.rand(2, 3, 8, 8)
    heads = [f"{name}.attend" for name in NAMES]
    with trace(module, pixels, [0, 3], layers, want, heads) as plain:
        expected = flat(plain)
    with trace(module, pixels, [0, 3], layers, want, heads, checkpointed=NAMES) as again:
        tensors = flat(again)
    assert expected
    assert tensors.keys() == expected.keys()
    assert all(torch.equal(tensors[name], expected[name]) for name in expected)
    assert all("forward" not in vars(layer) for layer in module.layers)  # as it was


def test_every_layer_runs_once_more_and_only_where_something_is_differentiated() -> None:
    module, pixels = Tower(), torch.rand(1, 3, 8, 8)
    with trace(module, pixels, [0], ["pixels"], checkpointed=NAMES):
        pass
    assert [layer.runs for layer in module.layers] == [2] * 6  # type: ignore[union-attr]  # blocks
    with trace(module, pixels, [0], ["layers.2"], {"activations"}, checkpointed=NAMES):
        pass
    assert [layer.runs for layer in module.layers] == [3] * 6  # type: ignore[union-attr]  # blocks


def test_a_layer_that_runs_twice_in_a_forward_is_still_an_error() -> None:
    module = Tower(2)
    module.layers[1] = module.layers[0]
    opened = trace(module, torch.rand(1, 3, 8, 8), [0], ["layers.0"], checkpointed=["layers.0"])
    with pytest.raises(BadInput, match="runs more than once"), opened:
        pass


def test_layers_are_as_they_were_even_if_something_raises() -> None:
    module = Tower()
    opened = trace(module, torch.rand(1, 3, 8, 8), lambda output: 1 / 0, ["pixels"], checkpointed=NAMES)
    with pytest.raises(ZeroDivisionError), opened:
        pass
    assert all("forward" not in vars(layer) for layer in module.layers)


def kept_bytes(layers: int, checkpointed: bool) -> int:
    """Most bytes that are kept for the backward pass at once: each storage once, of what autograd packs."""
    module, pixels = Tower(layers), torch.rand(2, 3, 8, 8)
    held: dict[int, int] = {}
    most = 0

    class Packed:
        def __init__(self, tensor: Tensor) -> None:
            nonlocal most
            self.tensor, self.key = tensor, tensor.untyped_storage().data_ptr()
            held[self.key] = tensor.untyped_storage().nbytes()
            most = max(most, sum(held.values()))

        def __del__(self) -> None:
            held.pop(self.key, None)

    weights = {parameter.untyped_storage().data_ptr() for parameter in module.parameters()}

    def pack(tensor: Tensor) -> Any:
        return tensor if tensor.untyped_storage().data_ptr() in weights else Packed(tensor)

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x.tensor if isinstance(x, Packed) else x):
        names = [f"layers.{k}" for k in range(layers)] if checkpointed else []
        with trace(module, pixels, [0, 1], ["pixels"], checkpointed=names):
            pass
    return most


def test_at_24_layers_a_third_is_kept_at_most() -> None:
    plain, checkpointed = kept_bytes(24, False), kept_bytes(24, True)
    assert checkpointed <= plain / 3
    assert kept_bytes(12, True) > 0


@pytest.mark.parametrize("key", ["grouped_queries"])
def test_a_session_checkpoints_the_layers_of_a_vlm(key: str) -> None:
    model = sequence_model(key)
    assert blocks(model.layers)
    assert not any(".norm" in name for name in blocks(model.layers))
    results = []
    for checkpointed in (False, True):
        session = Session(model, sequence_samples(), sequence_targets(key), checkpointed=checkpointed)
        recorded = session.trace(
            ["pixels", "vision.last", "decoder.last"], {"activations", "gradients", "head_gradients"}
        )
        results.append(flat(recorded))
        assert session.only(0).checkpointed == checkpointed
    assert all(torch.equal(results[1][name], results[0][name]) for name in results[0])
