"""Every word from the same coalitions: one forward gives the probability of each span of what is said, so games that
differ in their target only answer one another's questions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import torch

from karat.kernel.target import text_of
from karat.kernel.typing import Values
from karat.models.torch_model import Inputs, ReadsSpans, TorchModel
from karat.probe.evaluator import Block
from karat.probe.hooks import evaluating

if TYPE_CHECKING:
    from karat.probe.coalitions import FadedBlock, ModelGames, Setting

AnyBlock = TypeVar("AnyBlock", Block, "FadedBlock")
Family = tuple[object, ...]
_KEEP = 1 << 20  # numbers that are remembered


@dataclass(eq=False)
class SpanValues:
    """Games by family (all but the target), and what is known of each family's rows: one number per game of it."""

    members: dict[Family, list[int]] = field(default_factory=dict)
    family_of: dict[int, Family] = field(default_factory=dict)
    known: dict[tuple[Family, bytes], Values] = field(default_factory=dict)

    def add(self, index: int, setting: Setting) -> None:
        """A game joins its family."""
        sample, absence = setting.sample, setting.absence
        family = (
            sample.id, sample.text, *setting.visual.identity, setting.text, *absence.visual_identity, absence.text,
            absence.words, setting.kind, text_of(setting.target),
        )  # fmt: skip
        self.members.setdefault(family, []).append(index)
        self.family_of[index] = family

    def shares(self, blocks: Sequence[AnyBlock]) -> bool:
        """Whether any of these games has others beside it."""
        return any(len(self.members.get(self.family_of.get(block.game, ()), ())) > 1 for block in blocks)

    def values(
        self,
        games: ModelGames,
        model: TorchModel,
        blocks: Sequence[AnyBlock],
        inputs_of: Callable[[list[AnyBlock]], Inputs],
        as_kind: Callable[[Values, str], Values],
    ) -> Values:
        """Values of all rows, in order; rows that another game of the family has asked for cost nothing."""
        assert isinstance(model, ReadsSpans)
        spans: ReadsSpans = model
        values: list[Values] = [np.empty(0)] * len(blocks)
        for family in dict.fromkeys(self.family_of[block.game] for block in blocks):
            mine = [k for k, block in enumerate(blocks) if self.family_of[block.game] == family]
            members = self.members[family]
            keys = {k: row_keys(blocks[k]) for k in mine}
            fresh: dict[bytes, tuple[int, int]] = {}  # which row of which block is run
            for k in mine:
                for row, key in enumerate(keys[k]):
                    held = self.known.get((family, key))
                    if held is None or len(held) < len(members):
                        fresh.setdefault(key, (k, row))
            if fresh:
                run = [(k, [row for b, row in fresh.values() if b == k]) for k in mine]
                parts = [rows_of(blocks[k], rows) for k, rows in run if rows]
                targets = [games.settings[index].target for index in members]
                kind = games.settings[members[0]].kind
                with torch.no_grad(), evaluating(model.module):
                    scores = spans.span_scores(inputs_of(parts), targets, kind != "logit")
                table = as_kind(scores.double().cpu().numpy(), kind)
                if len(self.known) * len(members) > _KEEP:
                    self.known.clear()
                order = [keys[k][row] for k, rows in run for row in rows]
                self.known.update(((family, key), row) for key, row in zip(order, table, strict=True))
            for k in mine:
                place = members.index(blocks[k].game)
                values[k] = np.array([self.known[family, key][place] for key in keys[k]])
            saved = sum(len(keys[k]) for k in mine) - len(fresh)
            games.passes.made -= saved  # the batcher counts them as made
        return np.concatenate(values)


def row_keys(block: Block | FadedBlock) -> list[bytes]:
    """A name for every row: its mask."""
    if isinstance(block, Block):
        joint = np.concatenate([block.visual_keep, block.text_keep], axis=1)
        return [bits.tobytes() for bits in np.packbits(joint, axis=1)]
    return [shade.tobytes() for shade in block.shades]


def rows_of(block: AnyBlock, rows: list[int]) -> AnyBlock:
    """Some rows of a block."""
    if isinstance(block, Block):
        return Block(block.game, block.visual_keep[rows], block.text_keep[rows])
    return block._replace(shades=block.shades[rows])
