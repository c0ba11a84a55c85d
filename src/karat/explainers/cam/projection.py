"""The first principal component of a feature map: what EigenCAM draws and what eigen smoothing keeps."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from scipy.linalg import eigh
from torch import Tensor

Sign = Literal["largest", "svd"]


def first_component(features: Tensor, sign: Sign = "largest") -> Tensor:
    """(n, c, h, w) to (n, h, w): each place's vector, centred over the places, projected on their first component.

    The direction of a component is arbitrary. "largest" turns it so that the entry of largest absolute value is
    positive (Chung and Ying 2025, Eq. 13), which does not depend on where things are in the image; "svd" takes what
    LAPACK happens to give, as pytorch-grad-cam does. A sample that is the same
    everywhere has no component and gets zeros; one with NaN gets NaN.
    """
    n, _, rows, columns = features.shape
    places = features.flatten(2).transpose(1, 2).cpu().numpy()  # (n, places, c)
    centred = places - places.mean(axis=1, keepdims=True)
    rounding = 4 * np.finfo(places.dtype).eps * np.abs(places).max(axis=(1, 2), initial=0.0)
    found = np.full((n, rows * columns), np.nan, dtype=places.dtype)
    for i, sample in enumerate(centred):
        if np.abs(sample).max() <= rounding[i]:
            found[i] = 0.0
        elif np.isfinite(sample).all():
            found[i] = _project(sample) if sign == "largest" else sample @ np.linalg.svd(sample, False)[2][0]
    return torch.from_numpy(found.reshape(n, rows, columns)).to(features.device)


def _project(sample: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """(places, c) to (places,), by the smaller of the two Gram matrices: only one eigenvector is needed."""
    exact = sample.astype(np.float64)
    tall = exact.shape[0] > exact.shape[1]
    gram = exact.T @ exact if tall else exact @ exact.T
    last = len(gram) - 1
    value, vector = eigh(gram, subset_by_index=(last, last), check_finite=False)
    projection = exact @ vector[:, 0] if tall else vector[:, 0] * np.sqrt(max(value[0], 0.0))
    return projection if projection.max() >= -projection.min() else -projection
