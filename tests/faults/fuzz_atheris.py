"""Coverage-guided fuzzing of what reads untrusted bytes: spec files, .npy arrays, JSON lines, score shards.

    python tests/faults/fuzz_atheris.py [-runs=10000]

Not a pytest module: atheris takes the process over. Any error that is not Assay's own ends it with a traceback.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["assay.kernel", "assay.results", "assay.datasets.arrays", "yaml"]):
    from assay.datasets.arrays import load_array
    from assay.kernel.errors import AssayError
    from assay.kernel.spec import Spec
    from assay.results.shard import read_shard
    from assay.results.store import Store

FOLDER = Path(tempfile.mkdtemp())
STORE = Store(FOLDER)


def one(data: bytes) -> None:
    which, rest = data[:1], data[1:]
    with contextlib.suppress(AssayError):
        if which < b"\x40":
            (FOLDER / "spec.yaml").write_bytes(rest)
            Spec.read(FOLDER / "spec.yaml")
        elif which < b"\x80":
            (FOLDER / "map.npy").write_bytes(rest)
            load_array(FOLDER / "map.npy", "maps")
        elif which < b"\xc0":
            (FOLDER / "events.jsonl").write_bytes(rest)
            list(STORE.lines("events.jsonl"))
            (FOLDER / "manifest.json").write_bytes(rest)
            STORE.read_json("manifest.json")
        else:
            name = STORE.write_shard("scores", ".parquet", rest)  # a right name over wrong content
            try:
                read_shard(STORE, name)
            finally:
                STORE.remove(name)


def seeds() -> Path:
    """Sound inputs to start from: bytes at random rarely get past a magic number."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = Path(tempfile.mkdtemp())
    spec = b"protocol: localization\nmodels: [a]\ndatasets: [{name: b, n: 3}]\nexplainers: [c]\nseed: 1\n"
    (folder / "spec").write_bytes(b"\x00" + spec)
    np.save(folder / "map.npy", np.ones((2, 3, 3)))
    (folder / "map").write_bytes(b"\x41" + (folder / "map.npy").read_bytes())
    (folder / "lines").write_bytes(b'\x81{"event": "run_done", "rows": 3}\n{"event": 1}\n')
    table = pa.table({"value": [1.0]}).replace_schema_metadata({"assay": '{"format": 1, "cells": []}'})
    pq.write_table(table, folder / "shard.parquet")
    (folder / "shard").write_bytes(b"\xc1" + (folder / "shard.parquet").read_bytes())
    return folder


if __name__ == "__main__":
    atheris.Setup([*sys.argv, str(seeds())], one)
    atheris.Fuzz()
