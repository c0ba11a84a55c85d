"""Dataset `repope`: is there such an object in the photograph? POPE's questions with corrected labels."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

from karat.datasets.arrays import file_hash
from karat.datasets.safe_read import within
from karat.datasets.vqa.files import ParquetRows, locate, picture
from karat.kernel.card import Card
from karat.kernel.errors import BadInput
from karat.kernel.identity import digest
from karat.kernel.sample import Region, Sample
from karat.kernel.typing import Box, Image

Split = Literal["random", "popular", "adversarial"]
_FIELDS = ("question_id", "image", "text", "label")


@dataclass(frozen=True)
class RePOPE:
    """`source` holds `coco_repope_<split>.json` (one JSON object a line: question_id, image, text, label), `images` the
    folder of COCO val2014 pictures. A hub id of a dataset in POPE's Parquet form works too and brings its own images.

    Splits repeat questions (of 8,185 rows 4,779 are distinct): a question about a photograph is one sample, which says
    in `meta` in which splits and how often it stands, and which `photo` it is about. Questions about one photograph are
    neighbours.

    `boxes` is a COCO instances file; with it, objects that are there become regions of role "target", the oracle of
    fsyn2026 Fig. 1, scaled where a photograph has another size than the file says. `missing` says what becomes of
    questions whose picture is not in the folder. `version` "pope" reads the labels before their correction.
    """

    source: str
    images: str = ""
    splits: tuple[Split, ...] = ("random", "popular", "adversarial")
    version: Literal["repope", "pope"] = "repope"
    boxes: str = ""
    missing: Literal["error", "skip"] = "error"
    hub_revision: str | None = None
    card: ClassVar[Card] = Card(
        "repope", "is there such an object in the photograph? POPE's questions with corrected labels", "dataset",
        version=2,
        citation="Neuhaus and Hein 2025, RePOPE: impact of annotation errors on the POPE benchmark",
    )  # fmt: skip

    @property
    def label(self) -> str:
        return self.version if len(self.splits) == 3 else f"{self.version}.{'+'.join(self.splits)}"

    @cached_property
    def _files(self) -> tuple[tuple[str, Path], ...]:
        """(split, annotation file); Parquet files hold all splits and stand under the empty name."""
        if not self.splits:
            raise BadInput("repope: `splits` must name at least one of random, popular, adversarial.")
        files: dict[tuple[str, Path], None] = {}
        for split in self.splits:
            for path in locate(self.source, (f"coco_{self.version}_{split}.json", "*.parquet"), self.hub_revision):
                files["" if path.suffix == ".parquet" else split, path] = None
        return tuple(files)

    @cached_property
    def _rows(self) -> list[dict[str, Any]]:
        if self._parquet is not None:
            names = ("question_id", "question", "answer", "category")
            columns = zip(*(self._parquet.column(name) for name in names), strict=True)
            rows = [{**dict(zip(names, values, strict=True)), "position": i} for i, values in enumerate(columns)]
            held = self._parquet.column("image_source") if "image_source" in self._parquet.columns else range(len(rows))
            rows = [
                {**row, "split": row["category"], "text": row["question"], "label": row["answer"], "image": str(source)}
                for row, source in zip(rows, held, strict=True)
            ]
            return _distinct([row for row in rows if row["split"] in self.splits])
        rows = [{**row, "split": split} for split, path in self._files for row in _lines(path)]
        present = [self._picture(row).is_file() for row in rows]
        if self.missing == "error" and not all(present):
            first = self._picture(rows[present.index(False)])
            raise BadInput(
                f"repope: {present.count(False)} of {len(rows)} questions have no picture, the first is {first}. "
                "Give the folder as `images`, or set missing: skip."
            )
        return _distinct([row for row, there in zip(rows, present, strict=True) if there])

    @cached_property
    def _parquet(self) -> ParquetRows | None:
        paths = [path for split, path in self._files if not split]
        return ParquetRows(paths, ("question_id", "question", "answer", "category", "image")) if paths else None

    def _picture(self, row: Mapping[str, Any]) -> Path:
        """Under its own name, or under the name that COCO has used since 2017."""
        path = within(self.images or Path(self.source).parent, row["image"])
        newer = path.with_name(path.name.rpartition("_")[2])
        return newer if not path.is_file() and newer.is_file() else path

    @cached_property
    def _boxes(self) -> dict[str, dict[str, list[_CocoBox]]]:
        """Picture number → object → boxes."""
        if not self.boxes:
            return {}
        try:
            data = json.loads(Path(self.boxes).read_text(encoding="utf-8"))
            names = {category["id"]: category["name"] for category in data["categories"]}
            sizes = {one["id"]: (one["width"], one["height"]) for one in data.get("images", ())}
            boxes: dict[str, dict[str, list[_CocoBox]]] = {}
            for one in data["annotations"]:
                objects = boxes.setdefault(f"{one['image_id']:012d}", {})
                x, y, width, height = map(float, one["bbox"])
                box = _CocoBox(x, y, width, height, sizes.get(one["image_id"]))
                objects.setdefault(names[one["category_id"]], []).append(box)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BadInput(f"boxes: {self.boxes} is not a COCO instances file: {error!r}.") from None
        return boxes

    @cached_property
    def revision(self) -> str:
        files = [*(path for _, path in self._files), *([Path(self.boxes)] if self.boxes else [])]
        return digest([self.card.version, len(self), *map(file_hash, files)])

    def __len__(self) -> int:
        return len(self._rows)

    def load(self, start: int, stop: int) -> list[Sample]:
        return [self._sample(row) for row in self._rows[start:stop]]

    def _sample(self, row: Mapping[str, Any]) -> Sample:
        if self._parquet is not None:
            image = picture(self._parquet.row(row["position"])["image"]["bytes"], f"question {row['question_id']}")
        else:
            image = picture(self._picture(row), f"question {row['question_id']}")
        text, label, name = row["text"], str(row["label"]).strip().lower(), named_object(row["text"])
        boxes = tuple(box.within(image, row) for box in self._boxes.get(row["image"][-16:-4], {}).get(name, ()))
        return Sample(
            id=f"{row['split']}-{int(row['question_id']):04d}",
            image=image,
            text=text,
            answer=label,
            regions=(Region(name, "target", boxes, label=name),) if boxes else (),
            meta={
                "split": "+".join(row["splits"]),
                "repeats": row["repeats"],
                "photo": row["image"],
                "object": name,
                "label": label,
            },
            choices=("yes", "no"),
        )


class _CocoBox(NamedTuple):
    x: float
    y: float
    width: float
    height: float
    image: tuple[int, int] | None  # width, height of the image as the file has it

    def within(self, image: Image, row: Mapping[str, Any]) -> Box:
        """The box in pixels of the image as it is; one that leaves it is refused."""
        height, width = image.shape[:2]
        across, down = (width / self.image[0], height / self.image[1]) if self.image else (1.0, 1.0)
        x, y, w, h = self.x * across, self.y * down, self.width * across, self.height * down
        if x < -1 or y < -1 or x + w > width + 1 or y + h > height + 1:
            raise BadInput(
                f"question {row['question_id']}: a box of {row['image']} reaches ({x + w:.0f}, {y + h:.0f}), the "
                f"picture is {width}×{height}. Was it resized? Its size in the boxes file says by how much."
            )
        return int(x), int(y), round(w), round(h)


def _distinct(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each question about a photograph once, as its first row has it; photographs in the order they come in."""
    merged: dict[tuple[str, str, str], dict[str, Any]] = {}
    photos: dict[str, int] = {}
    for row in rows:
        photos.setdefault(row["image"], len(photos))
        key = row["image"], row["text"], str(row["label"])
        kept = merged.setdefault(key, {**row, "splits": [], "repeats": 0})
        kept["splits"] = list(dict.fromkeys([*kept["splits"], row["split"]]))
        kept["repeats"] += 1
    return sorted(merged.values(), key=lambda row: photos[row["image"]])


def named_object(question: str) -> str:
    """The object that a POPE question asks about.

    >>> named_object("Is there an umbrella in the image?")
    'umbrella'
    """
    middle = question.partition("there ")[2].rpartition(" in the")[0].split(" ", 1)
    return middle[-1] if middle[0] in ("a", "an") else " ".join(middle)


def _lines(path: Path) -> list[dict[str, Any]]:
    rows = []
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot read {path}: {error}.") from None
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            if lacking := [name for name in _FIELDS if name not in row]:
                raise ValueError(f"no {lacking[0]}")
        except (ValueError, TypeError) as error:
            wanted = f"expected one question as JSON ({', '.join(_FIELDS)})"
            raise BadInput(f"{path}, line {number}: {wanted}: {error}.") from None
        rows.append(row)
    return rows
