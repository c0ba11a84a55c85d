"""A contact sheet of planted shortcuts: clean, perturbed and what changed, so that a person can look."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from karat.datasets.shortcut.sample import ShortcutSample
from karat.datasets.shortcut.shortcut import difference
from karat.kernel.errors import BadInput
from karat.kernel.typing import Image

GAP = 4


def contact_sheet(samples: Sequence[ShortcutSample], path: str | Path, side: int = 128) -> Path:
    """One column a sample, three rows; pictures are enlarged by whole factors to about `side` pixels."""
    from PIL import Image as Pillow

    if not samples:
        raise BadInput("a contact sheet needs at least one sample.")
    columns = [np.concatenate([_framed(one) for one in _three(sample)]) for sample in samples]
    sheet = np.concatenate(columns, axis=1)
    factor = max(1, side // max(samples[0].size))
    out = Path(path)
    out.parent.mkdir(parents=True, exist_ok=True)
    picture = Pillow.fromarray(sheet)
    picture.resize((picture.width * factor, picture.height * factor), Pillow.Resampling.NEAREST).save(
        out, optimize=True
    )
    return out


def _three(sample: ShortcutSample) -> tuple[Image, Image, Image]:
    return sample.twin, sample.image, difference(sample.twin, sample.image)


def _framed(image: Image) -> Image:
    return np.pad(image, ((0, GAP), (0, GAP), (0, 0)), constant_values=255)
