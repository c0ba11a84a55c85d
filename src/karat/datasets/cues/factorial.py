"""Blocks: the votes of all cues, full factorial, in an order whose beginnings are balanced too.

64 rows hold every combination of the six cues once. They are numbered so that the first 8 are an orthogonal array of
strength 2 (every pair of cues takes each of its four combinations twice), the first 16 and 32 one of strength 3.
Where every third sample has no tag, 32 rows of the other five cues come in between: a block is then 96.
Every block is moved by votes of its own, which keeps all of this.
"""

from __future__ import annotations

from karat.datasets.cues.world import CUES
from karat.kernel.identity import generator

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
