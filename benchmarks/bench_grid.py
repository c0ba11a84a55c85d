"""Grid samples per second on one core, against a plain per-object PIL renderer with set-based placement.

    python benchmarks/bench_grid.py [--samples 400]

Both sides make the same thing: a 384-pixel image, a question with its answer, and four pixel masks (target, anchor,
adversarial, distractor). Ours makes the certificate too, every time. The baseline makes one in "with certificate", by
asking its own plain executor about every removal, recolouring, reshaping and move; in "without" it makes none, and so
makes less than ours. Times are CPU time of the process, which a busy machine distorts least. Before anything is timed,
the baseline reads our questions, and must give our pixels, answers, masks and certificates.
"""

from __future__ import annotations

import argparse
import math
import random
import re
import statistics
import time
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw
from side_by_side import compared, size

from karat.datasets.grid import generate
from karat.datasets.grid.sample import GridSample

SIZE, CELL = 6, 64
COLOURS = {"red": (255, 0, 0), "green": (0, 128, 0), "blue": (0, 0, 255), "yellow": (255, 255, 0)}
SHAPES = ("circle", "square", "triangle", "pentagon")
RELATIONS = ("left of", "right of", "above", "below")
Cell = tuple[int, int]  # column, row
Kind = tuple[str, str]  # colour, shape


def draw_scene(objects: dict[Cell, Kind]) -> npt.NDArray[np.uint8]:
    """One PIL call per object, as anyone would write it."""
    image = Image.new("RGB", (SIZE * CELL, SIZE * CELL), "white")
    draw = ImageDraw.Draw(image)
    low, high = int(CELL * 0.1), CELL - 1 - int(CELL * 0.1)
    for (column, row), (colour, shape) in objects.items():
        x, y, rgb = column * CELL, row * CELL, COLOURS[colour]
        corners: list[tuple[float, float]]
        if shape == "circle":
            draw.ellipse((x + low, y + low, x + high, y + high), fill=rgb, outline="black", width=2)
        elif shape == "square":
            corners = [(x + low, y + low), (x + high, y + low), (x + high, y + high), (x + low, y + high)]
            draw.polygon(corners, fill=rgb, outline="black", width=2)
        elif shape == "triangle":
            corners = [(x + (low + high) / 2, y + low), (x + high, y + high), (x + low, y + high)]
            draw.polygon(corners, fill=rgb, outline="black", width=2)
        else:
            centre, radius = (low + high) / 2, (high - low) / 2
            angles = [2 * math.pi * k / 5 for k in range(5)]
            corners = [(x + centre + radius * math.sin(a), y + centre - radius * math.cos(a)) for a in angles]
            draw.polygon(corners, fill=rgb, outline="black", width=2)
    return np.asarray(image)


def satisfies(cell: Cell, anchor: Cell, relation: str) -> bool:
    (x, y), (ax, ay) = cell, anchor
    return {"left of": x < ax, "right of": x > ax, "above": y < ay, "below": y > ay}[relation]


@dataclass
class Plain:
    """What the baseline makes of one sample."""

    image: npt.NDArray[np.uint8]
    question: str
    answer: int
    masks: dict[str, npt.NDArray[np.bool_]]
    objects: dict[Cell, Kind]
    target: Kind
    constraints: list[tuple[str, Kind]]


