"""Coverage-guided fuzzing of what reads untrusted bytes: spec files, arrays, JSON lines, shards, images and masks.

    python tests/faults/fuzz_atheris.py [-runs=10000]

Not a pytest module (`test_guided.py` calls it): atheris takes the process over. Any error that is not one of those that
a run turns into one line or a Failure ends it with a traceback.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
import warnings
from pathlib import Path

import atheris

with atheris.instrument_imports(
    include=["karat.kernel", "karat.results", "karat.datasets.arrays", "karat.datasets.segmentation", "yaml",
             "PIL.PngImagePlugin", "PIL.BmpImagePlugin", "PIL.GifImagePlugin", "PIL.ImageFile"]
):  # fmt: skip
    from PIL import Image

    from karat.datasets.arrays import load_array
    from karat.datasets.segmentation.files import read_image, read_indexed
    from karat.kernel.errors import KaratError
    from karat.kernel.spec import Spec
    from karat.results.shard import read_shard
    from karat.results.store import Store

FOLDER = Path(tempfile.mkdtemp())
STORE = Store(FOLDER)


def spec(data: bytes) -> None:
    (FOLDER / "spec.yaml").write_bytes(data)
    Spec.read(FOLDER / "spec.yaml")


def array(data: bytes) -> None:
    (FOLDER / "map.npy").write_bytes(data)
    load_array(FOLDER / "map.npy", "maps")


def lines(data: bytes) -> None:
    (FOLDER / "events.jsonl").write_bytes(data)
    list(STORE.lines("events.jsonl"))
    (FOLDER / "manifest.json").write_bytes(data)
    STORE.read_json("manifest.json")


def shard(data: bytes) -> None:
    name = STORE.write_shard("scores", ".parquet", data)  # a right name over wrong content
    try:
        read_shard(STORE, name)
    finally:
        STORE.remove(name)


def image(data: bytes) -> None:
    """Pillow raises what it likes: in a run it is that sample's Failure. What it gives must be an image."""
    (FOLDER / "image").write_bytes(data)
    try:
        pixels = read_image(FOLDER / "image")
    except Exception:
        return
    assert (pixels.ndim, pixels.shape[2], str(pixels.dtype)) == (3, 3, "uint8")


def mask(data: bytes) -> None:
    (FOLDER / "mask.png").write_bytes(data)
    try:
        ids = read_indexed(FOLDER / "mask.png")
    except Exception:
        return
    assert (ids.ndim, str(ids.dtype)) == (2, "int32")


READERS = (spec, array, lines, shard, image, mask)


def one(data: bytes) -> None:
    if data:
        with contextlib.suppress(KaratError):
            READERS[data[0] % len(READERS)](data[1:])


def seeds() -> Path:
    """Sound inputs to start from: bytes at random rarely get past a magic number."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = Path(tempfile.mkdtemp())
    np.save(folder / "map.npy", np.ones((2, 3, 3)))
    table = pa.table({"value": [1.0]}).replace_schema_metadata({"karat": '{"format": 1, "cells": []}'})
    pq.write_table(table, folder / "shard.parquet")
    drawn = Image.fromarray(np.arange(48, dtype=np.uint8).reshape(4, 4, 3))
    sound = {
        spec: [b"protocol: localization\nmodels: [a]\ndatasets: [{name: b, n: 3}]\nexplainers: [c]\nseed: 1\n"],
        array: [(folder / "map.npy").read_bytes()],
        lines: [b'{"event": "run_done", "rows": 3}\n{"event": 1}\n'],
        shard: [(folder / "shard.parquet").read_bytes()],
        image: [encoded(drawn, kind) for kind in ("png", "bmp", "gif", "jpeg")],
        mask: [encoded(drawn.convert(mode), "png") for mode in ("L", "P")],
    }
    corpus = Path(tempfile.mkdtemp())
    for number, reader in enumerate(READERS):
        for k, data in enumerate(sound[reader]):
            (corpus / f"{reader.__name__}-{k}").write_bytes(bytes([number]) + data)
    return corpus


def encoded(drawn: Image.Image, kind: str) -> bytes:
    buffer = io.BytesIO()
    drawn.save(buffer, kind)
    return buffer.getvalue()


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # Pillow's, of damaged images
    atheris.Setup([*sys.argv, str(seeds())], one)
    atheris.Fuzz()
