"""SSS of maps that know nothing: the same everywhere, and a blob of the object's size at a random place.

The second asks less of the map's fineness and more of its place: SSS of a coarse map is high on small objects whatever
the method, and low on objects in the middle of the image.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from karat.kernel.typing import Mask


def chances(mask: Mask, ignored: Mask | None = None) -> tuple[float, float]:
    """SSS of a uniform map, and the expected SSS of a blob at a random place.

    Args:
        mask: (H, W), the object; some of its pixels count.
        ignored: (H, W), pixels that count for nothing.

    Returns:
        (uniform, blob), each from 0 to 1.

    Example:
        >>> chances(np.array([[True, False], [False, False]]))
        (0.75, 0.75)
        >>> centre = np.zeros((9, 9), dtype=bool)
        >>> centre[3:6, 3:6] = True
        >>> uniform, blob = chances(centre)
        >>> round(uniform, 3), round(blob, 3)
        (0.889, 0.816)
    """
    counted = np.ones_like(mask) if ignored is None else ~ignored
    inside = mask & counted
    uniform = 1 - np.count_nonzero(inside) / np.count_nonzero(counted)
    covered = blob_cover(mask.shape, int(np.count_nonzero(inside)))
    return float(uniform), float(1 - covered[inside].sum() / covered[counted].sum())


def blob_cover(shape: tuple[int, ...], area: int) -> npt.NDArray[np.float64]:
    """(H, W) how often each pixel lies in a blob of about `area` pixels, over all its places inside the image.

    The blob is a rectangle with the proportions of the image, so that it fits whatever its area.
    """
    share = np.sqrt(area / (shape[0] * shape[1]))
    rows, columns = (_cover(length, int(np.clip(round(share * length), 1, length))) for length in shape)
    return np.outer(rows, columns)


def _cover(length: int, side: int) -> npt.NDArray[np.float64]:
    """(length,) share of the places of an interval of `side` cells, wholly inside, that cover each cell."""
    starts = length - side + 1
    at = np.arange(length)
    return (np.minimum(at, length - side) - np.maximum(at - side + 1, 0) + 1) / starts
