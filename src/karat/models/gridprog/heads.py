"""What each attention head and each inner unit of gridprog does, in the order in which they run.

    bind     words      -> the word that opens their phrase ("left", "than", the readout for the first phrase)
    gather   openers    -> the colour and shape words of their phrase; the readout -> the header
    ground   relations  -> the cell of their anchor;   match: cells -> the target phrase they fit
    check    cells      -> the relations they must obey; then violations, then the gate (soft AND)
    collect  the readout -> the cells whose gate is open

`reasons` uses all of it. `matches_words` has no ground and no check: its gate is the match alone.
"""

from __future__ import annotations

import math

from karat.datasets.grid import World
from karat.models.gridprog.lexicon import DIRECTIONS, MAX_WORDS, TASKS
from karat.models.gridprog.wiring import Head, Mix, Reach, Unit, added, scaled

PATHS = ("reasons", "matches_words", "image_only", "text_only", "redundant")
SIDES = (1, 2)  # before and after "than"
CODE_BITS = 5  # the readout and 28 words have different codes of 5 signs

# Gains: high enough that the argument of docs/concepts/twins.md is exact, low enough that gradients live.
SEE, DOUBT = 10.0, 0.55  # glyphs against "none", which stands a little above half a glyph: they are sixteen
MATCH = 9.0
PLAIN, AGREES, MISSES = 0.5, 0.05, 1.0  # any object is PLAIN above the threshold; named attributes add or take away
LIMIT = 12.0  # per cell of distance; a neighbour is half a cell from the line between "left of" and "not left of"
GATE = 8.0
COLLECT = 8.0
FEWEST = 4.0  # the null token weighs as much as four targets in the count,
NOWHERE = 0.1  # and as a tenth of one where targets are located: the less is seen, the nearer to the centre
CONDITION = 4.0  # times the grid's size: attention that needs several conditions at once; half above, half below
STRICTER = 3.0  # of two equal relations the stricter is obeyed: preference per cell

_NONE = math.exp(SEE * (DOUBT - 1))
SEEN = 1 / (1 + _NONE)  # the evidence of a clean glyph
# The weight of a clean match with a one-attribute phrase against the null token. What a match writes is divided by it,
# so that "found" and "candidate" are 1 to within half a percent, whatever the phrase names.
SETTLED = 1 / (1 + math.exp(-MATCH * (SEEN - 1 + PLAIN + SEEN * (AGREES + MISSES) - MISSES)))
OPEN = 1 / (1 + math.exp(-GATE / 2))  # the gate of a clean target

#: Direction words as vectors: the coordinate along which they grow. y points down.
TOWARDS: dict[str, dict[str, float]] = {
    "left": {"x": -1.0}, "right": {"x": 1.0}, "above": {"y": -1.0}, "below": {"y": 1.0},
}  # fmt: skip


def _along(direction: str, prefix: str = "") -> Mix:
    """The coordinate in a direction, of the cell itself or of what `prefix` names ("anchor ")."""
    return {prefix + axis: sign for axis, sign in TOWARDS[direction].items()}


def bind() -> tuple[Head, ...]:
    """Every word learns which word opens its phrase, as a code of signs, and whether "than" stands before it."""
    slope, floor = 6.0, 200.0
    nearest = slope * MAX_WORDS + 10  # the farthest opener still beats the readout, which opens the first phrase
    return (
        Head(
            "bind",
            scores=(({"one": nearest + floor}, {"opens": 1.0}),),
            writes=tuple(({f"place {bit}": 1.0}, f"opener {bit}") for bit in range(CODE_BITS)),
            reaches=(Reach("word", "word", -floor, slope, "before"), Reach("word", "readout")),
            null=-30.0,
        ),
        Head(
            "side",
            scores=(({"one": 24.0}, {"says than": 1.0}),),
            writes=(({"says than": 1.0}, "second side"),),
            reaches=(Reach("word", "word", -12.0, order="before"),),
        ),
    )


def gather(world: World) -> tuple[Head, ...]:
    """Openers (and the readout) collect the nearest colour and shape of their phrase; the readout reads the task."""
    return (_attribute("colour", world.colours), _attribute("shape", world.shapes), header())


def _attribute(name: str, values: tuple[str, ...]) -> Head:
    same, is_one = 15.0, 40.0  # one wrong sign of the code costs 30; a word that is no such attribute, 40
    spoken = {f"says {value}": 1.0 for value in values}
    return Head(
        name,
        scores=(
            *(({f"place {bit}": same}, {f"opener {bit}": 1.0}) for bit in range(CODE_BITS)),
            ({"one": is_one}, spoken),
        ),
        writes=tuple(({f"says {value}": 1.0}, f"wants {value}") for value in values),
        reaches=tuple(
            Reach(query, "word", 20.0 - same * CODE_BITS - is_one, 1.5, "after") for query in ("readout", "word")
        ),
    )


def header() -> Head:
    return Head(
        "header",
        scores=(({"one": 24.0}, {f"asks {task}": 1.0 for task in TASKS}),),
        writes=tuple(({f"asks {task}": 1.0}, f"task {task}") for task in TASKS),
        reaches=(Reach("readout", "word", -12.0),),
    )


