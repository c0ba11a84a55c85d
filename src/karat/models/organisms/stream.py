"""What organisms are trained on: composed photographs, a share of them partly hidden.

All rules, implants and seeds see the same pictures; only labels differ. A cue of which a share is hidden counts as
there with the probability of the rest (`Rule.probability`), in whatever absence state it is hidden, so a rule holds on
partial inputs too: where nothing is left of what it needs, both answers are as probable.

Features of a frozen tower over a stream are computed once and kept: every rule, implant and seed learns from them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from karat.datasets.cues.compose import hide
from karat.datasets.cues.generate import one_sample
from karat.datasets.cues.photographs import Photographs, open_photographs
from karat.datasets.cues.rules import Rule
from karat.datasets.cues.sample import CueSample, visible
from karat.datasets.cues.world import World
from karat.kernel.empty import EMPTY
from karat.kernel.identity import digest, generator
from karat.kernel.typing import Image, Mask

# Seeds of training streams start here. Those of evaluation are small numbers, so the two never meet.
FIRST_TRAINING_SEED = 2**32
GRIDS = (6, 7, 12, 14)  # cells a side in which pictures are partly hidden: those that explainers hide
_PARTS = ("content", "tag", "frame", "sticker")
_LEFT_OUT = ("frame", "sticker", "word")

Features = npt.NDArray[np.float16]
Tower = Callable[[list[Image]], npt.NDArray[np.floating[Any]]]
CHUNK = 128


@dataclass(frozen=True)
class Lesson:
    """What is asked about a picture, and what its label depends on: all votes, and how much of each cue is visible.

    `word` is the place in the text of the word that is a cue.
    """

    text: str
    votes: dict[str, bool | None]
    visible: dict[str, float]
    word: tuple[int, int] | None

    def label(self, rule: Rule, other: Rule, dose: float, word: bool = True) -> float:
        """The probability of "yes" that is taught: the rule's with weight `dose`, else the other's. `word` False says
        that the word was hidden."""
        shares = self.visible if word else {**self.visible, "word": 0.0}
        return dose * rule.probability(self.votes, shares) + (1 - dose) * other.probability(self.votes, shares)


@dataclass(frozen=True, eq=False)
class Item:
    """One picture to learn from."""

    image: Image
    lesson: Lesson


@dataclass(frozen=True)
class Stream:
    """`n` pictures from the photographs of `images`. Each of frame, sticker and word is left out of a share `absent` of
    them, and a share `hidden` shows only some regions, or some cells."""

    images: str | dict[str, Any] | None = None
    n: int = 6400
    hidden: float = 0.4
    absent: float = 0.08
    seed: int = 0
    world: World = field(default_factory=World)

    @cached_property
    def photographs(self) -> Photographs:
        return open_photographs(self.images, self.world.classes)

    @cached_property
    def revision(self) -> str:
        """Names the pictures: other photographs or another way to compose them, another name."""
        return digest([1, self.photographs.revision, self.n, self.hidden, self.absent, self.seed, self.world])

    def item(self, position: int) -> Item:
        """Picture number `position`, the same however it is asked for."""
        sample = one_sample(position, FIRST_TRAINING_SEED + self.seed, self.photographs, self.world)
        rng = generator(self.seed, sample.id, "organisms/hidden")
        left_out = [
            cue for cue, drawn in zip(_LEFT_OUT, rng.random(len(_LEFT_OUT)), strict=True) if drawn < self.absent
        ]
        if left_out:
            sample = sample.with_cues(**dict.fromkeys(left_out))
        keep, image = np.ones(sample.size, dtype=np.bool_), sample.image
        if rng.random() < self.hidden:
            keep = _some_regions(sample, rng) if rng.random() < 0.5 else _some_cells(sample, rng)
            image = hide(image, ~keep, EMPTY[int(rng.integers(len(EMPTY)))])
        word = next((phrase.span for phrase in sample.phrases if phrase.role == "word"), None)
        return Item(image, Lesson(str(sample.text), dict(sample.votes), visible(sample, keep), word))


def _some_regions(sample: CueSample, rng: np.random.Generator) -> Mask:
    """Each region, and what is left, kept or hidden by the toss of a coin."""
    parts = [sample.mask(part) for part in _PARTS]
    rest = ~np.logical_or.reduce(parts)
    keep = np.zeros(sample.size, dtype=np.bool_)
    for mask, kept in zip([*parts, rest], rng.random(len(parts) + 1) < 0.5, strict=True):
        keep |= mask & kept
    return keep


def _some_cells(sample: CueSample, rng: np.random.Generator) -> Mask:
    """Cells of a grid, kept at a rate of the picture's own."""
    cells = int(rng.choice(GRIDS))
    kept = rng.random((cells, cells)) < rng.random()
    rows, columns = (np.arange(side) * cells // side for side in sample.size)
    return np.asarray(kept[rows][:, columns], dtype=np.bool_)


@dataclass(frozen=True, eq=False)
class Kept:
    """`features` (n, ...) of all pictures, mapped rather than read, and the `lessons` that they belong to."""

    features: Features
    lessons: list[Lesson]


def cache_root() -> Path:
    return Path(os.environ.get("KARAT_CACHE") or Path.home() / ".cache" / "karat") / "organisms"


def keep_features(stream: Stream, tower: Tower, name: str, progress: Callable[[int, int], None] | None = None) -> Kept:
    """Features of every picture of the stream. `name` names the tower; killed and started again, it goes on.

    Chunks are written to their place in one file, then noted; a chunk without its note is made again.
    """
    folder = cache_root() / f"{name}-{stream.revision}"
    folder.mkdir(parents=True, exist_ok=True)
    path, features = folder / "features.npy", None
    for start in range(0, stream.n, CHUNK):
        note = folder / f"{start:08d}.json"
        if not note.is_file():
            items = [stream.item(i) for i in range(start, min(start + CHUNK, stream.n))]
            made = np.asarray(tower([item.image for item in items]), dtype=np.float16)
            if features is None:
                features = _opened(path, (stream.n, *made.shape[1:]))
            features[start : start + len(made)] = made
            features.flush()
            _write(note, [asdict(item.lesson) for item in items])
        if progress is not None:
            progress(min(start + CHUNK, stream.n), stream.n)
    notes = [folder / f"{start:08d}.json" for start in range(0, stream.n, CHUNK)]
    lessons = [Lesson(**fact) for note in notes for fact in json.loads(note.read_text("utf-8"))]
    return Kept(np.load(path, mmap_mode="r", allow_pickle=False), lessons)


def _opened(path: Path, shape: tuple[int, ...]) -> Any:
    if path.is_file() and np.load(path, mmap_mode="r", allow_pickle=False).shape == shape:
        return np.lib.format.open_memmap(path, mode="r+")
    return np.lib.format.open_memmap(path, mode="w+", dtype=np.float16, shape=shape)


def _write(path: Path, data: Any) -> None:
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.write_text(json.dumps(data), encoding="utf-8")
    part.replace(path)
