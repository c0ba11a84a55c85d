"""Reading what such datasets are made of: layouts, images, masks of class numbers, label files."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from karat.datasets.segmentation.scene import Ids
from karat.kernel.errors import BadInput
from karat.kernel.identity import digest
from karat.kernel.typing import Image

IMAGES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff")


def wrong_layout(root: Path, missing: str, tree: str) -> BadInput:
    """The error for a directory that is laid out otherwise, with the tree that was expected."""
    entries = sorted(path.name + "/" * path.is_dir() for path in root.iterdir())[:12] if root.is_dir() else None
    there = "no such directory" if entries is None else f"it holds {', '.join(entries) or 'nothing'}"
    return BadInput(f"{root}: {missing} ({there}). Expected:\n{tree.rstrip()}")


def need(root: Path, tree: str, *names: str) -> Path:
    """The first of `root/name` that exists, or an error with the expected tree."""
    for name in names:
        if (root / name).exists():
            return root / name
    raise wrong_layout(root, f"no {' or '.join(names)}", tree)


def images_under(folder: Path) -> dict[str, Path]:
    """Image files below a folder by their stem, in the order of their names."""
    files = [path for path in sorted(folder.rglob("*")) if path.suffix.lower() in IMAGES]
    return {path.stem: path for path in files}


def masks_beside(images: dict[str, Path], masks: Path, suffix: str, root: Path, tree: str) -> list[tuple[Path, Path]]:
    """(image, mask) for every mask file, in the order of names; an error where a mask has no image or there is none."""
    files = sorted(masks.rglob(f"*{suffix}"))
    if not files:
        raise wrong_layout(root, f"no *{suffix} under {masks.name}/", tree)
    lost = [path.name for path in files if path.stem not in images]
    if lost:
        raise wrong_layout(root, f"{len(lost)} of {len(files)} masks have no image, the first {lost[0]}", tree)
    return [(images[path.stem], path) for path in files]


def revision(root: Path, files: Iterable[Path], *more: Any) -> str:
    """Names and sizes of all files: other data under the same path runs again, a copy elsewhere does not."""
    listed = [(str(path.relative_to(root)) if path.is_relative_to(root) else path.name, path.stat().st_size)
              for path in files]  # fmt: skip
    return digest([listed, *more])


def read_image(path: Path) -> Image:
    """RGB (H, W, 3) uint8, whatever the file holds (grey, palette, CMYK, 16 bit)."""
    from PIL import Image as Pillow

    with Pillow.open(path) as image:
        return np.asarray(image.convert("RGB"))


def read_indexed(path: Path) -> Ids:
    """Class numbers (H, W) of a palette, grey or 16-bit PNG. A colour PNG has no numbers and is refused."""
    from PIL import Image as Pillow

    with Pillow.open(path) as image:
        ids = np.asarray(image)
        if ids.ndim != 2 or ids.dtype == np.float32:
            raise BadInput(
                f"{path.name} is a {image.mode} image; a mask must hold one class number per pixel (P, L, I)."
            )
    return ids.astype(np.int32)


def read_rgb(path: Path) -> Any:
    """(H, W, 3) int32: wide enough that 256 · G is a number."""
    from PIL import Image as Pillow

    with Pillow.open(path) as image:
        return np.asarray(image.convert("RGB")).astype(np.int32)


def read_labels(path: Path) -> dict[int, str]:
    """Names of class numbers from a label file.

    .json: a list (numbers from 0) or {"number": "name"}; .csv or .tsv: number and name, with or without a header; any
    other: lines "number: name", "number name", or plain names (numbers from 0).
    """
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        raise BadInput(f"no label file at {path}: it says which name each class number of the masks has.") from None
    if path.suffix == ".json":
        data = json.loads(text)
        pairs = enumerate(data) if isinstance(data, list) else data.items()
        return {int(number): str(name) for number, name in pairs}
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if path.suffix in (".csv", ".tsv"):
        table = list(csv.reader(lines, delimiter="," if path.suffix == ".csv" else "\t"))
        return _numbered(path, [row for row in table if row[0].strip().lstrip("-").isdecimal()])
    rows = [_pair(line) for line in lines]
    if all(row is None for row in rows):
        return {number: line.strip() for number, line in enumerate(lines)}
    return _numbered(path, [row for row in rows if row is not None])


def _pair(line: str) -> list[str] | None:
    number, _, name = line.strip().replace("\t", " ").partition(" ")
    number = number.rstrip(":,")
    return [number, name.strip()] if number.isdecimal() and name.strip() else None


def _numbered(path: Path, rows: Sequence[Sequence[str]]) -> dict[int, str]:
    if not rows or any(len(row) < 2 for row in rows):
        raise BadInput(
            f"{path}: expected a class number and its name on every line; got {rows[0] if rows else 'none'}."
        )
    names = {int(row[0]): row[1].strip() for row in rows}
    if len(names) < len(rows):
        raise BadInput(f"{path} gives several names to one class number.")
    return names
