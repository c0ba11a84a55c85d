"""`ShortcutSample`: a perturbed image that remembers its clean twin, and where the two differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from karat.datasets.shortcut.shortcut import Images, Shortcut
from karat.kernel.errors import BadInput
from karat.kernel.sample import Region, Sample, Uses
from karat.kernel.typing import Image, Map, Mask

MECHANISM = "takes_shortcut"
ROLE = "shortcut"
_USES = {MECHANISM: Uses(frozenset({ROLE}), frozenset())}


@dataclass(frozen=True, eq=False)
class ShortcutSample(Sample):
    """`image` is what the model sees, `clean` the same image without the shortcut: the absent state of its pixels.

    The D pixels of the patch are numbered row by row.
    """

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

    @cached_property
    def patch(self) -> Mask:
        """(H, W), True on the patch."""
        return self.mask(ROLE)

    @property
    def patch_labels(self) -> npt.NDArray[np.int64]:
        """(H, W) the number of each pixel of the patch, -1 elsewhere."""
        return np.where(self.patch, np.cumsum(self.patch).reshape(self.patch.shape) - 1, -1)

    def patch_map(self, values: npt.NDArray[Any]) -> Map:
        """Values (D,) of the patch's pixels as a map (H, W), zero elsewhere: those pixels play no part."""
        spread = np.zeros(self.patch.shape)
        spread[self.patch] = values
        return spread

    def with_patch(self, keep: npt.NDArray[np.bool_]) -> ShortcutSample:
        """The sample in which only these pixels (D,) of the patch are perturbed, the others clean."""
        image = self.twin.copy()
        kept = np.flatnonzero(self.patch)[keep]
        image.reshape(-1, 3)[kept] = self.image.reshape(-1, 3)[kept]
        return replace(self, image=image)


def shortcut_samples(samples: Sequence[Sample]) -> tuple[ShortcutSample, ...]:
    """The same samples, known to have clean twins."""
    twins = tuple(sample for sample in samples if isinstance(sample, ShortcutSample))
    if len(twins) != len(samples):
        raise BadInput("these samples have no clean twins; use dataset `shortcut`, or samples made by `planted`.")
    return twins


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
