"""Batches in the parts that can be carried out: inputs of one size, and as many as fit into memory."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import groupby
from typing import TypeVar

from karat.kernel.errors import KaratError
from karat.kernel.sample import Sample
from karat.models.torch_model import SizesBatches

T = TypeVar("T")
_OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "not enough memory", "alloc_failed")


def in_parts(keys: Sequence[Hashable], call: Callable[[list[int]], Sequence[T]]) -> list[T]:
    """Results in the order of `keys`. `call` gets the positions of one key at a time; if these do not fit into memory,
    half of them, down to one."""
    groups: dict[Hashable, list[int]] = {}
    for position, key in enumerate(keys):
        groups.setdefault(key, []).append(position)
    results: dict[int, T] = {}
    for group in groups.values():
        size = at = 0
        while at < len(group):
            size = min(size or len(group), len(group) - at)
            part = group[at : at + size]
            try:
                results |= dict(zip(part, call(part), strict=True))
            except (MemoryError, RuntimeError) as error:
                if size == 1 or not is_out_of_memory(error):
                    raise
            else:
                at += size
                continue
            # Outside of `except`, so that the failed frames and the tensors they hold are gone before the next try.
            size //= 2
    return [results[position] for position in range(len(keys))]


def encodable_runs(model: object, samples: Sequence[Sample]) -> list[Sequence[Sample]]:
    """The samples cut into runs that `model` can encode together, in their order. One run where it takes any."""
    if not isinstance(model, SizesBatches):
        return [samples]
    return [list(run) for _, run in groupby(samples, key=lambda sample: _key(model, sample))]


def _key(model: SizesBatches, sample: Sample) -> Hashable:
    try:
        return model.batch_key(sample)
    except KaratError:  # whoever encodes it will say what is wrong
        return sample.id


def is_out_of_memory(error: BaseException) -> bool:
    """Told by its text, so that torch need not be imported."""
    return isinstance(error, MemoryError) or any(sign in str(error).lower() for sign in _OUT_OF_MEMORY)
