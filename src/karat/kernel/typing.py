"""Names for every kind of array in the system: shape and meaning in one place.

Letters: n samples, H and W pixels, h and w map cells, m coalitions, p players.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Image = npt.NDArray[np.uint8]  # (H, W, 3)
Mask = npt.NDArray[np.bool_]  # (H, W), True = belongs to the region
Masks = npt.NDArray[np.bool_]  # (n, H, W)
Map = npt.NDArray[np.floating[Any]]  # (h, w)
Maps = npt.NDArray[np.floating[Any]]  # (n, h, w)
Values = npt.NDArray[np.float64]  # (n,), NaN where there is no answer
Keep = npt.NDArray[np.bool_]  # (m, p), True = the player is kept

Box = tuple[int, int, int, int]  # x, y, width, height in pixels
Span = tuple[int, int]  # start, end (exclusive) in characters
Scalar = str | int | float | bool | None
Meta = Mapping[str, Scalar]

Space = Literal["pixel", "patch", "token", "cell", "superpixel"]
