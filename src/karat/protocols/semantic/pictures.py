"""Pictures of a run: image, map and mask side by side, for every kind of right and wrong reason."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from karat.datasets.segmentation.scene import CLASS
from karat.kernel.errors import BadInput
from karat.kernel.registry import label
from karat.kernel.typing import Image, Map, Mask
from karat.protocols.semantic.analysis import kinds, predictions
from karat.protocols.semantic.overlay import stretch

if TYPE_CHECKING:
    from karat.kernel.roles import Dataset
    from karat.kernel.sample import Sample
    from karat.results.run import Run

_SIDE, _GAP, _TEXT = 160, 6, 30
_AT_ONCE = 64


def gallery(run: Run, dataset: Dataset, out: str | Path, *, explainer: str, model: str, columns: int = 5) -> Path:
    """A PNG with a row for every kind of prediction that occurs (correct or not, confident or not, spurious or not),
    the most extreme examples first: the image with its map in red and the outline of its classes in white."""
    from PIL import Image as Pillow
    from PIL import ImageDraw, ImageFont

    table = predictions(run)
    here = (table["model"] == model) & (table["explainer"] == explainer) & (table["dataset"] == label(dataset))
    table = table[here].dropna(subset=["sss", "correct", "own_confidence"])
    if table.empty:
        raise BadInput(f"{run.path} has no scored rows of {model} with {explainer} on {label(dataset)}.")
    maps = _maps(run, (model, explainer, label(dataset)))
    known = table[table["sample"].isin(maps)]
    rows_of_kinds = [(", ".join(kind), rows.head(columns)) for kind, rows in kinds(known) if len(rows)]
    if not rows_of_kinds:
        raise BadInput(f"{run.path} kept no maps of {model} with {explainer}: run with keep_maps: true.")
    samples = _samples(dataset, {name for _, rows in rows_of_kinds for name in rows["sample"]})
    height = len(rows_of_kinds) * (_SIDE + 2 * _TEXT)
    sheet = Pillow.new("RGB", (columns * (_SIDE + _GAP) + _GAP, height), "white")
    draw, large, small = ImageDraw.Draw(sheet), ImageFont.load_default(15), ImageFont.load_default(11)
    for r, (title, chosen) in enumerate(rows_of_kinds):
        top = r * (_SIDE + 2 * _TEXT)
        draw.text((_GAP, top + 8), title, fill="black", font=large)
        for c, row in enumerate(chosen.to_dict("records")):
            left = _GAP + c * (_SIDE + _GAP)
            tile = Pillow.fromarray(_drawn(samples[row["sample"]], maps[row["sample"]])).resize((_SIDE, _SIDE))
            sheet.paste(tile, (left, top + _TEXT))
            answer = f"{_short(row['own'] or row['label'])} {row['own_confidence']:.2f}"
            under = (left, top + _TEXT + _SIDE + 2)
            draw.text(under, f"{answer}\nSSS {row['sss']:.2f}", fill="black", spacing=2, font=small)
    sheet.save(out)
    return Path(out)


def _short(name: str) -> str:
    return name if len(name) <= 20 else f"{name[:19]}…"


def _samples(dataset: Dataset, wanted: set[str]) -> dict[str, Sample]:
    """Those of a dataset by their ids, a few read at a time."""
    samples: dict[str, Sample] = {}
    for start in range(0, len(dataset), _AT_ONCE):
        loaded = dataset.load(start, min(start + _AT_ONCE, len(dataset)))
        samples |= {sample.id: sample for sample in loaded if sample.id in wanted}
        if len(samples) == len(wanted):
            break
    return samples


def _maps(run: Run, wanted: tuple[str, str, str]) -> dict[str, Map]:
    maps: dict[str, Map] = {}
    for shard in run.shards():
        kept = shard.maps()
        for cell in shard.cells:
            _, model, explainer, dataset, *_ = cell["place"]
            if (model, explainer, dataset) == wanted:
                for position, parts in kept.get(cell["id"], {}).items():
                    if "visual" in parts:
                        maps[shard.samples[position]] = np.asarray(parts["visual"], dtype=np.float32)
    return maps


def _drawn(sample: Sample, map_: Map) -> Image:
    heat = np.clip(stretch(map_, *sample.size), 0, None)
    heat = heat / max(float(heat.max()), 1e-9)
    image = sample.image.astype(np.float32)
    red = np.array([255.0, 30.0, 0.0], dtype=np.float32)
    image = image + (0.75 * heat[..., None]) * (red - image)
    thick = max(1, min(sample.size) // 150)
    image[_outline(sample.mask(CLASS), thick)] = 255.0
    return image.astype(np.uint8)


def _outline(mask: Mask, thick: int) -> Mask:
    from scipy.ndimage import binary_dilation, binary_erosion

    return np.asarray(binary_dilation(mask, iterations=thick) & ~binary_erosion(mask, iterations=thick))
