"""`GridSample`: a `Sample` that knows its scene, its question and its certificate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from karat.datasets.grid.bucket import Bucket
from karat.datasets.grid.certificate import Certificate, Proof, prove
from karat.datasets.grid.language import Wording
from karat.datasets.grid.render import render
from karat.datasets.grid.scenes import (
    ANCHOR,
    COUNT_0,
    LEFT,
    NO,
    ROLE_NAMES,
    TARGET,
    TARGET_2,
    YES,
    SceneBatch,
    answers,
)
from karat.datasets.grid.world import World
from karat.kernel.sample import Phrase, Region, Sample, Uses
from karat.kernel.typing import Image, Mask, Scalar

# What each kind of model must use (gridvqax2026 section 3.2). The truth is about the model, not only the scene.
MECHANISMS = {
    "reasons": Uses(
        frozenset({"target", "anchor"}), frozenset({"header", "target", "anchor", "relation", "comparison"})
    ),
    "matches_words": Uses(frozenset({"target", "adversarial"}), frozenset({"header", "target", "comparison"})),
    # The blind and the redundant twins of `gridprog`: they count objects, or know the answers a header allows.
    "image_only": Uses(frozenset({"target", "anchor", "adversarial", "distractor"}), frozenset()),
    "text_only": Uses(frozenset(), frozenset({"header", "comparison"})),
    "redundant": Uses(
        frozenset({"target", "anchor", "adversarial", "distractor"}), frozenset({"header", "comparison"})
    ),
}


Named = tuple[int, int, int, int]  # role code, number within the role (1-based), cell, object code


@lru_cache(maxsize=256)
def _role_table(roles: tuple[str, ...]) -> npt.NDArray[np.bool_]:
    """(role codes,) whether a role code has one of these names."""
    return np.array([name in roles and name != "" for name in ROLE_NAMES])


@dataclass(frozen=True)
class SceneObject:
    """One object: `code` as in `World`, cell counted row by row, and what it is to the question."""

    name: str
    role: str
    code: int
    cell: int
    row: int
    column: int
    label: str


@dataclass(frozen=True, eq=False)
class Scene:
    """The objects of one grid. `cells` (S, S) has the codes, `roles` (S, S) the role codes of `scenes`."""

    world: World
    bucket: Bucket
    cells: npt.NDArray[np.uint8]
    roles: npt.NDArray[np.int8]

    @cached_property
    def named(self) -> tuple[Named, ...]:
        """Every object in the order of the cells, with its number within its role."""
        return _named(self.cells.tobytes(), self.roles.tobytes())

    @property
    def objects(self) -> tuple[SceneObject, ...]:
        return tuple(_scene_object(self.world, *item) for item in self.named)

    def cells_of(self, *roles: str) -> npt.NDArray[np.bool_]:
        """(S, S) cells whose object has one of the roles: target, anchor, adversarial, distractor."""
        cells: npt.NDArray[np.bool_] = _role_table(roles)[self.roles]
        return cells


class _WhenAsked:
    """A field of a sample that is made when it is looked at, unless it was given.

    An image takes 25 microseconds to draw and 400 kB to keep, so a list of samples keeps none. What was given, as by
    `dataclasses.replace(sample, image=...)`, stays as it is.
    """

    def __init__(self, make: Callable[[GridSample], object], keep: bool) -> None:
        self._make, self._keep = make, keep

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, sample: GridSample | None, owner: type | None = None) -> object:
        if sample is None:
            return None  # what dataclass takes for the default of the field
        held = sample.__dict__.get(self._name)
        if held is None:
            held = self._make(sample)
            if self._keep:
                sample.__dict__[self._name] = held
        return held

    def __set__(self, sample: GridSample, value: object) -> None:
        if value is not None:
            sample.__dict__[self._name] = value


def _draw(sample: GridSample) -> Image:
    return render(sample.scene.cells[None], sample.scene.world)[0]


def _regions(sample: GridSample) -> tuple[Region, ...]:
    """One region per object, whole cells, as published."""
    world = sample.scene.world
    return tuple([_region(world, *item) for item in sample.scene.named])


def _phrases(sample: GridSample) -> tuple[Phrase, ...]:
    """A target phrase speaks of the true targets of its side; a relation and its noun, of their anchor."""
    phrases = []
    for span, role, number in sample.wording.parts:
        regions: tuple[str, ...] = ()
        if role == "target":
            mine = TARGET if number == 0 else TARGET_2
            regions = tuple([f"target {k}" for code, k, _, _ in sample.scene.named if code == mine])
        elif role in ("anchor", "relation"):
            regions = (f"anchor {number + 1}",)
        phrases.append(Phrase(span, role, regions))
    return tuple(phrases)


@dataclass(frozen=True, eq=False)
class GridSample(Sample):
    """A grid question. `scene`, `wording` and `certificate` say all there is to know about it."""

    # Descriptors stand for the values of these fields, which the type checker cannot see.
    image: Image = _WhenAsked(_draw, keep=False)  # type: ignore[assignment]
    regions: tuple[Region, ...] = _WhenAsked(_regions, keep=True)  # type: ignore[assignment]
    phrases: tuple[Phrase, ...] = _WhenAsked(_phrases, keep=True)  # type: ignore[assignment]
    scene: Scene = field(kw_only=True)
    wording: Wording = field(kw_only=True)
    proof: Proof = field(kw_only=True, repr=False)  # one row of a whole batch's proof; read it as `certificate`

    @cached_property
    def certificate(self) -> Certificate:
        """Valid regions, confuser cells, what each heuristic answers, and what each intervention would change."""
        return self.proof.certificate()

    @property
    def size(self) -> tuple[int, int]:
        """(height, width) in pixels."""
        if "image" in self.__dict__:
            return super().size
        return self.scene.world.pixels, self.scene.world.pixels

    def mask(self, *roles: str) -> Mask:
        """Pixels of the cells whose object has one of the roles; whole cells, as published."""
        if "image" in self.__dict__:
            return super().mask(*roles)
        cell = self.scene.world.cell
        return self.scene.cells_of(*roles).repeat(cell, axis=1).repeat(cell, axis=0)  # whole rows last: much faster


def assemble(batch: SceneBatch) -> list[GridSample]:
    """Dress each scene of a batch as a sample."""
    proofs = prove(batch)
    world, bucket, size = batch.world, batch.bucket, batch.world.size
    common: dict[str, Scalar] = {
        "bucket": bucket.name, "preset": batch.preset, "mode": batch.mode, "depth": bucket.depth,
        "qtype": bucket.qtype, "form": bucket.form, "density": bucket.density, "seed": batch.seed,
    }  # fmt: skip
    mechanisms = MECHANISMS
    if bucket.qtype == "REL":  # the words that a position-matching model needs: which object, not relative to what
        mechanisms = MECHANISMS | {"matches_words": Uses(frozenset({"target"}), frozenset({"header", "target"}))}
    choices = _choices(world, bucket.task)
    samples = []
    grids, roles = batch.grid, batch.roles.reshape(-1, size, size)
    prefix = f"grid/{batch.preset}/{batch.mode}/{bucket.name}/{batch.seed}"
    for i, (index, wording, answer) in enumerate(zip(batch.index.tolist(), batch.wordings, batch.answers, strict=True)):
        samples.append(
            GridSample(
                id=f"{prefix}/{index}",
                text=wording.text,
                answer=answer,
                mechanisms=mechanisms,
                meta={**common, "index": index},
                choices=choices,
                scene=Scene(world, bucket, grids[i], roles[i]),
                wording=wording,
                proof=proofs[i],
            )
        )
    return samples


@lru_cache(maxsize=64)
def _choices(world: World, task: str) -> tuple[str, ...]:
    """What a question of a task can be answered with: a model that talks is read as one of these."""
    named = answers(world)
    return {"count": named[COUNT_0:], "direction": named[LEFT:COUNT_0]}.get(task, named[YES : NO + 1])


def _named(cells: bytes, roles: bytes) -> tuple[Named, ...]:
    numbers = {"distractor": 0, "adversarial": 0, "target": 0}
    named = []
    for cell, (code, role) in enumerate(zip(cells, roles, strict=True)):
        if role >= ANCHOR:
            named.append((role, role - ANCHOR + 1, cell, code))
        elif role > 0:
            kind = ROLE_NAMES[role]
            numbers[kind] += 1
            named.append((role, numbers[kind], cell, code))
    return tuple(named)


@lru_cache(maxsize=65536)  # few enough to keep: a region is immutable and many samples share it
def _region(world: World, role: int, number: int, cell: int, code: int) -> Region:
    row, column = divmod(cell, world.size)
    box = (column * world.cell, row * world.cell, world.cell, world.cell)
    kind = ROLE_NAMES[role]
    return Region(f"{kind} {number}", kind, (box,), label=world.labels[code])


def _scene_object(world: World, role: int, number: int, cell: int, code: int) -> SceneObject:
    kind = ROLE_NAMES[role]
    return SceneObject(f"{kind} {number}", kind, code, cell, *divmod(cell, world.size), world.labels[code])
