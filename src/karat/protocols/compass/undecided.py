"""A model that finds all four options alike: what controls are read beside, where no model is meant to be judged."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def undecided(images: npt.NDArray[np.uint8], texts: list[str | None]) -> npt.NDArray[np.float64]:
    """(n, 4) probabilities of the options, .25 each; for `karat.models.blackbox`."""
    return np.full((len(images), 4), 0.25)
