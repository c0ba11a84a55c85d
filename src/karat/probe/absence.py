"""`Absence`: what an absent feature looks like. No torch here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from karat.kernel.empty import empty_image
from karat.kernel.errors import BadInput
from karat.kernel.identity import generator
from karat.kernel.sample import Sample
from karat.kernel.typing import Image

# States that need nothing but the sample: what a parameter may name. "given" goes with an image or words.
VisualAbsence = Literal["blur", "black", "grey", "mean", "noise", "white"]
CoalitionAbsence = Literal[VisualAbsence, "resample"]  # of whoever asks for values of coalitions or soft masks alone
TextAbsence = Literal["auto", "pad", "mask", "delete"]
VISUAL_ABSENCE = (*get_args(CoalitionAbsence), "given")
TEXT_ABSENCE = (*get_args(TextAbsence), "given")
DRAWS = 8  # images over which a value is averaged where cells are resampled


@dataclass(frozen=True, eq=False)
class Absence:
    """The absent state of both modalities.

    `visual`: "blur" (Gaussian, Pillow's `radius`; fsyn2026 A.3 uses 30), "black", "grey", "mean" (colour of the image),
    "noise" (uniform, seeded by the sample), "white" (the empty cell of the grid world), or "given" with `image`. These
    mean "empty". "resample" means "unknown": absent pixels are those of another image of the session, and the value of
    a coalition is the mean over 8 such images (`draws`; a session draws them by the sample's id). It may bring in what
    the question asks for.
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
    draws: tuple[Sample, ...] = ()

    def __post_init__(self) -> None:
        for kind, value, known in (("visual", self.visual, VISUAL_ABSENCE), ("text", self.text, TEXT_ABSENCE)):
            if value not in known:
                raise BadInput(f"the {kind} absent state is one of {', '.join(known)}; got {value!r}.")
        if (self.visual == "given") != (self.image is not None) or (self.text == "given") != (self.words is not None):
            raise BadInput("absent states: visual='given' goes with `image`, text='given' goes with `words`.")

    def drawn(self, sample: Sample, samples: Sequence[Sample]) -> Absence:
        """The same with `draws` of other samples whose images have the size of this one, where cells are resampled."""
        if self.visual != "resample" or self.draws:
            return self
        others = {other.id: other for other in samples if other.id != sample.id and other.size == sample.size}
        if len(others) < DRAWS:
            raise BadInput(
                f"absence 'resample' takes cells of {DRAWS} other images of the size of sample {sample.id}; its batch "
                f"has {len(others)}. Use a batch_size of {DRAWS + 1} or more, or another absent state."
            )
        chosen = generator(self.seed, sample.id, "absence/resample").permutation(sorted(others))[:DRAWS]
        return replace(self, draws=tuple(others[name] for name in chosen.tolist()))

    def each(self) -> tuple[Absence, ...]:
        """The states whose values are averaged: this one, or one for each draw."""
        if not self.draws:
            return (self,)
        return tuple(replace(self, visual="given", image=other.image, draws=()) for other in self.draws)

    def image_of(self, sample: Sample) -> Image:
        """The absent image of a sample, same size."""
        image = sample.image
        if self.visual == "resample":
            raise BadInput("absence 'resample' has no single absent image; `each` gives those of its draws.")
        if self.image is not None:
            if self.image.shape != image.shape:
                raise BadInput(f"the absent image has shape {self.image.shape}; sample {sample.id} has {image.shape}.")
            return self.image
        if self.visual == "noise":
            return generator(self.seed, sample.id, "zero/noise").integers(0, 256, image.shape, dtype=np.uint8)
        return empty_image(image, self.visual, self.radius)

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
        draws = tuple(other.id for other in self.draws)
        return (self.visual, self.radius if self.visual == "blur" else None, image, self.seed, draws)