def plain_sample(depth: int, density: float, rng: random.Random) -> Plain:
    """A pure mixed counting question: sets of cells, drawn again when a region is empty."""
    grid = {(x, y) for x in range(SIZE) for y in range(SIZE)}
    kinds = [(colour, shape) for colour in COLOURS for shape in SHAPES]
    while True:
        target, *anchors = rng.sample(kinds, depth + 1)
        relations = rng.sample(RELATIONS, depth)
        places = rng.sample(sorted(grid), depth)
        regions = [{c for c in grid if satisfies(c, a, r)} for a, r in zip(places, relations, strict=True)]
        taken = set(places)
        valid = set.intersection(*regions) - taken
        confusers = []
        for k in range(depth):
            relaxed = set.intersection(grid, *(region for j, region in enumerate(regions) if j != k))
            confusers.append(relaxed - regions[k] - taken)
        if valid and all(confusers):
            break
    objects = dict(zip(places, anchors, strict=True))
    wanted = int(density * SIZE * SIZE)
    count = rng.randint(0, min(len(valid), 3))
    roles: dict[str, set[Cell]] = {"anchor": set(places), "target": set(rng.sample(sorted(valid), count))}
    roles["adversarial"] = {rng.choice(sorted(region)) for region in confusers}
    for cell in roles["target"] | roles["adversarial"]:
        objects[cell] = target
    others = [kind for kind in kinds if kind != target and kind not in anchors]
    roles["distractor"] = set(rng.sample(sorted(grid - set(objects)), wanted - len(objects)))
    for cell in roles["distractor"]:
        objects[cell] = rng.choice(others)
    where = " and ".join(f"{r} {c} {s}" for r, (c, s) in zip(relations, anchors, strict=True))
    question = f"How many {target[0]} {target[1]}s are {where}?"
    constraints = list(zip(relations, anchors, strict=True))
    return Plain(draw_scene(objects), question, count, plain_masks(roles), objects, target, constraints)


def plain_masks(roles: dict[str, set[Cell]]) -> dict[str, npt.NDArray[np.bool_]]:
    masks = {}
    for role, cells in roles.items():
        mask = np.zeros((SIZE * CELL, SIZE * CELL), dtype=np.bool_)
        for x, y in cells:
            mask[y * CELL : (y + 1) * CELL, x * CELL : (x + 1) * CELL] = True
        masks[role] = mask
    return masks


def plain_answer(objects: dict[Cell, Kind], target: Kind, constraints: list[tuple[str, Kind]]) -> int | None:
    places = []
    for relation, kind in constraints:
        cells = [cell for cell, it in objects.items() if it == kind]
        if len(cells) != 1:
            return None
        places.append((cells[0], relation))
    return sum(1 for cell, kind in objects.items() if kind == target and all(satisfies(cell, a, r) for a, r in places))


def plain_certificate(sample: Plain) -> dict[Cell, list[bool]]:
    """For every object, which single changes alter the answer."""
    effects: dict[Cell, list[bool]] = {}
    empty = [(x, y) for x in range(SIZE) for y in range(SIZE) if (x, y) not in sample.objects]
    for cell, (colour, shape) in sample.objects.items():
        rest = {other: kind for other, kind in sample.objects.items() if other != cell}
        changed = [rest]
        changed += [{**rest, cell: (other, shape)} for other in COLOURS if other != colour]
        changed += [{**rest, cell: (colour, other)} for other in SHAPES if other != shape]
        changed += [{**rest, place: (colour, shape)} for place in empty]
        effects[cell] = [plain_answer(scene, sample.target, sample.constraints) != sample.answer for scene in changed]
    return effects


def check(bucket: str, samples: int = 20) -> None:
    """The baseline, told nothing but our objects and our questions, makes of them what ours made."""
    for sample in generate(bucket, samples):
        text, stated = str(sample.text), str(sample.answer)
        objects: dict[Cell, Kind] = {}
        for item in sample.scene.objects:
            colour, shape = item.label.split(" ")
            objects[item.column, item.row] = (colour, shape)
        noun = f"({'|'.join(COLOURS)}) ({'|'.join(SHAPES)})"
        [target] = re.findall(f"^How many {noun}s ", text)
        constraints = [(r, (c, s)) for r, c, s in re.findall(f"({'|'.join(RELATIONS)}) {noun}", text)]
        answer = plain_answer(objects, target, constraints)
        image = draw_scene(objects)
        masks = plain_masks(plain_roles(objects, target, constraints))
        plain = Plain(image, text, int(stated), masks, objects, target, constraints)
        same = {
            "pixels": np.array_equal(image, sample.image),
            "answers": str(answer) == stated,
            "masks": all(np.array_equal(mask, sample.mask(role)) for role, mask in masks.items()),
            "certificates": plain_certificate(plain) == our_certificate(sample, objects),
        }
        for what, equal in same.items():
            if not equal:
                raise SystemExit(f"the {what} of {sample.id} differ")


