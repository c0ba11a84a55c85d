"""Annotations and tables of a few bytes that would take gigabytes are refused before they do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pycocotools import mask as coco

from karat.datasets import safe_read
from karat.datasets.segmentation import Parquet, parquet
from karat.datasets.segmentation.coco import decode
from karat.datasets.spatial.pair import Pair, Thing
from karat.datasets.vqa import files
from karat.datasets.vqa.files import ParquetRows
from karat.kernel.errors import BadInput


@pytest.mark.parametrize("packed_runs", [False, True], ids=["plain", "compressed"])
def test_a_run_length_mask_has_the_size_of_its_image(packed_runs: bool) -> None:
    """Its own `size` says how much is unpacked, so ten bytes could ask for any number of pixels."""
    kept = np.zeros((6, 4), dtype=np.uint8, order="F")
    kept[2:4, 1] = 1
    plain: dict[str, Any] = {"size": [6, 4], "counts": [8, 2, 14]}
    good = coco.encode(kept) if packed_runs else plain
    assert (decode(good, 6, 4) == kept.astype(bool)).all()
    large: dict[str, Any] = {"size": [3000, 2000], "counts": [6_000_000]}
    bomb = coco.frPyObjects(large, 3000, 2000) if packed_runs else large
    with pytest.raises(BadInput, match=r"mask of \[3000, 2000\]; its image is 6 × 4"):
        decode(bomb, 6, 4)


@pytest.mark.parametrize("far", [5000.0, -5000.0, float("nan"), float("inf")])
def test_a_polygon_stays_near_its_image(far: float) -> None:
    """pycocotools keeps every point along its sides, however long they are."""
    assert decode([[0, 0, 4, 0, 4, 6.5]], 6, 4).any()  # a little outside, as annotators draw
    with pytest.raises(BadInput, match="far outside its image of 6 × 4"):
        decode([[0, 0, 4, 0, 4, far]], 6, 4)


def test_a_blank_picture_is_no_larger_than_one_that_pillow_opens() -> None:
    box = Thing("cat", (1.0, 1.0, 2.0, 2.0))
    other = Thing("dog", (9.0, 1.0, 2.0, 2.0))
    assert Pair("a", "a.jpg", (20, 10), box, other, "right").sample(None).image.shape == (10, 20, 3)
    with pytest.raises(BadInput, match=r"a\.jpg is said to have 14000 × 14000 pixels"):
        Pair("a", "a.jpg", (14_000, 14_000), box, other, "right").sample(None)


def table(path: Path, values: int, rows: int, **how: Any) -> Path:
    """`rows` rows of which `values` differ, each of 64 kB of zeros and a number."""
    large = [b"\0" * 65_536 + bytes([i]) for i in range(values)]
    same = pa.DictionaryArray.from_arrays(np.arange(rows) % values, large).cast(pa.binary())
    pq.write_table(pa.table({"image": same, "mask": same, "task": ["Count"] * rows}), path, compression="zstd", **how)
    return path


BOMBS = {"each value once": (60, 60), "one value often": (1, 60)}


@pytest.mark.parametrize("case", BOMBS)
def test_a_row_group_that_unpacks_without_end_is_refused(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By what it says of its size; or, where a value is stored once and meant often, by what comes of it."""
    path = table(tmp_path / "train.parquet", *BOMBS[case])
    reads = (
        lambda: ParquetRows([path], ["image"]).row(0),
        lambda: ParquetRows([path], ["image"]).column("image"),
        lambda: parquet._read(path, 0, ["image", "mask"]),
    )
    assert len(ParquetRows([path], ["image"]).row(0)["image"]) == 65_537
    assert ParquetRows([path], ["image"]).column("task") == ["Count"] * 60
    monkeypatch.setattr(safe_read, "LARGE", 2**20, raising=False)  # 60 rows are 8 MB
    for read in reads:
        files._row_group.cache_clear()
        with pytest.raises(BadInput, match="100 times its size and more"):
            read()
    assert ParquetRows([path], ["image"]).column("task") == ["Count"] * 60


def test_a_table_of_more_rows_than_bytes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "train.parquet"
    pq.write_table(pa.table({"image": pa.nulls(200_000, pa.binary()), "mask": pa.nulls(200_000, pa.binary())}), path)
    assert path.stat().st_size < 200_000
    for read in (lambda: ParquetRows([path], ["image"]), lambda: len(Parquet(str(path)))):
        with pytest.raises(BadInput, match="200,000 rows, more than the"):
            read()


def test_an_arrow_file_that_unpacks_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "data.arrow"
    rows = pa.table({"image": [b"\0" * 65_536] * 60, "mask": [b"\0" * 65_536] * 60})
    with pa.ipc.new_stream(str(path), rows.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as stream:
        stream.write_table(rows)
    assert len(Parquet(str(path))) == 60
    monkeypatch.setattr(safe_read, "LARGE", 2**20, raising=False)
    with pytest.raises(BadInput, match="100 times its size and more"):
        len(Parquet(str(path)))
