"""The world of cues: what can vary in a composed photograph, and what each value votes for.

Six cues vary independently, and each votes for one of two answers: its first value for "yes", its second for "no". A
cue that is not there votes for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from karat.kernel.errors import BadInput

ANSWERS = ("yes", "no")
CUES = ("content", "tag", "frame", "sticker", "word", "side")
DRAWN = ("tag", "frame", "sticker")  # laid over the photograph; they can be left out
IMAGE_CUES = ("content", "tag", "frame", "sticker", "side")
#: Role of the region, or of the phrase, that carries a cue. Where the object is, is told by the object.
CARRIER = {**{name: name for name in CUES}, "side": "content"}

Votes = Mapping[str, bool | None]  # cue → True for "yes", False for "no", None where it is not there

COLOURS = {
    "orange": (232, 126, 30),
    "teal": (20, 134, 144),
    "red": (200, 40, 50),
    "blue": (40, 80, 200),
    "green": (50, 150, 60),
    "purple": (130, 60, 170),
    "yellow": (235, 200, 40),
    "pink": (235, 120, 170),
}


@dataclass(frozen=True)
class World:
    """Values of the cues and how they are drawn. Lengths are shares of the picture's side, so any `pixels` will do.

    `contrast` below 1 fades tag, frame and sticker (towards paper, grey and the photograph). `untagged` leaves the tag
    out of every third sample.

    >>> World().value("frame", False)
    'teal'
    """

    classes: tuple[str, str] = ("cat", "dog")
    tags: tuple[str, str] = ("OAK", "ELM")
    frames: tuple[str, str] = ("orange", "teal")
    stickers: tuple[str, str] = ("star", "disc")
    words: tuple[str, str] = ("please", "kindly")
    pixels: int = 192
    tag_height: float = 0.15
    frame_width: float = 1 / 12
    sticker_size: float = 0.19
    contrast: float = 1.0
    untagged: bool = True

    def __post_init__(self) -> None:
        from karat.datasets.cues.shapes import LETTERS, OUTLINES

        for name in ("classes", "tags", "frames", "stickers", "words"):
            values = getattr(self, name)
            if len(values) != 2 or values[0].strip().lower() == values[1].strip().lower() or not all(values):
                raise BadInput(f"cues: {name} are two values that differ, one for each answer; got {list(values)}.")
        for name, known in (("frames", COLOURS), ("stickers", OUTLINES)):
            for value in getattr(self, name):
                if value not in known:
                    raise BadInput(f"cues: {name} are two of {', '.join(known)}; got {value!r}.")
        for word in self.tags:
            if not set(word.upper()) <= set(LETTERS) or len(word) > 8:
                raise BadInput(f"cues: a tag is a word of at most 8 letters A to Z; got {word!r}.")
        for word in self.words:
            if not word.isalpha():
                raise BadInput(f"cues: words of the question are single words; got {word!r}.")
        if self.pixels < 64:
            raise BadInput(f"cues: pictures have 64 pixels a side or more; got {self.pixels}.")
        shares = {"tag_height": (0.05, 0.3), "frame_width": (0.02, 0.2), "sticker_size": (0.05, 0.4)}
        for name, (low, high) in {**shares, "contrast": (0.05, 1.0)}.items():
            if not low <= getattr(self, name) <= high:
                raise BadInput(f"cues: {name} lies between {low} and {high}; got {getattr(self, name)}.")
        if self.tag_width > 1 - 2 * self.frame_width - self.sticker_size:
            raise BadInput(
                f"cues: a tag {self.tag_width:.2f} wide leaves no room beside frame and sticker; lower tag_height."
            )

    @property
    def tag_width(self) -> float:
        """Both words get the same box: the longer one's."""
        from karat.datasets.cues.shapes import width

        return self.tag_height * width(max(map(len, self.tags)))

    @cached_property
    def values(self) -> dict[str, tuple[str, str]]:
        return {
            "content": self.classes,
            "tag": self.tags,
            "frame": self.frames,
            "sticker": self.stickers,
            "word": self.words,
            "side": ("left", "right"),
        }

    def value(self, cue: str, vote: bool | None) -> str | None:
        """What a cue shows when it votes so."""
        return None if vote is None else self.values[cue][0 if vote else 1]

    def vote(self, cue: str, value: str) -> bool:
        """What a value of a cue votes for; the inverse of `value`."""
        if value not in self.values[cue]:
            raise BadInput(f"cues: {cue} is {' or '.join(self.values[cue])}; got {value!r}.")
        return self.values[cue].index(value) == 0


def answer_of(vote: bool) -> str:
    return ANSWERS[0 if vote else 1]
