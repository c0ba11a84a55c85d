"""`score(maps, masks)`: every localisation metric over saved arrays, as a table of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from karat.datasets.arrays import load_archive, load_array
from karat.kernel.attribution import resize_maps
from karat.kernel.errors import BadInput
from karat.kernel.registry import build, registered
from karat.protocols.common.localize import score_maps, takes_masks

if TYPE_CHECKING:
    import pandas as pd

_Array = np.ndarray[Any, Any]


def score(maps: Any, masks: Any, metrics: Sequence[str] | None = None) -> pd.DataFrame:
    """One row per map × metric: sample, metric, value, status, reason.

    `maps` and `masks` are arrays (n, h, w) and (n, H, W), or paths: an .npy of all, an .npz, or a folder of .npy files.
    Members of the last two are paired by name, may differ in size, and name the samples. A channel axis, (n, c, h, w)
    as in the x, y, a, s batches of Quantus, is added up in maps; a mask is set where any of its channels is. Maps are
    resized to their masks; masks are never interpolated.
    """
    import pandas as pd

    chosen = list(metrics) if metrics else [name for name in registered("metric") if takes_masks(name)]
    for name in chosen:
        if not takes_masks(name):
            raise BadInput(f"{name} needs more than masks; `karat score` takes metrics called with (maps, masks).")
    built = {name: build("metric", name, {}) for name in chosen}
    pairs = _paired(_named(maps, "--maps"), _named(masks, "--masks"))
    groups: dict[tuple[Any, ...], list[tuple[int | str, _Array, _Array]]] = {}
    for key, one, mask in pairs:
        groups.setdefault((one.shape, mask.shape), []).append((key, one, mask))
    rows = []
    for (_, size), members in groups.items():
        keys, stacked, truth = zip(*members, strict=True)
        resized = resize_maps(np.stack(stacked), *size)
        for name, metric in built.items():
            outcomes = score_maps(metric, resized, np.stack(truth))
            for i, key in enumerate(keys):
                missing = outcomes.failures.get(i) or outcomes.not_applicable.get(i)
                status = "failure" if i in outcomes.failures else "not_applicable" if missing else "score"
                rows.append((key, name, outcomes.values[i], status, missing))
    table = pd.DataFrame(rows, columns=["sample", "metric", "value", "status", "reason"])
    order = {name: k for k, name in enumerate(chosen)}
    return table.sort_values("metric", key=lambda column: column.map(order), kind="stable", ignore_index=True)


def _named(given: Any, what: str) -> Mapping[int | str, _Array]:
    """Arrays by the name of their file or archive member, by number where they have none."""
    if not isinstance(given, str | Path):
        return _rows(np.asarray(given), what)
    path = Path(given)
    if path.is_dir():
        files = sorted(path.glob("*.npy"))
        if not files:
            raise BadInput(f"{what}: there is no .npy file in the folder {path}.")
        return {file.stem: load_array(file, what) for file in files}
    if path.suffix == ".npz" and path.is_file():
        with load_archive(path, what) as archive:
            try:
                return {name: archive[name] for name in sorted(archive.files)}
            except Exception:  # a damaged member raises whatever it likes
                raise BadInput(f"{what}: {path} is damaged. Save it with numpy.savez().") from None
    return _rows(load_array(path, what), what)


def _rows(stacked: _Array, what: str) -> Mapping[int | str, _Array]:
    if stacked.ndim not in (3, 4):
        raise BadInput(f"{what} must be (n, h, w) or (n, c, h, w); got {stacked.shape}.")
    return dict(enumerate(stacked))


def _paired(
    maps: Mapping[int | str, _Array], masks: Mapping[int | str, _Array]
) -> list[tuple[int | str, _Array, _Array]]:
    if set(maps) != set(masks):
        if len(maps) != len(masks):
            raise BadInput(f"there must be one mask per map; got {len(maps)} maps and {len(masks)} masks.")
        odd = sorted(map(str, set(maps) ^ set(masks)))
        raise BadInput(f"maps and masks are paired by name; {', '.join(odd[:4])} have no partner.")
    return [(key, _map(value, key), _mask(masks[key], key)) for key, value in maps.items()]


def _map(value: _Array, key: int | str) -> _Array:
    if value.dtype.kind not in "fiu":
        raise BadInput(f"maps must hold numbers; map {key} holds {value.dtype}.")
    wide = np.asarray(value, dtype=np.float64)
    flat = wide.sum(axis=0) if wide.ndim == 3 else wide
    if flat.ndim != 2 or not flat.size:
        raise BadInput(f"maps must be (n, h, w) or (n, c, h, w); map {key} is {value.shape}.")
    return flat


def _mask(value: _Array, key: int | str) -> _Array:
    inside = np.asarray(value) != 0
    flat = inside.any(axis=0) if inside.ndim == 3 else inside
    if flat.ndim != 2 or not flat.size:
        raise BadInput(f"masks must be (n, H, W) or (n, 1, H, W); mask {key} is {value.shape}.")
    return flat
