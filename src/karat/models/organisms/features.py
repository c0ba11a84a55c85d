"""Features of a frozen tower over a stream, computed once and kept: every rule, implant and seed learns from them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from karat.kernel.typing import Image
from karat.models.organisms.stream import Lesson, Stream

Features = npt.NDArray[np.float16]
Tower = Callable[[list[Image]], npt.NDArray[np.floating[Any]]]
CHUNK = 128


@dataclass(frozen=True, eq=False)
class Kept:
    """`features` (n, ...) of all pictures, mapped rather than read, and the `lessons` that they belong to."""

    features: Features
    lessons: list[Lesson]


def cache_root() -> Path:
    return Path(os.environ.get("KARAT_CACHE") or Path.home() / ".cache" / "karat") / "organisms"


def keep_features(stream: Stream, tower: Tower, name: str, progress: Callable[[int, int], None] | None = None) -> Kept:
    """Features of every picture of the stream. `name` names the tower; killed and started again, it goes on.

    Chunks are written to their place in one file, then noted; a chunk without its note is made again.
    """
    folder = cache_root() / f"{name}-{stream.revision}"
    folder.mkdir(parents=True, exist_ok=True)
    path, features = folder / "features.npy", None
    for start in range(0, stream.n, CHUNK):
        note = folder / f"{start:08d}.json"
        if not note.is_file():
            items = [stream.item(i) for i in range(start, min(start + CHUNK, stream.n))]
            made = np.asarray(tower([item.image for item in items]), dtype=np.float16)
            if features is None:
                features = _opened(path, (stream.n, *made.shape[1:]))
            features[start : start + len(made)] = made
            features.flush()
            _write(note, [asdict(item.lesson) for item in items])
        if progress is not None:
            progress(min(start + CHUNK, stream.n), stream.n)
    notes = [folder / f"{start:08d}.json" for start in range(0, stream.n, CHUNK)]
    lessons = [Lesson(**fact) for note in notes for fact in json.loads(note.read_text("utf-8"))]
    return Kept(np.load(path, mmap_mode="r", allow_pickle=False), lessons)


def _opened(path: Path, shape: tuple[int, ...]) -> Any:
    if path.is_file() and np.load(path, mmap_mode="r", allow_pickle=False).shape == shape:
        return np.lib.format.open_memmap(path, mode="r+")
    return np.lib.format.open_memmap(path, mode="w+", dtype=np.float16, shape=shape)


def _write(path: Path, data: Any) -> None:
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.write_text(json.dumps(data), encoding="utf-8")
    part.replace(path)
