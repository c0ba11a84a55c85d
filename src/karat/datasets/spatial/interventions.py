"""Further samples made of one: the same picture with another answer to explain, or asked the other way round.

Each carries `origin`, `kind` and `variant` in its meta, so that a protocol joins them again. `explain` in the meta
names the answer whose evidence is asked for; without it the model's own answer is explained.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from karat.datasets.spatial.pair import Pair
from karat.datasets.spatial.question import OPTIONS, RELATIONS
from karat.kernel.errors import BadInput
from karat.kernel.sample import Sample

Kind = Literal["plain", "probe", "swap", "move"]
KINDS: tuple[Kind, ...] = ("plain", "probe", "swap", "move")
#: Samples that each kind makes of one; `move` depends on the dataset.
PER_ORIGIN = {"plain": 1, "probe": 4, "swap": 1}


def per_pair(kinds: Sequence[str]) -> int:
    """Samples that every pair has, where nothing moves."""
    return sum(PER_ORIGIN[kind] for kind in kinds)


def load_variants(
    pairs: Sequence[Pair], kinds: Sequence[str], folder: str | None, start: int, stop: int
) -> list[Sample]:
    """Samples start to stop of a dataset in which every pair has the same number of variants."""
    each = per_pair(kinds)
    made = {i: variants(pairs[i], kinds, folder) for i in range(start // each, -(-stop // each))}
    return [made[i // each][i % each] for i in range(start, stop)]


def check_kinds(kinds: Sequence[str]) -> None:
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown or not kinds or len(set(kinds)) < len(kinds):
        raise BadInput(f"kinds are some of {', '.join(KINDS)}, each once; got {list(kinds)}.")


def variants(pair: Pair, kinds: Sequence[str], folder: str | None, moves: Sequence[Pair] = ()) -> list[Sample]:
    """Every sample that the kinds make of one pair: plain, then four probes, the swapped question, the moves."""
    made: list[Sample] = []
    if "plain" in kinds:
        made.append(pair.sample(folder))
    if "probe" in kinds:
        for relation, option in zip(RELATIONS, OPTIONS, strict=True):
            name = f"{pair.id}/probe/{relation}"
            made.append(pair.sample(folder, name, kind="probe", variant=relation, explain=option))
    if "swap" in kinds:
        made.append(pair.swapped().sample(folder, f"{pair.id}/swap", kind="swap", variant="swap"))
    if "move" in kinds:
        for k, moved in enumerate(moves):
            marks = {"origin": pair.id, "kind": "move", "variant": f"{moved.relation} {k}"}
            made.append(moved.sample(folder, f"{pair.id}/move/{k}", **marks))
    return made