def plain_roles(objects: dict[Cell, Kind], target: Kind, constraints: list[tuple[str, Kind]]) -> dict[str, set[Cell]]:
    """What every object is to the question."""
    anchors = {cell: relation for relation, kind in constraints for cell, it in objects.items() if it == kind}
    like = {cell for cell, kind in objects.items() if kind == target}
    counted = {cell for cell in like if all(satisfies(cell, anchor, r) for anchor, r in anchors.items())}
    distractors = set(objects) - like - set(anchors)
    return {"target": counted, "anchor": set(anchors), "adversarial": like - counted, "distractor": distractors}


def our_certificate(sample: GridSample, objects: dict[Cell, Kind]) -> dict[Cell, list[bool]]:
    """In the order of `plain_certificate`."""
    empty = [y * SIZE + x for x in range(SIZE) for y in range(SIZE) if (x, y) not in objects]
    effects = {}
    for (x, y), (colour, shape) in objects.items():
        effect = sample.certificate.effect(y * SIZE + x)
        recoloured = [other in effect.recolour for other in COLOURS if other != colour]
        reshaped = [other in effect.reshape for other in SHAPES if other != shape]
        effects[x, y] = [effect.removal, *recoloured, *reshaped, *(cell in effect.move for cell in empty)]
    return effects


def baseline_cost(depth: int, density: float, samples: int, certify: bool, seed: int) -> float:
    """CPU seconds of a sample."""
    rng = random.Random(seed)
    begin = time.process_time()
    for _ in range(samples):
        sample = plain_sample(depth, density, rng)
        if certify:
            plain_certificate(sample)
    return (time.process_time() - begin) / samples


def our_cost(bucket: str, samples: int) -> float:
    begin = time.process_time()
    done = 0
    while done < samples:
        for sample in generate(bucket, 256, start=done):
            made = (sample.text, sample.image, sample.certificate)
            assert len(made) == 3
            for role in ("target", "anchor", "adversarial", "distractor"):
                sample.mask(role)
            done += 1
    return (time.process_time() - begin) / done


def main() -> None:
    parser = argparse.ArgumentParser(description="grid samples per second on one core")
    parser.add_argument("--samples", type=int, default=size(400, 16))
    arguments = parser.parse_args()
    print("rendered 384-px samples per second; ratio = ours / baseline (ours always with certificate)")
    print(f"{'bucket':14}{'ours':>8}{'plain, with certificate':>26}{'ratio':>8}{'plain, without':>18}{'ratio':>8}")
    for depth, density in ((1, 0.3), (2, 0.3), (3, 0.3), (1, 0.7), (2, 0.7), (3, 0.7)):
        bucket = f"D{depth}_M_F0_d{density}"
        check(bucket)
        generate(bucket, 256)  # glyphs and tables are made once per process
        ours, plain, proved = [], [], []
        for turn in range(size(3, 1)):
            ours.append(our_cost(bucket, max(arguments.samples, 256) * 2))
            plain.append(baseline_cost(depth, density, arguments.samples // 2, False, turn))
            proved.append(baseline_cost(depth, density, max(arguments.samples // 20, 5), True, turn))
        rate, proves, makes = (1 / statistics.median(costs) for costs in (ours, proved, plain))
        print(f"{bucket:14}{rate:8.0f}{proves:26.0f}{rate / proves:8.1f}{makes:18.0f}{rate / makes:8.1f}")
        compared(
            f"certified samples, {bucket}",
            "plain PIL with certificate",
            ours,
            proved,
            "same pixels, answers, masks, certificates",
        )
        compared(
            f"certified samples, {bucket}", "plain PIL without certificate", ours, plain, "same pixels, answers, masks"
        )


if __name__ == "__main__":
    main()
