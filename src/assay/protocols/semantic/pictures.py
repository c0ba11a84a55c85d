"""Pictures of a run: image, map and mask side by side, for every kind of right and wrong reason."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from assay.datasets.segmentation.scene import CLASS
from assay.kernel.errors import BadInput
from assay.kernel.registry import label
from assay.kernel.typing import Image, Map, Mask
from assay.protocols.semantic.levels import predictions
from assay.protocols.semantic.overlay import stretch
from assay.protocols.semantic.reasons import kinds

if TYPE_CHECKING:
    from assay.kernel.roles import Dataset
    from assay.kernel.sample import Sample
    from assay.results.run import Run

_SIDE, _GAP, _TEXT = 160, 6, 30


def gallery(run: Run, dataset: Dataset, out: str | Path, *, explainer: str, model: str, columns: int = 5) -> Path:
    """A PNG with a row for every kind of prediction that occurs (correct or not, confident or not, spurious or not),
    the most extreme examples first: the image with its map in red and the outline of its classes in white."""
    from PIL import Image as Pillow
    from PIL import ImageDraw

    table = predictions(run)
    here = (table["model"] == model) & (table["explainer"] == explainer) & (table["dataset"] == label(dataset))
    table = table[here].dropna(subset=["sss", "correct"])
    if table.empty:
        raise BadInput(f"{run.path} has no scored rows of {model} with {explainer} on {label(dataset)}.")
    samples = {sample.id: sample for sample in dataset.load(0, len(dataset))}
    maps = _maps(run, (model, explainer, label(dataset)))
    known = table[table["sample"].isin(samples) & table["sample"].isin(maps)]
    shown = [(", ".join(kind), rows.head(columns)) for kind, rows in kinds(known) if len(rows)]
    height = len(shown) * (_SIDE + 2 * _TEXT)
    sheet = Pillow.new("RGB", (columns * (_SIDE + _GAP) + _GAP, height), "white")
    draw = ImageDraw.Draw(sheet)
    for r, (title, chosen) in enumerate(shown):
        top = r * (_SIDE + 2 * _TEXT)
        draw.text((_GAP, top + 10), title, fill="black")
        for c, row in enumerate(chosen.to_dict("records")):
            left = _GAP + c * (_SIDE + _GAP)
            tile = Pillow.fromarray(_drawn(samples[row["sample"]], maps[row["sample"]])).resize((_SIDE, _SIDE))
            sheet.paste(tile, (left, top + _TEXT))
            said = f"{row['own'] or row['label']} {row['own_confidence']:.2f}"[:26]
            draw.text((left, top + _TEXT + _SIDE + 2), f"{said}\nSSS {row['sss']:.2f}", fill="black", spacing=1)
    sheet.save(out)
    return Path(out)


def _maps(run: Run, wanted: tuple[str, str, str]) -> dict[str, Map]:
    found: dict[str, Map] = {}
    for shard in run.shards():
        kept = shard.maps()
        for cell in shard.cells:
            _, model, explainer, dataset, *_ = cell["place"]
            if (model, explainer, dataset) == wanted:
                for position, parts in kept.get(cell["id"], {}).items():
                    if "visual" in parts:
                        found[shard.samples[position]] = np.asarray(parts["visual"], dtype=np.float32)
    return found


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
