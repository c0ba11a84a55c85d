"""Training batches, made on the fly: batch number `step` depends on (recipe, step) alone and no sample comes twice.

Samples are generated a chunk of steps at a time, because the generator is vectorised over a bucket. A chunk holds a
fixed number of samples of every bucket, the next ones in the bucket's own order, shuffled.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from karat.datasets.grid.bucket import Bucket, buckets, parse_bucket
from karat.datasets.grid.generate import generate_batch
from karat.datasets.grid.recount import missing_anchors, recount, relation_holds
from karat.datasets.grid.scenes import ANCHOR, DISTRACTOR, EMPTY, TARGET, TARGET_2, SceneBatch
from karat.datasets.grid.widened import widen_some
from karat.kernel.sample import split_words
from karat.models.gridnet.vocabulary import number_words
from karat.models.training.changes import change
from karat.models.training.recipe import Recipe, Refinement

# Seeds of training streams start here. Evaluation seeds are small numbers, so the two never meet.
FIRST_TRAINING_SEED = 2**32
MOST_ANCHORS = 4
CHANGED_DIRECTIONS = 4.0  # how much more often REL comes in refinements
BUCKETS = buckets()
# What hidden cells look like; the first runs drew from the first four.
EMPTY_STATES = ("white", "grey", "black", "blur", "mean")
FIRST_STATES = 4

# What a word does: one class per part of speech of the question, relations and anchors by number.
WORD_ROLES = {"header": 1, "target": 2, "comparison": 4, "relation": 5, "anchor": 9}
N_WORD_ROLES = 13
N_ROLES = ANCHOR + MOST_ANCHORS

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Batch:
    """n questions as arrays; T word places, P cells."""

    cells: npt.NDArray[np.uint8]  # (n, P) object codes
    tokens: Ints  # (n, T) word numbers
    keep: Bools  # (n, T) False at padding
    word_roles: Ints  # (n, T)
    roles: Ints  # (n, P) as in datasets.grid.scenes
    anchors: Ints  # (n, 4) cell of each anchor, -1 where there is none
    relations: Bools  # (n, 4) which the question names
    holds: Bools  # (n, P, 4) whether relation k holds at a cell
    answer: Ints  # (n,) place in the grid world's list of answers
    bucket: Ints  # (n,) place in BUCKETS
    cell_keep: Bools  # (n, P) False where training hides a cell
    word_keep: Bools  # (n, T) False where training hides a word
    state: Ints  # (n,) place in EMPTY_STATES: what hidden cells look like
    emptied: Bools  # (n,) hidden cells count as empty: roles and answer are those of what is left

    def __len__(self) -> int:
        return len(self.answer)

    def take(self, rows: Ints | slice) -> Batch:
        return Batch(*(getattr(self, field.name)[rows] for field in fields(self)))

    @property
    def altered(self) -> Bools:
        """(n,) where something is hidden that may have decided the answer, which is then no longer certain."""
        unknown = ~self.cell_keep.all(axis=1) & ~self.emptied
        return np.logical_or(unknown, ~self.word_keep.all(axis=1), dtype=np.bool_)


def describe(scenes: SceneBatch, words: int, drawn: npt.NDArray[np.uint8] | None = None) -> Batch:
    """A bucket's scenes with everything that supervision needs; T is `words`. `drawn` (n, P) has what stands in the
    cells before some are hidden; the scenes are then what is left."""
    n, world, n_anchors = len(scenes), scenes.world, scenes.bucket.n_anchors
    tokens, keep = number_words(scenes.questions, at_least=words)
    word_roles = np.zeros_like(tokens)
    for i, wording in enumerate(scenes.wordings):
        spans = split_words(wording.text)
        for (start, end), role, number in wording.parts:
            for j, (a, b) in enumerate(spans):
                if start <= a and b <= end:
                    word_roles[i, j] = WORD_ROLES[role] + max(number, 0)
    anchors = np.full((n, MOST_ANCHORS), -1, dtype=np.int64)
    relations = np.zeros((n, MOST_ANCHORS), dtype=np.bool_)
    holds = np.zeros((n, world.n_cells, MOST_ANCHORS), dtype=np.bool_)
    if n_anchors:
        there = ~missing_anchors(scenes)
        anchors[:, :n_anchors] = np.where(there, scenes.anchor_cells, -1)
        if scenes.bucket.task != "direction":  # "relative to" asks for a direction, it states none
            relations[:, :n_anchors] = there
            holds[:, :, :n_anchors] = relation_holds(world, scenes.anchor_cells, scenes.directions)
    cells = scenes.cells if drawn is None else drawn
    return Batch(
        cells=cells,
        tokens=tokens,
        keep=keep,
        word_roles=word_roles,
        roles=scenes.roles.astype(np.int64),
        anchors=anchors,
        relations=relations,
        holds=holds,
        answer=scenes.answer.astype(np.int64),
        bucket=np.full(n, BUCKETS.index(scenes.bucket.name), dtype=np.int64),
        cell_keep=np.ones((n, world.n_cells), dtype=np.bool_),
        word_keep=np.ones_like(keep),
        state=np.zeros(n, dtype=np.int64),
        emptied=np.zeros(n, dtype=np.bool_),
    )


def shares(recipe: Recipe, chunk: int) -> Ints:
    """(buckets,) how many samples of each bucket the chunk holds; deeper buckets come in as the curriculum allows."""
    size = recipe.chunk * recipe.batch
    progress = chunk * recipe.chunk / recipe.steps
    deepest = next((stage.depth for stage in recipe.curriculum if progress < stage.until), 3)
    weights = np.array([_weight(parse_bucket(name), recipe, deepest) for name in BUCKETS])
    if refinement := recipe.refining(chunk * recipe.chunk):
        weights *= [_refined(parse_bucket(name), refinement[0], recipe.mode) for name in BUCKETS]
    exact = weights / weights.sum() * size
    counts = np.floor(exact).astype(np.int64)
    rest = np.argsort(counts - exact, kind="stable")[: size - counts.sum()]
    counts[rest] += 1
    return counts


def _weight(bucket: Bucket, recipe: Recipe, deepest: int) -> float:
    return recipe.emphasis[bucket.depth - 1] if bucket.depth <= deepest else 0.0


def _refined(bucket: Bucket, stage: Refinement, mode: str) -> float:
    """How much more often a bucket comes in a refinement; directions most, where a place alone gave the answer."""
    weight = CHANGED_DIRECTIONS if bucket.task == "direction" and mode == "pure" else 1.0
    if bucket.task in ("count", "compare") and bucket.density > 0.5:
        weight *= stage.dense
    return weight * (stage.compare if bucket.task == "compare" else 1.0)


@lru_cache(maxsize=4)
def chunk_of_batches(recipe: Recipe, chunk: int, words: int) -> Batch:
    """All samples of `recipe.chunk` steps, shuffled and partly hidden."""
    counts = shares(recipe, chunk)
    before = sum((shares(recipe, earlier) for earlier in range(chunk)), start=np.zeros_like(counts))
    seed = FIRST_TRAINING_SEED + recipe.seed
    random = np.random.Generator(np.random.Philox(key=[seed, chunk]))
    refining = recipe.refining(chunk * recipe.chunk)
    stage = refining[0] if refining else None
    parts = []
    for name, first, count in zip(BUCKETS, before.tolist(), counts.tolist(), strict=True):
        if count:
            scenes = generate_batch(name, np.arange(first, first + count), seed=seed, mode=recipe.mode)
            more, anywhere = recipe.enriched, False
            if stage:
                scenes = change(scenes, stage.changed, random)
                more, anywhere = max(more, stage.enriched), stage.scattered
            if stage and stage.widened:
                scenes = widen_some(scenes, stage.widened, random)
            if stage and stage.emptied:
                part = empty_some(scenes, stage.emptied, random, words)
            else:
                part = describe(scenes, words)
            if more and scenes.bucket.task == "count":
                enrich(part, scenes, more, random, anywhere)
            if stage and stage.thinned:
                thin(part, stage.thinned, random)
            parts.append(part)
    whole = Batch(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Batch)))
    order = random.permutation(len(whole))
    hide(whole, recipe.altered, random, cells=not (stage and stage.emptied))
    return whole.take(order)


def enrich(batch: Batch, scenes: SceneBatch, share: float, random: np.random.Generator, anywhere: bool = False) -> None:
    """Turn filler where every relation holds, or `anywhere`, into targets, in place, and count them in the answer.

    Certified scenes hold few enough targets to keep every heuristic wrong; a twin must count further than that when
    it meets changed scenes. Truth stays truth, and in spur matching the words stays right: both modes keep their claim.
    `anywhere` keeps the shortcut twin's claim alone: relations no longer hold at every target.
    """
    n, world = len(batch), scenes.world
    valid = anywhere | (batch.holds | ~batch.relations[:, None, :]).all(axis=2)
    chosen = random.random((n, 1)) < share
    more = chosen & valid & (batch.roles == DISTRACTOR) & (random.random(batch.roles.shape) < random.random((n, 1)))
    colour, shape = scenes.target_nouns[:, 0, 0, None], scenes.target_nouns[:, 0, 1, None]
    colours = np.where(colour < 0, random.integers(0, world.n_colours, batch.roles.shape), colour)
    shapes = np.where(shape < 0, random.integers(0, world.n_shapes, batch.roles.shape), shape)
    batch.cells[more] = (1 + colours * world.n_shapes + shapes)[more]
    batch.roles[more] = TARGET
    batch.answer[:] += more.sum(axis=1)


def thin(batch: Batch, share: float, random: np.random.Generator) -> None:
    """Take filler away from a share of the samples, in place: all of it from half of them, a part from the others. No
    answer depends on it; without such scenes a network may read a count off the number of other things."""
    n = len(batch)
    chosen, whole = random.random((n, 1)) < share, random.random((n, 1)) < 0.5
    rate = np.where(whole, 1.0, random.random((n, 1)))
    gone = chosen & (batch.roles == DISTRACTOR) & (random.random(batch.roles.shape) < rate)
    batch.cells[gone] = 0
    batch.roles[gone] = EMPTY


def empty_some(scenes: SceneBatch, share: float, random: np.random.Generator, words: int) -> Batch:
    """Scenes of which a share has cells hidden, and hidden means empty: truth is that of what is left.

    Of a third of them only what does not matter is hidden, of a third of these all of it. An anchor that is hidden
    binds nothing, as in `gridprog`; where a direction is asked for, its two objects stay.
    """
    n, cells = scenes.cells.shape
    matters = (scenes.roles == TARGET) | (scenes.roles == TARGET_2)
    if scenes.mode == "pure":
        matters |= scenes.roles >= ANCHOR
    spared = (random.random((n, 1)) < 1 / 3) | (scenes.bucket.task == "direction")
    rate = np.where(spared & (random.random((n, 1)) < 1 / 3), 1.0, random.random((n, 1)))
    chosen = random.random((n, 1)) < share
    gone = (random.random((n, cells)) < rate) & chosen & ~(matters & spared)
    left = recount(replace(scenes, cells=np.where(gone, 0, scenes.cells).astype(np.uint8)), scenes.mode == "pure")
    batch = describe(left, words, scenes.cells.copy())
    batch.cell_keep[:] = ~gone
    batch.emptied[:] = chosen[:, 0]
    batch.state[:] = random.integers(0, len(EMPTY_STATES), n)
    return batch


def hide(batch: Batch, share: float, random: np.random.Generator, cells: bool = True) -> None:
    """Hide words, and cells if wanted, of a share of the samples, in place, each at a rate between none and all. The
    answer stays what it was: on such inputs a model learns how likely it is."""
    n = len(batch)
    if not cells:
        chosen = random.random((n, 1)) < share
        batch.word_keep[:] = (random.random(batch.word_keep.shape) >= random.random((n, 1))) | ~chosen
        return
    chosen = random.random(n) < share
    which = random.random(n)  # image only, words only, both: a third each
    for array, mine, rate in (
        (batch.cell_keep, which < 2 / 3, random.random((n, 1))),
        (batch.word_keep, which > 1 / 3, random.random((n, 1))),
    ):
        array[:] = (random.random(array.shape) >= rate) | ~(chosen & mine)[:, None]
    batch.state[:] = random.integers(0, FIRST_STATES, n)


def batch_at(recipe: Recipe, step: int, words: int) -> Batch:
    """The batch of one step."""
    chunk, place = divmod(step, recipe.chunk)
    return chunk_of_batches(recipe, chunk, words).take(slice(place * recipe.batch, (place + 1) * recipe.batch))
