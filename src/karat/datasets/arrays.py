"""Dataset `arrays`: images and masks that are already on disk as .npy files, for people who have nothing else."""

from __future__ import annotations

import hashlib
import zipfile
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from karat.datasets.safe_read import DENSE, LARGE
from karat.kernel.card import Card
from karat.kernel.errors import BadInput
from karat.kernel.identity import digest
from karat.kernel.sample import Region, Sample


def load_array(path: str | Path, what: str) -> np.ndarray[Any, Any]:
    """An .npy file, mapped rather than read. Never unpickles."""
    try:
        loaded = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise BadInput(f"{what}: no file at {path}.") from None
    except Exception:  # a damaged header raises whatever it likes: TokenError, SyntaxError, MemoryError...
        raise BadInput(f"{what}: {path} is not a plain .npy array. Save it with numpy.save(path, array).") from None
    if not isinstance(loaded, np.ndarray):
        raise BadInput(f"{what}: {path} is an archive of several arrays; save the one you mean with numpy.save().")
    return loaded


def load_archive(path: str | Path, what: str) -> Any:
    """An .npz file, whose arrays are read when asked for by name. Never unpickles, nor unpacks without end."""
    try:
        with zipfile.ZipFile(path) as packed:
            unpacked = sum(member.file_size for member in packed.infolist())
        loaded = np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise BadInput(f"{what}: no file at {path}.") from None
    except Exception:  # a damaged archive raises whatever it likes
        raise BadInput(f"{what}: {path} is no archive of plain arrays. Save it with numpy.savez().") from None
    if unpacked > LARGE and unpacked > DENSE * Path(path).stat().st_size:
        loaded.close()
        raise BadInput(
            f"{what}: {path} would unpack into {unpacked / 2**30:.0f} GB, more than {DENSE} times its size. If that "
            "is meant, save it without compression: numpy.savez()."
        )
    return loaded


def file_hash(path: str | Path) -> str:
    """Hash of a file's content, remembered for as long as its size and time of change stay the same."""
    state = Path(path).stat()
    return _hash(str(path), state.st_size, state.st_mtime_ns)


@lru_cache(maxsize=256)
def _hash(path: str, size: int, changed: int) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()[:32]


@dataclass(frozen=True)
class Arrays:
    """`images` (n, H, W, 3) uint8 and `masks` (n, H, W) of the region that should matter, non-zero = belongs to it."""

    images: str
    masks: str | None = None
    card: ClassVar[Card] = Card("arrays", "images and truth masks from .npy files", "dataset")

    @cached_property
    def _images(self) -> np.ndarray[Any, Any]:
        images = load_array(self.images, "images")
        if images.ndim != 4 or images.shape[-1] != 3 or images.dtype != np.uint8:
            raise BadInput(f"images must be (n, H, W, 3) uint8; {self.images} holds {images.shape} {images.dtype}.")
        return images

    @cached_property
    def _masks(self) -> np.ndarray[Any, Any] | None:
        if self.masks is None:
            return None
        masks = load_array(self.masks, "masks")
        if masks.shape != self._images.shape[:3]:
            raise BadInput(f"masks must be {self._images.shape[:3]} like the images; {self.masks} holds {masks.shape}.")
        return masks

    @cached_property
    def revision(self) -> str:
        """Hash of both files, so that other data under the same name runs again."""
        assert self._images is not None  # a clear error before reading gigabytes
        assert self._masks is not None or self.masks is None
        return digest([file_hash(path) for path in (self.images, self.masks) if path])

    def __len__(self) -> int:
        return len(self._images)

    def load(self, start: int, stop: int) -> list[Sample]:
        images = np.ascontiguousarray(self._images[start:stop])
        masks = None if self._masks is None else np.asarray(self._masks[start:stop]) != 0
        return [
            Sample(
                id=f"{start + i:06d}",
                image=image,
                regions=() if masks is None else (Region("truth", "target", pixels=masks[i]),),
            )
            for i, image in enumerate(images)
        ]
