"""Pictures of a run: image, map and mask side by side, for every kind of right and wrong reason."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from karat.datasets.segmentation.scene import CLASS
from karat.drawing import Canvas, overlay
from karat.kernel.errors import BadInput
from karat.kernel.registry import label
from karat.kernel.typing import Image, Map, Mask
from karat.protocols.semantic.analysis import predictions
from karat.protocols.semantic.overlay import stretch
from karat.protocols.semantic.reasons import kinds

if TYPE_CHECKING:
    from karat.kernel.roles import Dataset
    from karat.kernel.sample import Sample
    from karat.results.run import Run

_SIDE, _GAP, _TEXT = 160, 6, 30
_AT_ONCE = 64


def gallery(run: Run, dataset: Dataset, out: str | Path, *, explainer: str, model: str, columns: int = 5) -> Path:
    """A PNG with a row for every kind of prediction that occurs (correct or not, confident or not, spurious or not),
    the most extreme examples first: the image with its map and the outline of its classes in white."""
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
    sheet = Canvas(columns * (_SIDE + _GAP) + _GAP, height)
    for r, (title, chosen) in enumerate(rows_of_kinds):
        top = r * (_SIDE + 2 * _TEXT)
        sheet.text((_GAP, top + 21), title, size=14, bold=True)
        for c, row in enumerate(chosen.to_dict("records")):
            left = _GAP + c * (_SIDE + _GAP)
            sheet.picture((left, top + _TEXT), (_SIDE, _SIDE), _drawn(samples[row["sample"]], maps[row["sample"]]))
            answer = f"{_short(row['own'] or row['label'])} {row['own_confidence']:.2f}"
            for line, text in enumerate((answer, f"SSS {row['sss']:.2f}")):
                sheet.text((left, top + _TEXT + _SIDE + 12 + 13 * line), text, size=10.5)
    Path(out).write_bytes(sheet.png(1))
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
    image = overlay(sample.image, np.clip(stretch(map_, *sample.size), 0, None)).copy()
    thick = max(1, min(sample.size) // 150)
    image[_outline(sample.mask(CLASS), thick)] = 255
    return image


def _outline(mask: Mask, thick: int) -> Mask:
    from scipy.ndimage import binary_dilation, binary_erosion

    return np.asarray(binary_dilation(mask, iterations=thick) & ~binary_erosion(mask, iterations=thick))
