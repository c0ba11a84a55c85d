"""What every metric on maps does first and last: check shapes, pick NumPy or torch, walk the batch in blocks.

Letters: n samples, c = h * w cells of a map. torch is never imported here: a tensor brings its own module along.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from karat.kernel.errors import BadInput

Array = Any  # a NumPy array or a torch tensor; the shape stands in the docstring
Floats = npt.NDArray[np.float64]
Formula = Callable[..., Array]  # flattened maps (n, c) and what goes with them to (n,) or (n, k)

# A block of this many cells, and the few temporaries of its size, stay in the processor's cache and out of swap.
CELLS_PER_BLOCK = 1 << 17


class Scratch:
    """Memory that one block hands on to the next: page faults on fresh arrays would cost more than the arithmetic."""

    def __init__(self) -> None:
        self._held: dict[object, npt.NDArray[Any]] = {}

    def array(self, name: object, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """An array with arbitrary contents, the same memory each time for the same name."""
        size = math.prod(shape)
        if name not in self._held or self._held[name].size < size:
            self._held[name] = np.empty(size, dtype)
        return self._held[name][:size].reshape(shape)


def is_tensor(array: Any) -> bool:
    return any(base.__module__.partition(".")[0] == "torch" for base in type(array).__mro__)


def to_numpy(array: Any) -> npt.NDArray[Any]:
    """Any array as NumPy, without its gradient; 16-bit floats of torch become float32 first."""
    if not is_tensor(array):
        return np.asarray(array)
    array = array.detach().cpu()
    return np.asarray(array.float().numpy() if array.is_floating_point() and array.itemsize < 4 else array.numpy())


def flatten(maps: Array) -> Array:
    """(n, h, w) to (n, c); also where n is 0, for which -1 has no meaning."""
    return maps.reshape(len(maps), math.prod(maps.shape[1:]))


def as_maps(maps: Any, what: str = "maps") -> Array:
    """Check that `maps` is a numeric batch (n, h, w), and say what to do where it is not."""
    if not is_tensor(maps):
        maps = np.asarray(maps)
        if maps.dtype.kind not in "fiub":
            raise BadInput(f"{what} must hold real numbers; got dtype {maps.dtype}.")
    shape = tuple(maps.shape)
    if len(shape) == 2:
        raise BadInput(f"{what} must be a batch (n, h, w); got {shape}. For one map add a batch axis: {what}[None].")
    if len(shape) == 4:
        raise BadInput(f"{what} must be a batch (n, h, w); got {shape}. Reduce the channels first: {what}.sum(1).")
    if len(shape) != 3:
        raise BadInput(f"{what} must be a batch (n, h, w); got {shape}.")
    if shape[1] * shape[2] == 0:
        raise BadInput(f"{what} have no cells: got {shape}.")
    return maps


def as_masks(masks: Any, maps: Array) -> Array:
    """Check that there is one mask per map and of its size; masks may be bool, 0/1 or 0/255. Returns bool."""
    if not is_tensor(masks):
        masks = np.asarray(masks)
    _same_shape(masks, maps, "masks")
    if _is_bool(masks) or len(masks) == 0:
        return masks
    if not bool(((masks == 0) | (masks == masks.max())).all()):
        raise BadInput("masks hold more than two values. Say which cells belong: masks > 0.5, or labels == class_id.")
    return masks != 0


def as_truth(truth: Any, maps: Array) -> Array:
    """Check that there is one truth map (scores, not a mask) per map and of its size. Never bool."""
    if not is_tensor(truth):
        truth = np.asarray(truth)
    _same_shape(truth, maps, "truth")
    return truth + 0.0 if _is_bool(truth) else truth


def _is_bool(array: Array) -> bool:
    return str(array.dtype).rpartition(".")[2] == "bool"


def _same_shape(truth: Array, maps: Array, what: str) -> None:
    got, expected = tuple(truth.shape), tuple(maps.shape)
    if got == expected:
        return
    if len(got) == 2:
        remedy = f"One for all maps? np.broadcast_to({what}, maps.shape)."
    elif len(got) == 3 and got[0] == expected[0]:
        remedy = f"Bring the maps to that size: karat.kernel.attribution.resize_maps(maps, {got[1]}, {got[2]})."
    else:
        remedy = "Give one per map."
    raise BadInput(f"{what} must have the shape of maps, {expected}; got {got}. {remedy}")


def score(formula: Formula, maps: Array, *others: Array) -> Array:
    """Apply formula(xp, maps (n, c), *others): NumPy block by block in float64, a tensor at once in its own dtype.

    `xp` is numpy or torch. A NumPy block is a copy that the formula may write on.
    """
    if not is_tensor(maps):
        return score_numpy(partial(formula, np), maps, *others)
    flat = flatten(maps)
    if not flat.is_floating_point() or flat.itemsize < 4:
        flat = flat.float()  # sums of thousands of 16-bit numbers would drown
    return formula(sys.modules["torch"], flat, *(flatten(_tensor_like(other, flat)) for other in others))


def score_numpy(formula: Formula, maps: Array, *others: Array, ordinal: bool = False) -> Array:
    """Apply formula(maps (n, c), *others), which has no gradient, block by block; a tensor makes the round trip.

    `ordinal` formulas look at the order of values only: their blocks stay float32 where they are, and may not be
    written on. Others get a copy in float64.
    """
    arrays = [flatten(to_numpy(array)) for array in (maps, *others)]
    step = max(1, CELLS_PER_BLOCK // arrays[0].shape[1])
    scratch = Scratch()

    def block(place: int, start: int) -> npt.NDArray[Any]:
        part = arrays[place][start : start + step]
        if (place and _is_bool(part)) or (ordinal and part.dtype in (np.float32, np.float64)):
            return np.ascontiguousarray(part)
        copy = scratch.array(place, part.shape, np.float64)
        copy[...] = part
        return copy

    starts = range(0, max(len(maps), 1), step)
    values = np.concatenate([formula(*(block(place, start) for place in range(len(arrays)))) for start in starts])
    return _tensor_like(values, maps, dtype=True) if is_tensor(maps) else values


def _tensor_like(array: Array, maps: Array, dtype: bool = False) -> Array:
    torch = sys.modules["torch"]
    if not is_tensor(array):
        array = np.require(array, requirements="W")  # torch warns of read-only memory
    kind = (maps.dtype if maps.is_floating_point() and maps.itemsize >= 4 else torch.float32) if dtype else None
    return torch.as_tensor(array, device=maps.device, dtype=kind)


def tidy(xp: ModuleType, maps: Array, rescale: bool = True) -> tuple[Array, Array]:
    """(maps, usable): rows with NaN or inf and rows of zeros are not usable and become 0, so that no warning, and no
    NaN gradient, leaks from them. With `rescale`, rows near the ends of the float range are brought near 1: no
    metric on maps depends on the scale, but sums and squares overflow. (Order survives anywhere; division could tie.)
    """
    values = maps if xp is np else maps.detach()
    peak = xp.maximum(-xp.amin(values, -1), xp.amax(values, -1))
    usable = xp.isfinite(peak) & (peak > 0)
    large = float(xp.finfo(values.dtype).max) ** 0.5
    ordinary = usable & (peak < large) & (peak > 1 / large)
    if not bool((ordinary if rescale else usable).all()):
        maps = xp.where(usable[:, None], maps, 0.0)
        if rescale:
            # by a power of two, which rounds nothing: ties stay ties
            power = xp.exp2(xp.floor(xp.log2(xp.where(usable & ~ordinary, peak, 1.0))))
            maps = maps / power[:, None]
    return maps, usable
