"""From the pets with artefacts to a folder that Karat reads: masks of class numbers, a label file, both sets of images.

    python prepare.py PETS_ARTIFACT data/pets

PETS_ARTIFACT holds original/, with_artifact/, trimaps/ (1 pet, 2 background, 3 border) and index.csv.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np
from PIL import Image

from karat.datasets.segmentation.imagenet import by_wnid

source, out = (Path(arg) for arg in sys.argv[1:3])
(out / "masks").mkdir(parents=True, exist_ok=True)
rows = list(csv.DictReader((source / "index.csv").open()))
breeds = sorted({row["wnid"] for row in rows})
for row in rows:
    trimap = np.asarray(Image.open(source / "trimaps" / f"{row['name']}.png"))
    mask = np.select([trimap == 1, trimap == 3], [breeds.index(row["wnid"]) + 1, 255], 0).astype(np.uint8)
    Image.fromarray(mask).save(out / "masks" / f"{row['name']}.png")
    for kind in ("original", "with_artifact"):
        (out / kind).mkdir(exist_ok=True)
        image = source / kind / f"{row['name']}.jpg"
        (out / kind / image.name).write_bytes(image.read_bytes())
names = [f"{number}: {by_wnid()[wnid]}" for number, wnid in enumerate(breeds, start=1)]
(out / "labels.txt").write_text("\n".join(names) + "\n")
