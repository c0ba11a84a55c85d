"""Weights of `gridnet` on disk: one safetensors file that carries its own sizes. Nothing else is ever loaded."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from karat.kernel.errors import BadInput
from karat.models.gridnet.network import GridNetwork, Shape
from karat.models.gridnet.vocabulary import words
from karat.models.training.batches import N_ROLES, N_WORD_ROLES

ANSWER_TYPES = (2, 4, 37)  # yes/no, directions, counts 0..36


def default_shape() -> Shape:
    return Shape(vocabulary=len(words()), answer_types=ANSWER_TYPES, roles=N_ROLES, word_roles=N_WORD_ROLES)


def save_network(network: GridNetwork, path: Path) -> Path:
    """Write a network in half precision, with its sizes; it is read back and computed with in single precision."""
    from safetensors.torch import save_file

    path.parent.mkdir(parents=True, exist_ok=True)
    tensors = {name: tensor.detach().cpu().half().contiguous() for name, tensor in network.state_dict().items()}
    shape = json.dumps(dataclasses.asdict(network.shape), sort_keys=True)
    save_file(tensors, path, metadata={"format": "pt", "architecture": "gridnet", "shape": shape})
    return path


def load_network(path: Path) -> GridNetwork:
    """The network of a weights file; a truncated file or one of another model is refused with the reason."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # safe_open is no mapping
    except FileNotFoundError:
        raise BadInput(f"there is no weights file at {path}; train one with `karat train gridnet`.") from None
    except (SafetensorError, OSError) as error:
        raise BadInput(f"{path} is not a whole safetensors file: {error}. Train it again or fetch it anew.") from None
    if metadata.get("architecture") != "gridnet":
        raise BadInput(f"{path} holds weights of {metadata.get('architecture', 'some other model')!r}, not of gridnet.")
    network = GridNetwork(_shape(metadata.get("shape", ""), path))
    expected = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
    got: dict[str, Any] = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    for name in sorted(expected.keys() | got.keys()):
        if expected.get(name) != got.get(name):
            raise BadInput(f"{path}: weight {name!r} is {got.get(name)}; the network needs {expected.get(name)}.")
    network.load_state_dict(tensors)
    network.eval()
    for parameter in network.parameters():
        parameter.requires_grad_(False)
    return network


def _shape(text: str, path: Path) -> Shape:
    try:
        data = json.loads(text)
        return Shape(**{**data, "answer_types": tuple(data["answer_types"])})
    except (ValueError, TypeError, KeyError):
        raise BadInput(f"{path} does not say its sizes; it was not written by `karat train gridnet`.") from None
