"""Dataset `spatial/grid`: the certified grid's REL questions, the embedded default. Reference = anchor, one target."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Ge, Gt, Le

from karat.datasets.spatial.pair import PER_ORIGIN, check_kinds
from karat.datasets.spatial.question import RELATIONS, angle, centre, zone
from karat.kernel.card import Card
from karat.kernel.errors import BadInput
from karat.kernel.identity import generator
from karat.kernel.sample import Sample
from karat.kernel.typing import Scalar

if TYPE_CHECKING:
    from karat.datasets.grid.scenes import SceneBatch

PLACES = 2  # moves per direction: the same relation from another place, eight moves in all


@dataclass(frozen=True)
class GridRelations:
    """`n` scenes, the four relations balanced; `kinds` adds the interventions on each (see `interventions`).

    Interventions are many and comparisons need many scenes: with `deep`, only the first so many have all kinds, and the
    others are plain.
    """

    n: Annotated[int, Ge(1)] = 200
    density: Annotated[float, Gt(0), Le(1)] = 0.3
    mode: Literal["pure", "spur"] = "pure"
    seed: Annotated[int, Ge(0)] = 0
    kinds: tuple[str, ...] = ("plain",)
    cell: Annotated[int, Ge(4), Le(1024)] = 64
    deep: Annotated[int, Ge(0)] | None = None
    card: ClassVar[Card] = Card(
        "spatial/grid", "where is one shape relative to another? Scenes with a proof, and interventions on them",
        "dataset", citation="creg2026; gridvqax2026",
    )  # fmt: skip

    def __post_init__(self) -> None:
        check_kinds(self.kinds)
        if self.deep is not None and not 0 <= self.deep <= self.n:
            raise BadInput(f"deep is how many of the {self.n} scenes have all kinds; got {self.deep}.")
        if "move" in self.kinds and self.mode != "pure":
            raise BadInput(
                "moves need mode pure: in spur scenes the target may stand where only one relation is possible."
            )

    @property
    def label(self) -> str:
        more = "" if self.kinds == ("plain",) else f"+{'+'.join(kind for kind in self.kinds if kind != 'plain')}"
        return f"spatial/grid.{self.mode} d{self.density:g}{more}" + (f" seed {self.seed}" if self.seed else "")

    @property
    def revision(self) -> str:
        return f"{self.card.name}-{self.card.version}"

    @property
    def per_origin(self) -> int:
        return sum(PER_ORIGIN.get(kind, len(RELATIONS) * PLACES) for kind in self.kinds)

    @property
    def _deep(self) -> int:
        return self.n if self.deep is None else self.deep

    def __len__(self) -> int:
        return self._deep * self.per_origin + self.n - self._deep

    def load(self, start: int, stop: int) -> list[Sample]:
        """All samples of one scene stand together: the deep scenes first, `per_origin` each, then a sample a scene."""
        each, end = self.per_origin, self._deep * self.per_origin
        stop = min(stop, len(self))
        made: list[Sample] = []
        if start < min(stop, end):
            first, last = start // each, -(-min(stop, end) // each)
            made += self._origins(first, last, self.kinds)[start - first * each : min(stop, end) - first * each]
        if stop > end:
            made += self._origins(self._deep + max(start - end, 0), self._deep + stop - end, ("plain",))
        return made

    def _origins(self, first: int, last: int, kinds: tuple[str, ...]) -> list[Sample]:
        from karat.datasets.grid.generate import generate_batch, make_world
        from karat.datasets.grid.sample import GridSample, assemble

        world = make_world(cell=self.cell)
        batch = generate_batch(
            f"D1_REL_F0_d{self.density:g}", range(first, last), self.seed, mode=self.mode, world=world
        )
        plain = assemble(batch)
        # One column per variant: its samples for all scenes, its kind, its name, and the answer to be explained.
        columns: list[tuple[list[GridSample], str, str, str | None]] = []
        for kind in kinds:
            if kind == "plain":
                columns.append((plain, kind, "", None))
            elif kind == "probe":
                columns += [(plain, kind, relation, relation) for relation in RELATIONS]
            elif kind == "swap":
                columns.append((assemble(_swapped(batch)), kind, kind, None))
            else:
                ids = [sample.id for sample in plain]
                columns += [(assemble(moved), kind, name, None) for name, moved in _moved(batch, ids, self.seed)]
        return [
            _dressed(column[i], plain[i].id, kind, name, explain)
            for i in range(len(plain))
            for column, kind, name, explain in columns
        ]


def _dressed(sample: Sample, origin: str, kind: str, variant: str, explain: str | None) -> Sample:
    reference = centre(sample, "anchor")
    marks: dict[str, Scalar] = {
        "relation": sample.answer, "angle": angle(reference, centre(sample, "target")), "origin": origin, "kind": kind,
        "variant": variant, "zone": zone(reference, sample.size),
    }  # fmt: skip
    answer = sample.answer
    if explain is not None:  # a probe asks what speaks for one relation, whichever is true
        marks["explain"], answer = explain, None
    name = origin if kind == "plain" else f"{origin}/{kind}/{variant}"
    return replace(sample, id=name, answer=answer, meta={**sample.meta, **marks}, choices=RELATIONS)


def _swapped(batch: SceneBatch) -> SceneBatch:
    """Target and anchor change roles; the scene stays, the answer turns round."""
    from karat.datasets.grid.scenes import ANCHOR, LEFT, TARGET

    roles = batch.roles.copy()
    roles[batch.roles == TARGET], roles[batch.roles == ANCHOR] = ANCHOR, TARGET
    return replace(
        batch, roles=roles, target_nouns=batch.anchor_nouns, anchor_nouns=batch.target_nouns,
        anchor_cells=(batch.roles == TARGET).argmax(axis=1)[:, None], answer=((batch.answer - LEFT) ^ 1) + LEFT,
    )  # fmt: skip


def _moved(batch: SceneBatch, ids: list[str], seed: int) -> Iterator[tuple[str, SceneBatch]]:
    """Fix-B-Move-A: the target stays, the anchor trades places with whatever is where it goes.

    For each relation, PLACES places from which the target is clearly that (one axis leads by a cell or more).
    """
    from karat.datasets.grid.scenes import ANCHOR, LEFT, TARGET

    world, rows = batch.world, np.arange(len(batch))
    target, anchor = (batch.roles == TARGET).argmax(axis=1), batch.anchor_cells[:, 0]
    dx = world.columns[target][:, None] - world.columns[None, :]  # target minus place, (n, P)
    dy = world.rows[target][:, None] - world.rows[None, :]
    lead = np.stack([-dx - abs(dy), dx - abs(dy), -dy - abs(dx), dy - abs(dx)])  # as RELATIONS
    draws = np.stack([generator(seed, name, "spatial/move").random((len(RELATIONS), world.n_cells)) for name in ids])
    for k, relation in enumerate(RELATIONS):
        order = np.where(lead[k] >= 1, draws[:, k], 2.0).argsort(axis=1)  # possible places first, at random
        for j in range(PLACES):
            place = order[:, j]
            cells, roles = batch.cells.copy(), batch.roles.copy()
            for table in (cells, roles):
                table[rows, place], table[rows, anchor] = table[rows, anchor].copy(), table[rows, place].copy()
            assert (roles[rows, place] == ANCHOR).all()
            answer = np.full_like(batch.answer, LEFT + k)
            yield (
                f"{relation} {j}",
                replace(batch, cells=cells, roles=roles, anchor_cells=place[:, None], answer=answer),
            )
