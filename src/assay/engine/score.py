"""`score(maps, masks)`: every localisation metric over saved arrays, as a table of rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from assay.datasets.arrays import load_array
from assay.kernel.attribution import resize_maps
from assay.kernel.errors import BadInput
from assay.kernel.registry import build, registered
from assay.protocols.localize import score_maps

if TYPE_CHECKING:
    import pandas as pd

_TAKES_MASKS = ("localization/", "ranking/")


def score(maps: Any, masks: Any, metrics: Sequence[str] | None = None) -> pd.DataFrame:
    """One row per map × metric: value, status, reason. `maps` and `masks` are arrays or paths of .npy files.

    Maps (n, h, w) are resized to the masks (n, H, W); masks are never interpolated.
    """
    import pandas as pd

    maps = load_array(maps, "--maps") if isinstance(maps, str | Path) else np.asarray(maps)
    masks = load_array(masks, "--masks") if isinstance(masks, str | Path) else np.asarray(masks)
    if maps.ndim != 3 or masks.ndim != 3 or len(maps) != len(masks):
        raise BadInput(
            f"maps and masks must be (n, h, w) and (n, H, W) with the same n; got {maps.shape} and {masks.shape}."
        )
    if maps.dtype.kind not in "fiu":
        raise BadInput(f"maps must hold numbers; got {maps.dtype}.")
    chosen = metrics or [name for name in registered("metric") if name.startswith(_TAKES_MASKS)]
    for name in chosen:
        if not name.startswith(_TAKES_MASKS):
            raise BadInput(
                f"{name} needs more than masks; `assay score` takes metrics of {' and '.join(_TAKES_MASKS)}."
            )
    built = {name: build("metric", name, {}) for name in chosen}
    shown = resize_maps(np.asarray(maps, dtype=np.float64), *masks.shape[1:])
    rows = []
    for name, metric in built.items():
        outcomes = score_maps(metric, shown, np.asarray(masks) != 0)
        for i, value in enumerate(outcomes.values):
            status = (
                "failure" if i in outcomes.failures else "not_applicable" if i in outcomes.not_applicable else "score"
            )
            rows.append((i, name, value, status, outcomes.failures.get(i) or outcomes.not_applicable.get(i)))
    return pd.DataFrame(rows, columns=["sample", "metric", "value", "status", "reason"])
