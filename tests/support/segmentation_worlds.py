"""Tiny datasets in the true file formats, written to a temporary folder."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image
from scipy.io import savemat

H, W = 6, 8


def ids(*values: int) -> np.ndarray[Any, Any]:
    """(6, 8) class numbers: columns split evenly between the values."""
    return np.repeat(np.array(values), W // len(values))[None].repeat(H, 0)


def picture(path: Path, mode: str = "RGB") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.arange(H * W * 3, dtype=np.uint8).reshape(H, W, 3)
    Image.fromarray(pixels).convert(mode).save(path)


def indexed(path: Path, numbers: np.ndarray[Any, Any], mode: str = "P") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if mode == "I;16":
        Image.fromarray(numbers.astype(np.uint16)).save(path)
        return
    image = Image.fromarray(numbers.astype(np.uint8))
    if mode == "P":
        image.putpalette([value for k in range(256) for value in (k, 255 - k, 7)])
    image.save(path)


def voc(root: Path) -> Path:
    for name, numbers in (("a", ids(0, 15, 255, 8)), ("b", ids(0, 0, 20, 20))):
        picture(root / "JPEGImages" / f"{name}.jpg")
        indexed(root / "SegmentationClass" / f"{name}.png", numbers)
    listed = root / "ImageSets" / "Segmentation" / "val.txt"
    listed.parent.mkdir(parents=True)
    listed.write_text("b\na\n")
    return root


def ade(root: Path) -> Path:
    picture(root / "images" / "validation" / "ADE_val_1.jpg")
    indexed(root / "annotations" / "validation" / "ADE_val_1.png", ids(0, 1, 150, 1), "L")
    (root / "objectInfo150.txt").write_text("Idx\tRatio\tName\n1\t0.2\twall\n150\t0.1\tflag, banner\n")
    return root


def ade_full(root: Path) -> Path:
    place = root / "images" / "ADE" / "training" / "urban"
    picture(place / "ADE_train_1.jpg")
    numbers = ids(0, 401, 2978, 401)
    colours = np.stack([numbers // 256 * 10, numbers % 256, np.ones_like(numbers)], -1).astype(np.uint8)
    Image.fromarray(colours).save(place / "ADE_train_1_seg.png")
    objects = [
        {"name": "building, edifice", "name_ndx": 401, "parts": {"part_level": 0}},
        {"name": "tree", "name_ndx": 2978, "parts": {"part_level": 0}},
        {"name": "window", "name_ndx": 77, "parts": {"part_level": 1}},
    ]
    (place / "ADE_train_1.json").write_text(json.dumps({"annotation": {"object": objects}}))
    return root


def coco_stuff(root: Path) -> Path:
    picture(root / "images" / "COCO_1.jpg")
    (root / "annotations").mkdir(parents=True)
    savemat(root / "annotations" / "COCO_1.mat", {"S": ids(0, 1, 92, 182).astype(np.uint8), "names": np.zeros(3)})
    (root / "cocostuff-labels.txt").write_text("0: unlabeled\n1: person\n92: banner\n182: wood\n")
    (root / "imageLists").mkdir()
    (root / "imageLists" / "test.txt").write_text("COCO_1\n")
    return root


def coco(root: Path) -> Path:
    """One polygon, one plain run-length crowd and one compressed run-length mask, of two classes."""
    from pycocotools import mask

    picture(root / "val2017" / "000000000007.jpg")
    picture(root / "val2017" / "000000000009.jpg")
    right = np.zeros((H, W), dtype=np.uint8)
    right[:, 6:] = 1
    packed = mask.encode(np.asfortranarray(right))
    data = {
        "images": [
            {"id": 7, "file_name": "000000000007.jpg", "height": H, "width": W},
            {"id": 9, "file_name": "000000000009.jpg", "height": H, "width": W},
        ],
        "categories": [{"id": 17, "name": "cat"}, {"id": 90, "name": "toothbrush"}],
        "annotations": [
            {"id": 1, "image_id": 7, "category_id": 17, "iscrowd": 0, "segmentation": [[0, 0, 2, 0, 2, 6, 0, 6]]},
            {"id": 2, "image_id": 7, "category_id": 17, "iscrowd": 1,
             "segmentation": {"size": [H, W], "counts": [2 * H, H, 5 * H]}},
            {"id": 3, "image_id": 7, "category_id": 90, "iscrowd": 0,
             "segmentation": {"size": [H, W], "counts": packed["counts"].decode()}},
        ],
    }  # fmt: skip
    (root / "annotations").mkdir(parents=True)
    (root / "annotations" / "instances_val2017.json").write_text(json.dumps(data))
    return root


def imagenet_s(root: Path, wnid: str = "n01440764") -> Path:
    """Class 1 (tench), other (0), ignored (1000), and class 919."""
    picture(root / "validation" / wnid / "ILSVRC2012_val_1.JPEG")
    numbers = ids(0, 1, 1000, 919)
    colours = np.stack([numbers % 256, numbers // 256, np.zeros_like(numbers)], -1).astype(np.uint8)
    place = root / "validation-segmentation" / wnid
    place.mkdir(parents=True)
    Image.fromarray(colours).save(place / "ILSVRC2012_val_1.png")
    return root


def folder(root: Path, mode: str = "L", numbers: np.ndarray[Any, Any] | None = None) -> Path:
    picture(root / "images" / "one.png", "L")
    indexed(root / "masks" / "one.png", ids(0, 3, 255, 2) if numbers is None else numbers, mode)
    (root / "labels.txt").write_text("2: cat\n3: dog\n300: sky\n")
    return root


def parquet(path: Path, n: int = 5) -> Path:
    def png(pixels: np.ndarray[Any, Any]) -> bytes:
        buffer = io.BytesIO()
        Image.fromarray(pixels).save(buffer, "PNG")
        return buffer.getvalue()

    image = np.zeros((H, W, 3), dtype=np.uint8)
    rows = [
        {"image": {"bytes": png(image + k), "path": None}, "mask": {"bytes": png(ids(0, 1, 1, 255).astype(np.uint8)),
         "path": None}} for k in range(n)
    ]  # fmt: skip
    features = {"image": {"_type": "Image"}, "mask": {"_type": "Image", "names": ["background", "cat"]}}
    table = pa.Table.from_pylist(rows)
    about = {b"huggingface": json.dumps({"info": {"features": features}}).encode()}
    table = table.replace_schema_metadata(about)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".arrow":  # as `Dataset.save_to_disk` writes it
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
            stream.write_table(table, max_chunksize=2)
    else:
        pq.write_table(table, path, row_group_size=2)
    return path
