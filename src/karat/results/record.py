"""`record(run, out)`: a finished run without its maps, small enough for a repository, and read like any run."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import ClassVar

import numpy as np
import safetensors.numpy

from karat.kernel.errors import BadInput
from karat.results.details import KEYS, Details
from karat.results.facts import KINDS
from karat.results.run import Piece, Run, ShardView
from karat.results.store import Store

SCORES, DETAILS = "scores.parquet", "details.safetensors"
HASHES = "recorded"  # in the manifest: sha256 of scores and details, by name; other files have seals
_KEPT = ("spec.json", "findings.json")
TEXT = "text:"  # before the name of a detail that is words


class Record(Run):
    """What `record` wrote. Values are as the run has them; maps are gone, so a page has tables but no samples.

    The manifest has the hashes of scores and details (those of older records have none).
    """

    _unordered: ClassVar[bool] = False  # they were put in order when they were recorded

    def details(self, metric: str) -> Details:
        """Rows of the kept metric in the order of their keys."""
        try:
            listed = DETAILS in self.manifest.get(HASHES, {}) or self.store.exists(DETAILS)
            kept = safetensors.numpy.load(self._whole(DETAILS)) if listed else {}
            arrays = {
                key.rpartition("/")[2]: values for key, values in kept.items() if key.rpartition("/")[0] == metric
            }
            texts = {
                name.removeprefix(TEXT): json.loads(arrays.pop(name).tobytes())
                for name in list(arrays)
                if name.startswith(TEXT)
            }
        except (safetensors.SafetensorError, ValueError, KeyError):
            raise self._altered(DETAILS) from None
        scores = self.scores(metrics=[metric], columns=KEYS)
        if not arrays and not texts:
            return Details(scores.loc[[], list(KEYS)])
        rows = scores.sort_values(list(KEYS), kind="stable")
        return Details(rows.loc[:, list(KEYS)].reset_index(drop=True), arrays, texts)

    def shards(self) -> Iterator[ShardView]:
        return iter(())

    def pieces(self, held: Collection[str] = (), columns: Collection[str] | None = None) -> Iterator[Piece]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        if SCORES not in held:
            try:
                file = pq.ParquetFile(pa.BufferReader(self._whole(SCORES)))
                table = file.read(columns and [name for name in file.schema_arrow.names if name in columns])
            except (pa.ArrowException, OSError, ValueError, KeyError):
                raise self._altered(SCORES) from None
            yield Piece(SCORES, table, None)

    def damaged(self) -> list[str]:
        known = self.manifest.get(HASHES, {})
        return [name for name in known if not self.store.exists(name) or _hash(self.store.read(name)) != known[name]]

    def _whole(self, name: str) -> bytes:
        if not self.store.exists(name):
            raise BadInput(f"{self.path}/{name} is missing. Take it from where it was kept again.")
        data = self.store.read(name)
        if self.manifest.get(HASHES, {}).get(name, _hash(data)) != _hash(data):
            raise self._altered(name)
        return data

    def _altered(self, name: str) -> BadInput:
        return BadInput(f"{self.path}/{name} was altered after it was recorded. Take it from where it was kept again.")


def record(run: Run, out: str | Path, details: tuple[str, ...] = ()) -> Record:
    """Write scores in one file, all details of the named metrics in another, and what the run says about itself."""
    import pandas as pd

    store = Store(out)
    scores = run.scores()
    scores = scores.drop(columns=[name for name in scores if str(name).partition(".")[0] in KINDS and "." in str(name)])
    names = [name for name, kind in scores.dtypes.items() if str(kind) == "object"]
    buffer = io.BytesIO()
    scores.astype(dict.fromkeys(names, "category")).to_parquet(
        buffer, index=False, compression="zstd", compression_level=15
    )
    files = {SCORES: buffer.getvalue()}
    arrays = {}
    for metric in details:
        kept = run.details(metric)
        if not len(kept):
            raise BadInput(f"{run.path}: there are no details of {metric}.")
        rows = pd.MultiIndex.from_frame(scores.loc[scores["metric"] == metric, list(KEYS)].sort_values(list(KEYS)))
        places = pd.MultiIndex.from_frame(kept.keys.loc[:, list(KEYS)]).get_indexer(rows)
        for name, values in kept.arrays.items():
            chosen = values[places].copy()
            chosen[places < 0] = np.nan  # a failure has none
            arrays[f"{metric}/{name}"] = np.ascontiguousarray(chosen)
        for name, texts in kept.texts.items():
            written = json.dumps([texts[place] if place >= 0 else "" for place in places.tolist()], ensure_ascii=False)
            arrays[f"{metric}/{TEXT}{name}"] = np.frombuffer(written.encode(), dtype=np.uint8)
    if arrays:
        files[DETAILS] = safetensors.numpy.save(arrays)
    for name, data in files.items():
        store.write(name, data)
    for name in _KEPT:
        if run.store.exists(name):
            store.write_json(name, run.store.read_json(name))
    store.write_json("manifest.json", {**run.manifest, HASHES: {name: _hash(data) for name, data in files.items()}})
    return Record(store)


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
