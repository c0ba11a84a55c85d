"""`Lexicon`: which words gridprog knows, and the meaning each one brings into the residual stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from karat.datasets.grid import World
from karat.datasets.grid.language import noun_text
from karat.kernel.errors import BadInput
from karat.kernel.sample import Sample

PAD, UNKNOWN = 0, 1
MAX_WORDS = 28  # the longest question of the grid world (a comparison with four anchors) has 27

TASKS = ("count", "exist", "compare", "where")
DIRECTIONS = ("left", "right", "above", "below")

_HEADERS = {"How": "count", "many": "count", "Is": "exist", "any": "exist", "Are": "compare", "more": "compare",
            "Where": "where"}  # fmt: skip
#: Words that end the phrase before them. They open none of their own.
_BREAKS = ("are", "that", "and", ",")
#: Words without a meaning of their own: "left" alone says "left of".
_SILENT = ("there", "is", "of", "to", "?", "object", "objects")


@dataclass(frozen=True)
class Lexicon:
    """Words of one world. A meaning is a mixture of stream names; pad, unknown and silent words mean nothing.

    >>> Lexicon(World()).meaning["circles"]
    {'says circle': 1.0}
    """

    world: World

    @cached_property
    def meaning(self) -> Mapping[str, Mapping[str, float]]:
        meanings: dict[str, dict[str, float]] = {}
        for colour in self.world.colours:
            meanings[colour] = {f"says {colour}": 1.0}
        for place, shape in enumerate(self.world.shapes):
            meanings[shape] = meanings[noun_text(self.world, (-1, place), plural=True)] = {f"says {shape}": 1.0}
        for direction in DIRECTIONS:
            meanings[direction] = {f"says {direction}": 1.0, "opens": 1.0}
        meanings["relative"] = {"says relative": 1.0, "opens": 1.0}
        meanings["than"] = {"says than": 1.0, "opens": 1.0}
        meanings |= {word: {"opens": 1.0} for word in _BREAKS}
        meanings |= {word: {f"asks {task}": 1.0} for word, task in _HEADERS.items()}
        meanings |= {word: {} for word in _SILENT}
        return meanings

    @cached_property
    def words(self) -> tuple[str, ...]:
        """Word by token number; the first two are pad and unknown."""
        return ("", "<unknown>", *self.meaning)

    @cached_property
    def _numbers(self) -> Mapping[str, int]:
        return {word: number for number, word in enumerate(self.words) if number > UNKNOWN}

    def tokens(self, sample: Sample) -> list[int]:
        """One token per word of the question. Case matters: "Are" asks, "are" only joins."""
        words = [sample.text[a:b] for a, b in sample.words] if sample.text else []
        if len(words) > MAX_WORDS:
            raise BadInput(f"gridprog reads at most {MAX_WORDS} words; sample {sample.id!r} has {len(words)}.")
        return [self._numbers.get(word, UNKNOWN) for word in words]
