"""`generate` and `generate_batch`: the way in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from karat.datasets.grid.bucket import Bucket, parse_bucket
from karat.datasets.grid.certified import sample_certified
from karat.datasets.grid.draws import Ints
from karat.datasets.grid.plan import plan
from karat.datasets.grid.sample import GridSample, assemble
from karat.datasets.grid.scenes import Mode, SceneBatch
from karat.datasets.grid.world import PALETTE, RGB, SHAPES, World
from karat.kernel.errors import BadInput

PRESETS = ("certified", "paper")
MODES = ("pure", "spur")
CHUNK = 256  # scenes sampled at a time; has no effect on the result


def make_world(
    preset: str = "certified",
    *,
    size: int | None = None,
    cell: int = 64,
    palette: Sequence[tuple[str, RGB]] = PALETTE,
    shapes: Sequence[str] = SHAPES,
) -> World:
    """The world of a preset, S = 6 for `certified` and S = 5 for `paper`, unless a size is given."""
    if preset not in PRESETS:
        raise BadInput(f"unknown preset {preset!r}; presets: {', '.join(PRESETS)}")
    default = 6 if preset == "certified" else 5
    return World(default if size is None else size, cell, tuple((name, rgb) for name, rgb in palette), tuple(shapes))


def generate_batch(
    bucket: str | Bucket,
    indices: Iterable[int] | Ints,
    seed: int = 0,
    preset: str = "certified",
    mode: str = "pure",
    *,
    world: World | None = None,
) -> SceneBatch:
    """Scenes as arrays, without images: for training and for a million at a time.

    >>> batch = generate_batch("D2_M_F0_d0.7", range(4))
    >>> batch.grid.shape, batch.answers == [str(n) for n in batch.counts[:, 0]]
    ((4, 6, 6), True)
    """
    which = parse_bucket(bucket)
    checked = _mode(mode)
    index = np.asarray(indices if isinstance(indices, np.ndarray) else list(indices), dtype=np.int64).reshape(-1)
    if len(index) and index.min() < 0:
        raise BadInput(f"indices count from 0, got {int(index.min())}")
    world = make_world(preset) if world is None else world
    if preset == "certified":
        return sample_certified(which, world, checked, seed, index)
    if preset != "paper":
        raise BadInput(f"unknown preset {preset!r}; presets: {', '.join(PRESETS)}")
    from karat.datasets.grid.published import sample_published

    return sample_published(which, world, checked, seed, index)


def generate(
    bucket: str | Bucket,
    n: int,
    seed: int = 0,
    preset: str = "certified",
    mode: str = "pure",
    start: int = 0,
    *,
    size: int | None = None,
    cell: int = 64,
    palette: Sequence[tuple[str, RGB]] = PALETTE,
    shapes: Sequence[str] = SHAPES,
) -> list[GridSample]:
    """Samples start .. start + n - 1 of a bucket. Any slice gives the same bytes, alone or as part of a longer one.

    Args:
        bucket: depth, type, form and density, such as "D2_M_F0_d0.7" (`buckets()` lists them).
        n: how many samples.
        seed: of the set.
        preset: "certified" (every sample with its proof), or "paper" (as GridVQA-X describes its own).
        mode: "pure", or "spur" (the shortcut is right as well).
        start: position of the first.
        size: cells a side; by default the preset's.
        cell: pixels a cell.
        palette: names and colours.
        shapes: names of shapes.

    Returns:
        n samples with image, question, answer, regions, phrases and what each mechanism must use.

    Example:
        >>> sample = generate("D1_A_F1_d0.3", 1)[0]
        >>> sample.image.shape, sample.answer in ("yes", "no")
        ((384, 384, 3), True)
    """
    if n < 0 or start < 0:
        raise BadInput(f"n and start count from 0, got n={n}, start={start}")
    world = make_world(preset, size=size, cell=cell, palette=palette, shapes=shapes)
    which = parse_bucket(bucket)
    if preset == "certified":
        plan(which, world)  # refuse before any work
    samples: list[GridSample] = []
    for first in range(start, start + n, CHUNK):
        span = range(first, min(first + CHUNK, start + n))
        samples.extend(assemble(generate_batch(which, span, seed, preset, mode, world=world)))
    return samples


def _mode(mode: str) -> Mode:
    if mode == "pure":
        return "pure"
    if mode == "spur":
        return "spur"
    raise BadInput(f"unknown mode {mode!r}; modes: {', '.join(MODES)}")
