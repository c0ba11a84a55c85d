"""Slow twins of CAMs: one sample, one channel, one place at a time, as the papers write them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def hirescam(activations: npt.NDArray[Any], gradients: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Draelos and Carin 2020: of (c, h, w) the sum over channels of gradient times activation at each place, ReLU."""
    channels, rows, columns = activations.shape
    cam = np.zeros((rows, columns))
    for y in range(rows):
        for x in range(columns):
            for c in range(channels):
                cam[y, x] += float(gradients[c, y, x]) * float(activations[c, y, x])
            cam[y, x] = max(cam[y, x], 0.0)
    return cam
