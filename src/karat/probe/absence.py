"""`Absence`: what an absent feature looks like. No torch here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from karat.kernel.errors import BadInput
from karat.kernel.identity import generator
from karat.kernel.sample import Sample
from karat.kernel.typing import Image

# States that need nothing but the sample: what a parameter may name. "given" goes with an image or words.
VisualAbsence = Literal["blur", "black", "grey", "mean", "noise", "white"]
TextAbsence = Literal["auto", "pad", "mask", "delete"]
VISUAL_ABSENCE = (*get_args(VisualAbsence), "given")
TEXT_ABSENCE = (*get_args(TextAbsence), "given")


@dataclass(frozen=True, eq=False)
class Absence:
    """The absent state of both modalities.

    `visual`: "blur" (Gaussian, Pillow's `radius`; fsyn2026 A.3 uses 30), "black", "grey", "mean" (colour of the image),
    "noise" (uniform, seeded by the sample), "white" (the empty cell of the grid world), or "given" with `image`.
    `text`: "pad" (the model's pad token, fsyn2026 A.3), "mask" (its mask token), "delete" (the word is taken out), or
    "given" with `words`, one neutral word per word of the text; "auto" is pad where the model has tokens, else delete.

    Example:
        >>> black = Absence("black")
        >>> black.image_of(Sample("s", np.full((1, 2, 3), 9, dtype=np.uint8))).tolist()
        [[[0, 0, 0], [0, 0, 0]]]
    """

    visual: str = "blur"
    text: str = "auto"
    radius: float = 30.0
    image: Image | None = None
    words: tuple[str, ...] | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for kind, value, known in (("visual", self.visual, VISUAL_ABSENCE), ("text", self.text, TEXT_ABSENCE)):
            if value not in known:
                raise BadInput(f"the {kind} absent state is one of {', '.join(known)}; got {value!r}.")
        if (self.visual == "given") != (self.image is not None) or (self.text == "given") != (self.words is not None):
            raise BadInput("absent states: visual='given' goes with `image`, text='given' goes with `words`.")

    def image_of(self, sample: Sample) -> Image:
        """The absent image of a sample, same size."""
        image = sample.image
        if self.image is not None:
            if self.image.shape != image.shape:
                raise BadInput(f"the absent image has shape {self.image.shape}; sample {sample.id} has {image.shape}.")
            return self.image
        if self.visual == "blur":
            from PIL import Image as Pillow
            from PIL import ImageFilter

            return np.array(Pillow.fromarray(image).filter(ImageFilter.GaussianBlur(self.radius)))
        if self.visual == "noise":
            return generator(self.seed, sample.id, "zero/noise").integers(0, 256, image.shape, dtype=np.uint8)
        if self.visual == "mean":
            colour = np.rint(image.mean(axis=(0, 1))).astype(np.uint8)
            return np.broadcast_to(colour, image.shape).copy()
        return np.full_like(image, {"black": 0, "grey": 128, "white": 255}[self.visual])

    def text_of(self, sample: Sample, absent: frozenset[int]) -> str:
        """The text without the absent words: deleted with the space before them, or replaced by the given ones."""
        text = sample.text or ""
        if self.words is not None and len(self.words) != len(sample.words):
            raise BadInput(f"{len(self.words)} neutral words for {len(sample.words)} words of {text!r}; give one each.")
        out, at = "", 0
        for j, (start, stop) in enumerate(sample.words):
            gap, word = text[at:start], text[start:stop]
            if j not in absent:
                out += gap + word
            elif self.words is not None:
                out += gap + self.words[j]
            at = stop
        return (out + text[at:]).strip()

    @property
    def visual_identity(self) -> tuple[object, ...]:
        image = None if self.image is None else self.image.tobytes()
        return (self.visual, self.radius if self.visual == "blur" else None, image, self.seed)
