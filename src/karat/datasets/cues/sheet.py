"""A contact sheet of composed photographs: each sample, and its twins with one cue changed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from karat.datasets.cues.sample import CueSample
from karat.datasets.cues.world import IMAGE_CUES
from karat.kernel.errors import BadInput
from karat.kernel.typing import Image

GAP = 6


def contact_sheet(samples: Sequence[CueSample], path: str | Path) -> Path:
    """One row a sample: as it is, then with content, tag, frame, sticker and side turned round."""
    from PIL import Image as Pillow

    if not samples:
        raise BadInput("a contact sheet needs at least one sample.")
    rows = [[sample, *(sample.turned(cue) for cue in IMAGE_CUES)] for sample in samples]
    sheet = np.concatenate([np.concatenate([_framed(one.image) for one in row], axis=1) for row in rows])
    out = Path(path)
    out.parent.mkdir(parents=True, exist_ok=True)
    Pillow.fromarray(sheet).save(out, optimize=True)
    return out


def _framed(image: Image) -> Image:
    return np.pad(image, ((0, GAP), (0, GAP), (0, 0)), constant_values=255)
