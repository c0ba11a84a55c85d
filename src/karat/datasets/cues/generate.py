"""`generate`: photographs with independent cues, balanced within blocks, the same bytes for the same seed.

A block has the votes of all cues, full factorial, in an order whose beginnings are balanced too. 64 rows hold every
combination of the six cues once. They are numbered so that the first 8 are an orthogonal array of strength 2 (every
pair of cues takes each of its four combinations twice), the first 16 and 32 one of strength 3. Where every third sample
has no tag, 32 rows of the other five cues come in between: a block is then 96. Every block is moved by votes of its
own, which keeps all of this.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from karat.datasets.cues.compose import TEMPLATES
from karat.datasets.cues.layout import make_layout
from karat.datasets.cues.photographs import Photographs, open_photographs
from karat.datasets.cues.sample import CueSample, Scene, assemble
from karat.datasets.cues.world import CUES, World
from karat.kernel.errors import BadInput
from karat.kernel.identity import generator
from karat.kernel.roles import Dataset

# Bits of a row's number that make up a cue's vote. Over the first three no two cues have the same, over the first four
# all have an odd number of them, over the first five all but the tag's are independent, over six all.
_BITS = {
    "content": 0b000001,
    "tag": 0b000010,
    "frame": 0b001011,
    "sticker": 0b000100,
    "word": 0b011101,
    "side": 0b111110,
}


def generate(
    n: int,
    seed: int = 0,
    images: str | Path | Mapping[str, Any] | Dataset | Photographs | None = None,
    world: World | None = None,
    start: int = 0,
) -> list[CueSample]:
    """Samples number `start` to `start + n` of the set of that seed.

    Every photograph comes once before any comes twice.

    Args:
        n: how many samples.
        seed: of the set.
        images: where the photographs come from; None are the 48 that ship with Karat, a path is a folder in the layout
            of `segmentation/folder`, a mapping names a dataset: {"name": "segmentation/voc", "root": ...}.
        world: values, sizes and contrast of the cues, and the two classes; by default cats and dogs.
        start: number of the first.

    Returns:
        n samples; `votes` is what each cue says, `with_cues(...)` the same picture with other cues.

    Example:
        >>> first, second = generate(2, seed=1)
        >>> first.image.shape, first.choices, sorted(first.votes)
        ((192, 192, 3), ('yes', 'no'), ['content', 'frame', 'side', 'sticker', 'tag', 'word'])
    """
    if n < 0 or start < 0:
        raise BadInput(f"cues: n and start are 0 or more; got n={n}, start={start}.")
    world = World() if world is None else world
    photographs = open_photographs(images, world.classes)
    return [one_sample(position, seed, photographs, world) for position in range(start, start + n)]


def one_sample(position: int, seed: int, photographs: Photographs, world: World) -> CueSample:
    name = f"{seed}-{position:06d}"
    yes, no = (photographs.get(content, _turn(position, seed, content, photographs)) for content in (True, False))
    layout = make_layout(yes, no, world, len(TEMPLATES), generator(seed, name, "cues/layout"))
    return assemble(name, Scene(yes, no, layout, world), votes_at(position, seed, world.untagged))


def _turn(position: int, seed: int, content: bool, photographs: Photographs) -> int:
    """Which photograph of a class a sample has: all of them in a random order, then all again in another."""
    count = photographs.count(content)
    lap, place = divmod(position, count)
    order = generator(seed, f"lap {lap}", f"cues/{'yes' if content else 'no'}").permutation(count)
    return int(order[place])


def block_size(untagged: bool) -> int:
    return 96 if untagged else 64


def votes_at(position: int, seed: int, untagged: bool = True) -> dict[str, bool | None]:
    """The votes of sample number `position`: the same however it is asked for.

    >>> rows = [votes_at(i, seed=5, untagged=False) for i in range(8)]
    >>> sum(row["tag"] == row["frame"] for row in rows), sum(row["side"] is True for row in rows)
    (4, 4)
    """
    block, place = divmod(position, block_size(untagged))
    moved = generator(seed, f"block {block}", "cues/votes").integers(0, 2, len(CUES))
    bare = untagged and place % 3 == 2
    row = place // 3 if bare else place - place // 3 * untagged
    votes: dict[str, bool | None] = {
        cue: bool((int(_BITS[cue] & row).bit_count() + int(move)) % 2) for cue, move in zip(CUES, moved, strict=True)
    }
    if bare:
        votes["tag"] = None
    return votes
