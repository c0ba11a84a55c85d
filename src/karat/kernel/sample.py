"""`Sample`: one question about one image, with the truth about it where that is known."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from karat.kernel.typing import Box, Image, Mask, Meta, Span

_WORD = re.compile(r"[^\s?.,!;:]+|[?.,!;:]")


def split_words(text: str) -> tuple[Span, ...]:
    """Spans of the words of a text; a punctuation mark is a word of its own.

    >>> split_words("How many?")
    ((0, 3), (4, 8), (8, 9))
    """
    return tuple(match.span() for match in _WORD.finditer(text))


@dataclass(frozen=True, eq=False)
class Region:
    """A named part of the image.

    Args:
        name: unique within its sample.
        role: what it is to the question: target, anchor, distractor, class...
        boxes: (x, y, width, height) in pixels; their union is the region, unless `pixels` says more.
        pixels: the exact (H, W) mask, where it is not simply the union of the boxes.
        label: what it shows, for people.

    Example:
        >>> Region("cup", "target", boxes=((1, 0, 2, 2),)).mask(2, 4).astype(int).tolist()
        [[0, 1, 1, 0], [0, 1, 1, 0]]
    """

    name: str
    role: str
    boxes: tuple[Box, ...] = ()
    pixels: Mask | None = None
    label: str | None = None

    def mask(self, height: int, width: int) -> Mask:
        """The pixels of the region as a (height, width) mask."""
        if self.pixels is not None:
            return self.pixels
        mask = np.zeros((height, width), dtype=np.bool_)
        for x, y, w, h in self.boxes:
            mask[max(y, 0) : y + h, max(x, 0) : x + w] = True
        return mask


@dataclass(frozen=True)
class Phrase:
    """A stretch of the question with its role. Words in no phrase are filler.

    Args:
        span: (start, stop) in characters of the text.
        role: header, target, anchor, relation...
        regions: names of the regions it speaks of.

    Example:
        >>> phrase = Phrase((11, 14), "target", regions=("cup",))
        >>> "Where is a cup ?"[slice(*phrase.span)]
        'cup'
    """

    span: Span
    role: str
    regions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Uses:
    """What a model of one mechanism must look at: roles of regions and roles of phrases."""

    regions: frozenset[str]
    phrases: frozenset[str]


@dataclass(frozen=True, eq=False)
class Truth:
    """The parts of one sample that a model of one mechanism must use; None where the sample says nothing."""

    visual: Mask | None
    words: tuple[bool, ...] | None  # one per word of `Sample.words`


@dataclass(frozen=True, eq=False)
class Sample:
    """One question about one image: a row of a dataset.

    Args:
        id: unique within the dataset; random streams are seeded by it.
        image: (H, W, 3) uint8.
        text: the question; None for models that read no text.
        answer: the right one, where it is known.
        regions: parts of the image with their roles.
        phrases: parts of the text with their roles.
        mechanisms: what a model of each mechanism ("reasons", "matches_words", ...) must use, as roles.
        meta: facts to slice by; they become columns of a run's rows.
        choices: the answers that count; what a model says is read as one of them (`read_answer`).

    Example:
        >>> import numpy as np
        >>> cup = Region("cup", "target", boxes=((0, 0, 2, 2),))
        >>> uses = {"reasons": Uses(frozenset({"target"}), frozenset({"target"}))}
        >>> image, phrases = np.zeros((2, 4, 3), np.uint8), (Phrase((2, 5), "target"),)
        >>> sample = Sample("one", image, "a cup ?", "yes", (cup,), phrases, uses)
        >>> truth = sample.truth("reasons")
        >>> truth.visual.astype(int).tolist(), truth.words
        ([[1, 1, 0, 0], [1, 1, 0, 0]], (False, True, False))
    """

    id: str
    image: Image
    text: str | None = None
    answer: str | None = None
    regions: tuple[Region, ...] = ()
    phrases: tuple[Phrase, ...] = ()
    mechanisms: Mapping[str, Uses] = field(default_factory=dict)
    meta: Meta = field(default_factory=dict)
    choices: tuple[str, ...] = ()

    @cached_property
    def words(self) -> tuple[Span, ...]:
        return split_words(self.text) if self.text else ()

    @property
    def size(self) -> tuple[int, int]:
        """(height, width) in pixels."""
        return self.image.shape[0], self.image.shape[1]

    def mask(self, *roles: str) -> Mask:
        """Union of all regions that have one of the roles."""
        mask = np.zeros(self.size, dtype=np.bool_)
        for region in self.regions:
            if region.role in roles:
                mask |= region.mask(*self.size)
        return mask

    def word_mask(self, *roles: str) -> tuple[bool, ...]:
        """For every word, whether it lies in a phrase that has one of the roles."""
        spans = [phrase.span for phrase in self.phrases if phrase.role in roles]
        return tuple(any(a <= start and end <= b for a, b in spans) for start, end in self.words)

    def truth(self, mechanism: str) -> Truth | None:
        """What a model of that mechanism must use here, or None where the sample does not know."""
        uses = self.mechanisms.get(mechanism)
        if uses is None:
            return None
        visual = self.mask(*uses.regions) if self.regions else None
        words = self.word_mask(*uses.phrases) if self.phrases else None
        return Truth(visual, words)
