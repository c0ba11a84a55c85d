"""`build`: from the written heads and units to a network with weights. No data and no training are involved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from karat.datasets.grid import World
from karat.datasets.grid.scenes import answers as answer_names
from karat.models.gridprog import heads as wired
from karat.models.gridprog.answers import Answering, answering
from karat.models.gridprog.lexicon import DIRECTIONS, TASKS, Lexicon
from karat.models.gridprog.network import AnswerHead, Attention, Block, Mlp, Network
from karat.models.gridprog.templates import make_vision
from karat.models.gridprog.wiring import Floats, Head, Stream, Unit, bias, kinds


@dataclass(frozen=True)
class Stage:
    """One block: its name in the docs, its heads, and its MLPs as lists of units."""

    name: str
    heads: tuple[Head, ...]
    mlps: tuple[tuple[Unit, ...], ...] = ()


def stages(world: World, paths: Sequence[str]) -> list[Stage]:
    """The blocks that these paths need, first to last. A head that no path needs is not built."""
    matching = [path for path in paths if path in ("reasons", "matches_words")]
    reasons = "reasons" in paths
    gates = tuple(unit for path in matching for unit in wired.gates(path))
    blocks: list[Stage] = []
    if matching:
        blocks.append(Stage("bind", wired.bind()))
        blocks.append(Stage("gather", wired.gather(world)))
        finders = (wired.ground(world), *wired.match(world)) if reasons else wired.match(world)
        blocks.append(Stage("match", finders, () if reasons else (gates,)))
    elif "text_only" in paths or "redundant" in paths:
        blocks.append(Stage("gather", (wired.header(),)))
    if reasons:
        blocks.append(Stage("check", wired.check(world), (wired.violations(world), gates)))
    collectors = tuple(head for path in paths for head in wired.collect(world, path))
    if collectors:
        blocks.append(Stage("collect", collectors))
    return blocks


def stream(world: World, paths: Sequence[str]) -> Stream:
    """The map of the residual stream: what is given at the start, then what each stage writes."""
    given = ["one", "is null", "is readout", "is cell", "x", "y", *(f"place {bit}" for bit in range(wired.CODE_BITS))]
    values = (*world.colours, *world.shapes)
    visual = [*(f"sees {value}" for value in values), "occupied"]
    spoken = [f"says {word}" for word in (*values, *DIRECTIONS, "relative", "than")]
    spoken += ["opens", *(f"asks {task}" for task in TASKS)]
    written: dict[str, None] = {}
    for stage in stages(world, paths):
        written |= {name: None for head in stage.heads for _, name in head.writes}
        written |= {unit.writes: None for mlp in stage.mlps for unit in mlp}
    return Stream([*given, *visual, *spoken, *written])


def build(world: World, paths: Mapping[str, float]) -> Network:
    """The network of a world that answers by these paths, each with its weight at the logits."""
    names = stream(world, tuple(paths))
    vision = make_vision(world)
    see = nn.Linear(world.n_classes, len(names), bias=False)
    _set(see.weight, names.rows(_sights(world)).T)
    lexicon = Lexicon(world)
    words = nn.Embedding(len(lexicon.words), len(names))
    _set(words.weight, names.rows([lexicon.meaning.get(word, {}) for word in lexicon.words]))
    blocks = [_block(stage, names, world) for stage in stages(world, tuple(paths))]
    places = torch.tensor(names.rows(_places(world)), dtype=torch.float32)
    head = _answer_head(answering(world, paths), names, answer_names(world))
    return Network(vision, see, words, places, blocks, head).eval()


def _set(weight: Tensor, values: Floats) -> None:
    with torch.no_grad():
        weight.copy_(torch.as_tensor(np.ascontiguousarray(values)))


def _sights(world: World) -> list[dict[str, float]]:
    """What each glyph adds to its cell, by class."""
    pairs = [(colour, shape) for colour in world.colours for shape in world.shapes]
    return [{f"sees {colour}": 1.0, f"sees {shape}": 1.0, "occupied": 1.0} for colour, shape in pairs]


def _places(world: World) -> list[dict[str, float]]:
    """What each position says by itself. Coordinates are counted from the centre of the image, in cells."""
    middle = (world.size - 1) / 2
    rows: list[dict[str, float]] = []
    cell = word = 0
    for kind in kinds(world):
        # The null token says nothing that a head reads: its score is its bias, and nothing else.
        row = {"is null": 1.0} if kind == "null" else {"one": 1.0}
        if kind == "cell":
            row |= {"is cell": 1.0, "x": cell % world.size - middle, "y": cell // world.size - middle}
            cell += 1
        elif kind != "null":
            row |= {f"place {bit}": 1.0 if word >> bit & 1 else -1.0 for bit in range(wired.CODE_BITS)}
            word += 1  # the readout is word 0
        if kind == "readout":
            row["is readout"] = 1.0
        rows.append(row)
    return rows


def _block(stage: Stage, names: Stream, world: World) -> Block:
    match = max(len(head.scores) for head in stage.heads)
    carry = max(len(head.writes) for head in stage.heads)
    fixed = torch.tensor(np.stack([bias(head, world) for head in stage.heads]), dtype=torch.float32)
    attention = Attention(len(names), len(stage.heads), match, carry, fixed)
    query, key = np.zeros((2, len(stage.heads), match, len(names)))
    value, out = np.zeros((2, len(stage.heads), carry, len(names)))
    for h, head in enumerate(stage.heads):
        query[h, : len(head.scores)] = names.rows([term for term, _ in head.scores])
        key[h, : len(head.scores)] = names.rows([term for _, term in head.scores])
        value[h, : len(head.writes)] = names.rows([read for read, _ in head.writes])
        out[h, : len(head.writes)] = names.rows([{name: 1.0} for _, name in head.writes])
    for layer, rows in ((attention.query, query), (attention.key, key), (attention.value, value)):
        _set(layer.weight, rows.reshape(-1, len(names)))
    _set(attention.out.weight, out.reshape(-1, len(names)).T)
    return Block(attention, [_mlp(units, names) for units in stage.mlps])


def _mlp(units: Sequence[Unit], names: Stream) -> Mlp:
    mlp = Mlp(len(names), len(units))
    _set(mlp.up.weight, names.rows([{**unit.reads, "is null": -60.0} for unit in units]))  # shut at the null token
    _set(mlp.down.weight, names.rows([{unit.writes: 1.0} for unit in units]).T)
    return mlp


def _answer_head(made: Answering, names: Stream, answers: Sequence[str]) -> AnswerHead:
    marks = made.marks or {"no mark": {}}  # text_only counts nothing; torch wants a layer to have a row
    head = AnswerHead(len(names), len(marks), len(made.units), len(answers))
    both, logits = Stream([*names.names, *marks]), Stream(answers)
    _set(head.thermometer.weight, names.rows(list(marks.values())))
    _set(head.gate.weight, both.rows([unit.gate for unit in made.units]))
    _set(head.up.weight, both.rows([unit.up for unit in made.units]))
    _set(head.down.weight, logits.rows([unit.logits for unit in made.units]).T)
    return head
