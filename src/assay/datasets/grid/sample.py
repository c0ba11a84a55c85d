"""`GridSample`: a `Sample` that knows its scene, its question and its certificate."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from assay.datasets.grid.bucket import Bucket
from assay.datasets.grid.certificate import Certificate, Proof, prove
from assay.datasets.grid.language import Wording
from assay.datasets.grid.render import render
from assay.datasets.grid.scenes import ROLE_NAMES, SceneBatch
from assay.datasets.grid.world import World
from assay.kernel.sample import Phrase, Region, Sample, Uses
from assay.kernel.typing import Image, Mask, Scalar

# What each kind of model must use (gridvqax2026 section 3.2). The truth is about the model, not only the scene.
MECHANISMS = {
    "reasons": Uses(
        frozenset({"target", "anchor"}), frozenset({"header", "target", "anchor", "relation", "comparison"})
    ),
    "matches_words": Uses(frozenset({"target", "adversarial"}), frozenset({"header", "target", "comparison"})),
}


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
    def objects(self) -> tuple[SceneObject, ...]:
        named = _named(self.world, self.cells.tobytes(), self.roles.tobytes())
        return tuple(_scene_object(self.world, *item) for item in named)

    def cells_of(self, *roles: str) -> npt.NDArray[np.bool_]:
        """(S, S) cells whose object has one of the roles: target, anchor, adversarial, distractor."""
        wanted = np.array([name in roles and name != "" for name in ROLE_NAMES])
        found: npt.NDArray[np.bool_] = wanted[self.roles]
        return found


class _Drawn:
    """The image of a scene, drawn when it is looked at: that takes 25 microseconds, keeping it takes 400 kB.

    An image that was given (`dataclasses.replace(sample, image=...)`) is kept as it is.
    """

    def __get__(self, sample: GridSample | None, owner: type | None = None) -> Image | None:
        if sample is None:
            return None  # what dataclass takes for the default of the field
        given: Image | None = sample.__dict__.get("image")
        return render(sample.scene.cells[None], sample.scene.world)[0] if given is None else given

    def __set__(self, sample: GridSample, image: Image | None) -> None:
        if image is not None:
            sample.__dict__["image"] = image


@dataclass(frozen=True, eq=False)
class GridSample(Sample):
    """A grid question. `scene`, `wording` and `certificate` say all there is to know about it."""

    image: Image = _Drawn()  # type: ignore[assignment]  # a descriptor that stands for the field's value
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
        return self.scene.cells_of(*roles).repeat(cell, axis=0).repeat(cell, axis=1)


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
    samples = []
    grids, roles = batch.grid, batch.roles.reshape(-1, size, size)
    prefix = f"grid/{batch.preset}/{batch.mode}/{bucket.name}/{batch.seed}"
    for i, (index, wording, answer) in enumerate(
        zip(batch.index.tolist(), batch.wordings, batch.answers, strict=True)
    ):
        named = _named(world, grids[i].tobytes(), roles[i].tobytes())
        samples.append(
            GridSample(
                id=f"{prefix}/{index}",
                text=wording.text,
                answer=answer,
                regions=tuple([_region(world, *item) for item in named]),
                phrases=_phrases(wording, named),
                mechanisms=mechanisms,
                meta={**common, "index": index},
                scene=Scene(world, bucket, grids[i], roles[i]),
                wording=wording,
                proof=proofs[i],
            )
        )
    return samples


Named = tuple[int, int, int, int]  # role code, number within the role (1-based), cell, object code


@lru_cache(maxsize=4)  # the regions, the phrases and the objects of one sample ask in a row
def _named(world: World, cells: bytes, roles: bytes) -> tuple[Named, ...]:
    numbers = {"distractor": 0, "adversarial": 0, "target": 0}
    named = []
    for cell, (code, role) in enumerate(zip(cells, roles, strict=True)):
        if role >= 6:
            named.append((role, role - 5, cell, code))
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


def _phrases(wording: Wording, named: tuple[Named, ...]) -> tuple[Phrase, ...]:
    """A target phrase speaks of the true targets of its side; a relation and its noun, of their anchor."""
    phrases = []
    for span, role, number in wording.parts:
        if role == "target":
            regions = tuple([f"target {k}" for code, k, _, _ in named if code == 3 + 2 * number])
        elif role in ("anchor", "relation"):
            regions = (f"anchor {number + 1}",)
        else:
            regions = ()
        phrases.append(Phrase(span, role, regions))
    return tuple(phrases)
