"""`ShortcutSample`: a perturbed image that remembers its clean twin, and where the two differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from karat.datasets.shortcut.shortcut import Images, Shortcut
from karat.kernel.errors import BadInput
from karat.kernel.sample import Region, Sample, Uses
from karat.kernel.typing import Image

MECHANISM = "takes_shortcut"
ROLE = "shortcut"
_USES = {MECHANISM: Uses(frozenset({ROLE}), frozenset())}


@dataclass(frozen=True, eq=False)
class ShortcutSample(Sample):
    """`image` is what the model sees, `clean` the same image without the shortcut: the zero state of its pixels."""

    clean: Image | None = None

    @property
    def cleaned(self) -> ShortcutSample:
        """The clean twin as a sample of its own."""
        return replace(self, image=self.twin)

    @property
    def twin(self) -> Image:
        if self.clean is None:
            raise BadInput(f"sample {self.id} has no clean twin; give `clean` when it is made.")
        return self.clean


def planted(
    images: Images, classes: Any, labels: Sequence[str], shortcut: Shortcut, ids: Sequence[str] | None = None
) -> list[ShortcutSample]:
    """Samples from clean images (n, H, W, 3) and their classes: each is perturbed by the filter of its class."""
    numbers = np.asarray(classes, dtype=np.int64)
    if len(labels) != shortcut.classes:
        raise BadInput(f"the shortcut has {shortcut.classes} classes; got {len(labels)} labels.")
    perturbed = shortcut.apply(images, numbers)
    return [
        ShortcutSample(
            id=f"{i:06d}" if ids is None else ids[i],
            image=perturbed[i],
            answer=labels[c],
            regions=(Region("patch", ROLE, boxes=(shortcut.box(c),), label=labels[c]),),
            mechanisms=_USES,
            meta={"class": labels[c], "changed": int((perturbed[i] != images[i]).any(-1).sum())},
            clean=images[i],
        )
        for i, c in enumerate(numbers.tolist())
    ]
