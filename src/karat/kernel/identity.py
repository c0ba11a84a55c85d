"""Identity: the canonical form of parameters, and the seeds and names that follow from it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from karat.kernel.errors import BadInput


def canonical(value: Any) -> Any:
    """Plain JSON data with one spelling per meaning: sorted keys, lists for tuples and sets.

    A field of a dataclass whose metadata has `identity: False` decides what is concluded and no row: it is left out.

    >>> canonical({"b": (1, 2), "a": None})
    {'a': None, 'b': [1, 2]}
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            raise BadInput(f"{value} cannot be part of an identity: parameters must be finite numbers.")
        return value
    if isinstance(value, np.generic):
        return canonical(value.item())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = sorted(dataclasses.fields(value), key=lambda f: f.name)
        return {f.name: canonical(getattr(value, f.name)) for f in fields if f.metadata.get("identity", True)}
    if isinstance(value, Mapping):
        return {str(key): canonical(value[key]) for key in sorted(value, key=str)}
    if isinstance(value, set | frozenset):
        return sorted((canonical(item) for item in value), key=lambda item: json.dumps(item, sort_keys=True))
    if isinstance(value, list | tuple):
        return [canonical(item) for item in value]
    raise BadInput(
        f"a parameter of type {type(value).__name__} has no canonical form; use numbers, strings, lists, dicts."
    )


def digest(value: Any, length: int = 16) -> str:
    """Hex name of a canonical value."""
    text = json.dumps(canonical(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def source(thing: Any) -> str:
    """Digest of the file that a class or function of somebody else's is written in; empty for Karat's own.

    Karat's parts carry versions. Those of users change from run to run, and rows of old code must not pass for new.
    """
    module = sys.modules.get(thing.__module__)
    path = getattr(module, "__file__", None)
    if thing.__module__.partition(".")[0] == "karat" or path is None:
        return ""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()[:16]


def generator(run_seed: int, sample_id: str, component: str) -> np.random.Generator:
    """The stream of one component on one sample: the same for any batch, order and number of workers."""
    name = f"{run_seed}\x00{sample_id}\x00{component}".encode()
    key = np.frombuffer(hashlib.sha256(name).digest()[:16], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key))
