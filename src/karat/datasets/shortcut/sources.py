"""Where clean, labelled images come from: the embedded `leaves`, CIFAR's binary files, arrays, folders, Hugging Face.

`open_source` looks at what it is given:

| given                                          | read as                                                      |
|------------------------------------------------|--------------------------------------------------------------|
| `leaves`                                       | the embedded set (`karat.datasets.shortcut.leaves`)          |
| `hf:NAME`                                      | a Hugging Face dataset with an image and a class column      |
| a directory with `data_batch_1.bin`            | CIFAR-10, binary version                                     |
| a directory with `train.bin`                   | CIFAR-100, binary version, fine labels                       |
| a directory of directories                     | one folder a class, under `<split>/` where there is one      |
| an `.npz` file                                 | arrays `x_<split>`, `y_<split>` and, if there, `classes`     |

CIFAR's "python version" is a pickle, which can run code when it is read; the binary version holds the same images.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from karat.datasets.arrays import file_hash, load_archive
from karat.datasets.shortcut import leaves
from karat.datasets.shortcut.shortcut import Classes, Images
from karat.kernel.errors import BadInput
from karat.kernel.identity import digest

Positions = Sequence[int] | npt.NDArray[np.integer[Any]]
_PICTURES = (".png", ".jpg", ".jpeg", ".webp", ".bmp")
_SEEDS = {"train": 0, "test": 1}


class Source(Protocol):
    """Labelled images of one size."""

    @property
    def labels(self) -> tuple[str, ...]: ...
    @property
    def side(self) -> tuple[int, int]:
        """(height, width)"""
        ...

    @property
    def revision(self) -> str: ...
    @property
    def classes(self) -> Classes:
        """(n,) the class of every image."""
        ...

    def images(self, positions: Positions) -> Images: ...


@dataclass(frozen=True)
class Leaves:
    """`n` pictures of the embedded set; the splits are made from different seeds."""

    split: str
    n: int

    labels = leaves.LABELS
    side = (leaves.SIDE, leaves.SIDE)
    revision = "leaves-1"

    @property
    def classes(self) -> Classes:
        return np.arange(self.n) % len(leaves.LABELS)

    def images(self, positions: Positions) -> Images:
        seed = _SEEDS.get(self.split)
        if seed is None:
            raise BadInput(f"leaves have the splits train and test; got {self.split!r}.")
        return np.stack([leaves.picture(int(i), seed) for i in positions])


@dataclass(frozen=True, eq=False)
class Held:
    """Images that are held in memory."""

    held: Images
    classes: Classes
    labels: tuple[str, ...]
    revision: str

    @property
    def side(self) -> tuple[int, int]:
        return self.held.shape[1], self.held.shape[2]

    def images(self, positions: Positions) -> Images:
        return np.ascontiguousarray(self.held[np.asarray(positions, dtype=np.intp)])


@dataclass(frozen=True, eq=False)
class Folder:
    """One directory a class; pictures are cut to their central square and resized."""

    files: tuple[Path, ...]
    classes: Classes
    labels: tuple[str, ...]
    resized: int

    @property
    def side(self) -> tuple[int, int]:
        return self.resized, self.resized

    @cached_property
    def revision(self) -> str:
        return digest([[str(file.name), file_hash(file)] for file in self.files])

    def images(self, positions: Positions) -> Images:
        from PIL import Image as Pillow

        return np.stack([_square(Pillow.open(self.files[int(i)]), self.resized) for i in positions])


def open_source(source: str, split: str = "test", n: int = 1000, side: int = 32) -> Source:
    """`n` is the number of pictures of `leaves`; `side` what pictures of folders and hubs are resized to."""
    if source == "leaves":
        return Leaves(split, n)
    if source.startswith("hf:"):
        return _hugging_face(source.removeprefix("hf:"), split, side)
    path = Path(source)
    if path.suffix == ".npz":
        return _npz(path, split)
    if (path / "data_batch_1.bin").is_file():
        names = [f"data_batch_{k}.bin" for k in range(1, 6)] if split == "train" else ["test_batch.bin"]
        return _cifar(path, names, 1, "batches.meta.txt")
    if (path / "train.bin").is_file():
        return _cifar(path, [f"{split}.bin"], 2, "fine_label_names.txt")
    if (path / "data_batch_1").is_file() or (path / "meta").is_file():
        raise BadInput(f"{path} is CIFAR's python version, which is a pickle; fetch the binary version instead.")
    if path.is_dir():
        return _folder(path, split, side)
    raise BadInput(f"no images at {source!r}: give leaves, hf:NAME, an .npz file, CIFAR's binary files or a folder.")


def of_arrays(images: Images, classes: Any, labels: Sequence[str]) -> Source:
    """Images (n, H, W, 3) uint8 and classes (n,) that are at hand already."""
    numbers = np.asarray(classes, dtype=np.int64)
    if images.ndim != 4 or images.shape[-1] != 3 or images.dtype != np.uint8 or numbers.shape != (len(images),):
        raise BadInput(
            f"images must be (n, H, W, 3) uint8 with n classes; got {images.shape} {images.dtype} and {numbers.shape}."
        )
    if len(numbers) and not 0 <= numbers.min() <= numbers.max() < len(labels):
        raise BadInput(f"classes must lie between 0 and {len(labels) - 1}; got {numbers.min()} to {numbers.max()}.")
    return Held(images, numbers, tuple(labels), digest([images.shape, int(images.sum()), numbers.tolist()]))


def _npz(path: Path, split: str) -> Source:
    try:
        return _npz_of(str(path), split, file_hash(path))
    except FileNotFoundError:
        raise BadInput(f"no arrays at {path}.") from None


@lru_cache(maxsize=4)
def _npz_of(path: str, split: str, revision: str) -> Source:
    """Read once: such files are often compressed."""
    try:
        with load_archive(path, "shortcut") as arrays:
            kept = {name: arrays[name] for name in (f"x_{split}", f"y_{split}", "classes") if name in arrays.files}
    except (OSError, ValueError) as error:
        raise BadInput(f"{path} is not an .npz of plain arrays: {error}.") from None
    if f"x_{split}" not in kept or f"y_{split}" not in kept:
        raise BadInput(f"{path} has no arrays x_{split} and y_{split}; save them with numpy.savez.")
    classes = kept[f"y_{split}"].astype(np.int64)
    names = kept.get("classes", np.arange(classes.max() + 1))
    checked = of_arrays(kept[f"x_{split}"], classes, [str(name) for name in names])
    return Held(checked.images(np.arange(len(classes))), checked.classes, checked.labels, f"{revision}:{split}")


def _cifar(path: Path, names: list[str], label_bytes: int, labels_in: str) -> Source:
    """Records of label bytes (the last one counts) and 3 × 32 × 32 bytes, channel by channel."""
    try:
        raw = np.concatenate([np.fromfile(path / name, dtype=np.uint8) for name in names])
        revision = digest([file_hash(path / name) for name in names])
    except FileNotFoundError as error:
        raise BadInput(f"CIFAR's binary files are not complete: {error.filename} is missing.") from None
    if len(raw) % (label_bytes + 3072):
        raise BadInput(f"{path}: {len(raw)} bytes are no whole number of CIFAR records; fetch the files again.")
    records = raw.reshape(-1, label_bytes + 3072)
    classes = records[:, label_bytes - 1].astype(np.int64)
    images = np.ascontiguousarray(records[:, label_bytes:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
    listed = path / labels_in
    named = (
        listed.read_text("utf-8").split() if listed.is_file() else [str(k) for k in range((10, 100)[label_bytes - 1])]
    )
    return Held(images, classes, tuple(named), revision)


def _folder(path: Path, split: str, side: int) -> Source:
    root = path / split if (path / split).is_dir() else path
    folders = sorted(child for child in root.iterdir() if child.is_dir())
    labelled = [
        (file, c)
        for c, folder in enumerate(folders)
        for file in sorted(folder.iterdir())
        if file.suffix.lower() in _PICTURES
    ]
    if len(folders) < 2 or not labelled:
        raise BadInput(f"{root} must hold one folder of pictures a class, two at least; it has {len(folders)} folders.")
    files, classes = zip(*labelled, strict=True)
    return Folder(files, np.array(classes, dtype=np.int64), tuple(folder.name for folder in folders), side)


def _hugging_face(name: str, split: str, side: int) -> Source:
    try:
        import datasets
    except ImportError:
        raise BadInput(f"hf:{name} needs the library datasets: pip install 'datasets>=4'.") from None
    if int(datasets.__version__.split(".")[0]) < 4:  # the first that never runs a script that comes with the data
        raise BadInput(f"hf:{name} needs datasets 4 or newer, not {datasets.__version__}: pip install 'datasets>=4'.")
    table = datasets.load_dataset(name, split=split)
    kinds = {column: type(feature).__name__ for column, feature in table.features.items()}
    pictures = [column for column, kind in kinds.items() if kind == "Image"]
    labelled = [column for column, kind in kinds.items() if kind == "ClassLabel"]
    if not pictures or not labelled:
        raise BadInput(f"hf:{name} needs an Image and a ClassLabel column; it has {kinds}.")
    labels = tuple(table.features[labelled[0]].names)
    classes = np.array(table[labelled[0]], dtype=np.int64)
    images = np.stack([_square(picture, side) for picture in table[pictures[0]]])
    return Held(images, classes, labels, f"hf:{name}:{split}:{getattr(table, '_fingerprint', '')}:{side}")


def _square(picture: Any, side: int) -> npt.NDArray[np.uint8]:
    """The central square of a Pillow image, (side, side, 3)."""
    picture = picture.convert("RGB")
    short = min(picture.size)
    left, top = (picture.width - short) // 2, (picture.height - short) // 2
    cut = picture.crop((left, top, left + short, top + short))
    return np.asarray(cut if short == side else cut.resize((side, side)), dtype=np.uint8)
