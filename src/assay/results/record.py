"""`record(run, out)`: a finished run without its maps, small enough for a repository, and read like any run."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import safetensors.numpy

from assay.kernel.errors import BadInput
from assay.results.run import KEYS, Run, ShardView
from assay.results.store import Store

if TYPE_CHECKING:
    import pandas as pd

SCORES, DETAILS = "scores.parquet", "details.safetensors"
_KEPT = ("spec.json", "manifest.json", "findings.json")


class Record(Run):
    """What `record` wrote. Values are rounded to float32; maps are gone, so a page has tables but no samples."""

    def scores(self) -> pd.DataFrame:
        import pandas as pd

        frame = pd.read_parquet(io.BytesIO(self.store.read(SCORES)))
        named = {name: "object" for name, kind in frame.dtypes.items() if str(kind) == "category"}
        return frame.astype({**named, "value": np.float64})

    def details(self, metric: str) -> tuple[pd.DataFrame, np.ndarray[Any, Any]]:
        """Rows of the kept metric in the order of `scores`."""
        kept = safetensors.numpy.load(self.store.read(DETAILS)) if self.store.exists(DETAILS) else {}
        scores = self.scores()
        if metric not in kept:
            return scores.loc[[], list(KEYS)], np.empty((0, 0), np.float32)
        rows = scores[scores["metric"] == metric].sort_values(list(KEYS), kind="stable")
        return rows.loc[:, list(KEYS)].reset_index(drop=True), kept[metric]

    def shards(self) -> Iterator[ShardView]:
        return iter(())

    def damaged(self) -> list[str]:
        return []


def record(run: Run, out: str | Path, details: tuple[str, ...] = ()) -> Record:
    """Write scores in one file, the named details in another, and what the run says about itself."""
    import pandas as pd

    store = Store(out)
    for name in _KEPT:
        if run.store.exists(name):
            store.write_json(name, run.store.read_json(name))
    scores = run.scores()
    names = [name for name, kind in scores.dtypes.items() if str(kind) == "object"]
    buffer = io.BytesIO()
    scores.astype({**dict.fromkeys(names, "category"), "value": np.float32}).to_parquet(
        buffer, index=False, compression="zstd", compression_level=15
    )
    store.write(SCORES, buffer.getvalue())
    arrays = {}
    for metric in details:
        keys, values = run.details(metric)
        if not len(keys):
            raise BadInput(f"{run.path}: there are no details of {metric}.")
        rows = pd.MultiIndex.from_frame(scores.loc[scores["metric"] == metric, list(KEYS)].sort_values(list(KEYS)))
        places = pd.MultiIndex.from_frame(keys.loc[:, list(KEYS)]).get_indexer(rows)
        found = np.where((places >= 0)[:, None], values[places], np.nan)  # a failure has none
        arrays[metric] = np.ascontiguousarray(found, dtype=np.float16)
    if arrays:
        store.write(DETAILS, safetensors.numpy.save(arrays))
    return Record(store)
