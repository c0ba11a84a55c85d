"""Dataset `segmentation/parquet`: Hugging Face datasets with an image and a mask column, local or from the hub."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from annotated_types import Ge

from karat.datasets.safe_read import joined, open_parquet, read_row_group
from karat.datasets.segmentation import files
from karat.datasets.segmentation.scene import Scene, samples, split
from karat.kernel.card import Card
from karat.kernel.errors import BadInput, ExtraMissing
from karat.kernel.sample import Sample

_TREE = """\
PATH                     a .parquet file, a directory with .parquet files below it (or .arrow files, as
                         `save_to_disk` leaves them), or a dataset id of the hub
  columns image and mask: encoded bytes, or {bytes, path} as Hugging Face's Image feature stores them
"""


@dataclass(frozen=True)
class Parquet:
    """`labels` is a label file, or the names themselves by number; without it the mask feature must say them. `split`
    is part of the names of the files, or of their folder."""

    path: str
    image: str = "image"
    mask: str = "mask"
    split: str = ""
    labels: str | tuple[str, ...] = ()
    ignore: tuple[Annotated[int, Ge(0)], ...] = (255,)
    background: tuple[Annotated[int, Ge(0)], ...] = (0,)
    predictions: Annotated[int, Ge(1)] = 1
    card: ClassVar[Card] = Card(
        "segmentation/parquet",
        "a Hugging Face dataset with an image and a mask column, on disk or on the hub",
        "dataset",
    )

    @property
    def label(self) -> str:
        return f"{Path(self.path).stem}{self.split and ':' + self.split}" + (
            f"×{self.predictions}" * (self.predictions > 1)
        )

    @cached_property
    def _shards(self) -> list[tuple[Path, int, int]]:
        """(file, row group, first row) of every row group, in order."""
        path = Path(self.path)
        root = path if path.exists() else _from_hub(self.path, self.split)
        tables = [root] if root.is_file() else _tables(root, self.split)
        if not tables:
            raise files.wrong_layout(root, f"no .parquet or .arrow file{self.split and ' of ' + self.split}", _TREE)
        shards, first = [], 0
        for file in tables:
            schema, sizes = _about(file)
            if lost := {self.image, self.mask} - set(schema.names):
                raise BadInput(
                    f"{file.name} has no column {' or '.join(sorted(lost))}; it has {', '.join(schema.names)}."
                )
            for group, rows in enumerate(sizes):
                shards.append((file, group, first))
                first += rows
        return [*shards, (tables[-1], -1, first)]

    @cached_property
    def _names(self) -> dict[int, str]:
        if isinstance(self.labels, str):
            return files.read_labels(Path(self.labels))
        if self.labels:
            return dict(enumerate(self.labels))
        about = _about(self._shards[0][0])[0].metadata or {}
        features = json.loads(about.get(b"huggingface", b"{}")).get("info", {}).get("features", {})
        names = next((one["names"] for one in _nested(features.get(self.mask)) if "names" in one), None)
        if names is None:
            raise BadInput(f"{self.path} does not name its classes: give `labels`, a file or the names by number.")
        return dict(enumerate(names))

    @property
    def revision(self) -> str:
        paths = sorted({file for file, _, _ in self._shards})
        return files.revision(paths[0].parent, paths, sorted(self._names.items()))

    def __len__(self) -> int:
        return self._shards[-1][2] * self.predictions

    def load(self, start: int, stop: int) -> list[Sample]:
        assert self._names  # a missing name table is the dataset's fault, not one image's
        rows: dict[tuple[Path, int], Any] = {}  # row groups of this slice only: memory stays flat

        def scene(i: int) -> Scene:
            file, group, first = next(
                s for s, after in zip(self._shards, self._shards[1:], strict=False) if i < after[2]
            )
            if (file, group) not in rows:
                rows.clear()
                rows[file, group] = _read(file, group, [self.image, self.mask])
            row = rows[file, group].slice(i - first, 1).to_pylist()[0]
            return self._scene(i, row)

        return samples(scene, _name, start, stop, self.predictions)

    def _scene(self, i: int, row: dict[str, Any]) -> Scene:
        from PIL import Image as Pillow

        image = np.asarray(Pillow.open(io.BytesIO(_bytes(row[self.image]))).convert("RGB"))
        ids = np.asarray(Pillow.open(io.BytesIO(_bytes(row[self.mask]))))
        if ids.ndim != 2:
            raise BadInput(f"{_name(i)}: a mask must hold one class number per pixel; it has {ids.shape[2]} channels.")
        classes, ignored = split(ids.astype(np.int32), self._names, self.ignore, self.background)
        return Scene(_name(i), image, classes, ignored)


def _tables(root: Path, split: str) -> list[Path]:
    """The files of a split, without what Hugging Face caches beside them."""
    files = (path for kind in ("*.parquet", "*.arrow") for path in root.rglob(kind))
    return sorted(path for path in files if split in str(path.relative_to(root)) and not path.name.startswith("cache-"))


def _about(file: Path) -> tuple[Any, list[int]]:
    """(schema, rows of every group); an Arrow file is one group, read through a memory map."""
    if file.suffix == ".arrow":
        table = _mapped(file)
        return table.schema, [len(table)]
    opened = open_parquet(file, "images")
    return opened.schema_arrow, [opened.metadata.row_group(k).num_rows for k in range(opened.num_row_groups)]


def _read(file: Path, group: int, columns: list[str]) -> Any:
    if file.suffix == ".arrow":
        return _mapped(file).select(columns)
    return read_row_group(file, group, columns, "images")


def _mapped(file: Path) -> Any:
    import pyarrow as pa

    stream = pa.ipc.open_stream(pa.memory_map(str(file)))
    return joined(stream, stream.schema, file, "images")  # its pieces may be packed, too


def _name(i: int) -> str:
    return f"{i:08d}"


def _bytes(value: Any) -> bytes:
    data = value.get("bytes") if isinstance(value, dict) else value
    if not isinstance(data, bytes):
        raise BadInput("the row holds no image bytes (a path only?); save the dataset with embedded images.")
    return data


def _nested(feature: Any) -> list[dict[str, Any]]:
    """A feature and everything inside it that is a mapping."""
    if not isinstance(feature, dict):
        return []
    return [feature, *(inner for value in feature.values() for inner in _nested(value))]


def _from_hub(name: str, wanted: str) -> Path:
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise ExtraMissing("a dataset of the hub", "huggingface_hub", "vlm") from None
    try:
        files = f"*{wanted}*.parquet" if wanted else "*.parquet"
        return Path(snapshot_download(name, repo_type="dataset", allow_patterns=files))
    except Exception as error:
        reason = " ".join(str(error).split())[:160]
        raise BadInput(
            f"{name} is neither a path here nor could it be fetched ({type(error).__name__}: {reason}). Where there is "
            f"no network, download the *.parquet files of https://huggingface.co/datasets/{name} and give their folder."
        ) from None