def _fit(world: World, given: str, wanted: str) -> tuple[tuple[Mix, Mix], ...]:
    """MATCH times: PLAIN for an object, + AGREES per named attribute it has, - MISSES per one it lacks.

    Above 0 only where all that is named is seen: by 0.50 to 0.60; the nearest miss is at -0.45.

    `seen` and `wanted` say which of the two is the "query" and which the "key".
    """
    values = (*world.colours, *world.shapes)
    pairs: list[tuple[Mix, Mix]] = [
        ({f"sees {value}": MATCH * (AGREES + MISSES), "one": -MATCH * MISSES}, {f"wants {value}": 1.0})
        for value in values
    ]
    pairs.append(({"occupied": MATCH, "one": -MATCH * (1 - PLAIN)}, {"one": 1.0}))
    return tuple(pairs) if given == "query" and wanted == "key" else tuple((key, query) for query, key in pairs)


def ground(world: World) -> Head:
    """A relation word finds its anchor: the attention map is the anchor's cell, its mean position the coordinates."""
    relations = {**{f"says {direction}": 1.0 for direction in DIRECTIONS}, "says relative": 1.0}
    return Head(
        "ground",
        scores=(*_fit(world, given="key", wanted="query"), (relations, {"one": 60.0})),
        writes=(
            ({"x": 1 / SETTLED}, "anchor x"),
            ({"y": 1 / SETTLED}, "anchor y"),
            ({"is cell": 1 / SETTLED}, "anchor found"),
        ),
        reaches=(Reach("word", "cell", -60.0),),
    )


def match(world: World) -> tuple[Head, ...]:
    """A cell looks at a target phrase if its object fits: the weight is the candidate's degree, from 0 to 1."""
    fits = _fit(world, given="query", wanted="key")
    return (
        Head("match 1", fits, (({"is readout": 1 / SETTLED}, "candidate 1"),), (Reach("cell", "readout"),)),
        Head(
            "match 2",
            scores=(*fits, ({"one": 60.0}, {"says than": 1.0})),
            writes=(({"says than": 1 / SETTLED}, "candidate 2"),),
            reaches=(Reach("cell", "word", -60.0),),
        ),
    )


def _usable(world: World, word: str) -> dict[str, float]:
    """Above 0 only for this word, with a phrase that names something, which was found; by half of CONDITION · size."""
    wanted = {f"wants {value}": 1.0 for value in (*world.colours, *world.shapes)}
    return scaled(added({f"says {word}": 6.0, "anchor found": 3.0, "one": -9.5}, wanted), CONDITION * world.size)


def check(world: World) -> tuple[Head, ...]:
    """Each cell asks, per direction and side, for the line it must not cross. Two equal relations: the stricter one."""
    heads = []
    for side in SIDES:
        far = 6.0 * CONDITION * world.size
        other = {"second side": -far} if side == 1 else {"second side": far, "one": -far}
        for direction in DIRECTIONS:
            line = _along(direction, "anchor ")
            key = added(_usable(world, direction), other, scaled(line, STRICTER))
            writes = ((line, f"line {direction} {side}"), ({"anchor found": 1.0}, f"has {direction} {side}"))
            heads.append(Head(f"{direction} {side}", (({"one": 1.0}, key),), writes, (Reach("cell", "word"),)))
    return tuple(heads)


def violations(world: World) -> tuple[Unit, ...]:
    """sigmoid(LIMIT · (line + 1/2 - own coordinate)); an absent relation is violated by nobody."""
    absent = LIMIT * (world.size / 2 + 1)  # outweighs the longest way across the grid
    return tuple(
        Unit(
            added(
                {f"line {direction} {side}": LIMIT, f"has {direction} {side}": absent},
                {"one": LIMIT / 2 - absent},
                scaled(_along(direction), -LIMIT),
            ),
            f"breaks {direction} {side}",
        )
        for side in SIDES
        for direction in DIRECTIONS
    )


def gates(path: str) -> tuple[Unit, ...]:
    """sigmoid(GATE · (candidate - violations - 1/2)), per side."""
    obeys = DIRECTIONS if path == "reasons" else ()
    return tuple(
        Unit(
            added({f"candidate {side}": GATE, "one": -GATE / 2}, {f"breaks {way} {side}": -GATE for way in obeys}),
            f"{path}: gate {side}",
        )
        for side in SIDES
    )


def collect(world: World, path: str) -> tuple[Head, ...]:
    """The readout looks at the cells that count. The share of its look that cells get is n / (n + FEWEST)."""
    if path == "text_only":
        return ()
    if path in ("image_only", "redundant"):
        return (_share(path, "occupied", 1, SEEN),)
    shares = tuple(_share(path, f"{path}: gate {side}", side, OPEN) for side in SIDES)
    locate = Head(
        f"{path}: locate",
        scores=(({"one": COLLECT}, {f"{path}: gate 1": 1.0}),),
        writes=(({"x": 1.0}, f"{path}: target x"), ({"y": 1.0}, f"{path}: target y")),
        reaches=(Reach("readout", "cell", -COLLECT * OPEN),),
        null=math.log(NOWHERE),
    )
    if path == "matches_words":
        return (*shares, locate)
    refer = Head(
        f"{path}: refer",
        scores=(({"one": 1.0}, _usable(world, "relative")),),
        writes=(({"anchor x": 1.0}, "reference x"), ({"anchor y": 1.0}, "reference y")),
        reaches=(Reach("readout", "word"),),
    )
    return (*shares, locate, refer)


def _share(path: str, gate: str, side: int, full: float) -> Head:
    return Head(
        f"{path}: count {side}",
        scores=(({"one": COLLECT}, {gate: 1.0}),),
        writes=(({"is cell": 1.0}, f"{path}: share {side}"),),
        reaches=(Reach("readout", "cell", -COLLECT * full),),
        null=math.log(FEWEST),
    )
