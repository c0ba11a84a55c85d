"""Dataset `mmstar`: 1,500 questions with four choices that cannot be answered without their image."""

from __future__ import annotations

import base64
import binascii
import csv
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from karat.datasets.arrays import file_hash
from karat.datasets.vqa.files import Directive, ParquetRows, locate, picture, put
from karat.kernel.card import Card
from karat.kernel.errors import BadInput
from karat.kernel.identity import digest
from karat.kernel.sample import Sample

_COLUMNS = ("index", "question", "image", "answer", "category", "l2_category")
_CHOICES = ("A", "B", "C", "D")


@dataclass(frozen=True)
class MMStar:
    """`source` is the hub id, a folder with `mmstar.parquet` or `MMStar.tsv`, or one of these files.

    In the Parquet file the choices are part of the question; in the TSV they may stand in columns A to D, and are then
    put below it in the same form. `directive` is that of fsyn2026 A.1.
    """

    source: str = "Lin-Chen/MMStar"
    categories: tuple[str, ...] = ()
    directive: Directive = "letter"
    hub_revision: str | None = None
    card: ClassVar[Card] = Card(
        "mmstar", "questions with four choices that cannot be answered without their image", "dataset",
        citation="Chen et al. 2024, Are we on the right way for evaluating large vision-language models?",
    )  # fmt: skip

    @property
    def label(self) -> str:
        chosen = f".{'+'.join(self.categories)}" if self.categories else ""
        return f"mmstar{chosen}"  # the same questions whatever the directive: models that need another one share them

    @cached_property
    def _files(self) -> list[Path]:
        return locate(self.source, ("mmstar.parquet", "*.parquet", "MMStar.tsv", "*.tsv"), self.hub_revision)

    @cached_property
    def _rows(self) -> ParquetRows | _TableRows:
        if self._files[0].suffix.lower() == ".tsv":
            return _TableRows(self._files[0])
        return ParquetRows(self._files, _COLUMNS)

    @cached_property
    def _positions(self) -> list[int]:
        if not self.categories:
            return list(range(len(self._rows)))
        known = self._rows.column("category")
        if unknown := set(self.categories) - set(known):
            raise BadInput(f"mmstar: no category {sorted(unknown)[0]!r}; there are {', '.join(sorted(set(known)))}.")
        return [i for i, category in enumerate(known) if category in self.categories]

    @cached_property
    def revision(self) -> str:
        return digest([self.card.version, *map(file_hash, self._files)])

    def __len__(self) -> int:
        return len(self._positions)

    def load(self, start: int, stop: int) -> list[Sample]:
        return [self._sample(self._rows.row(i)) for i in self._positions[start:stop]]

    def _sample(self, row: dict[str, Any]) -> Sample:
        what = f"mmstar question {row['index']}"
        right = str(row["answer"]).strip().strip("()")
        if right not in _CHOICES:
            raise BadInput(f"{what}: the answer {row['answer']!r} is none of A, B, C, D.")
        text, phrases = put(_with_choices(row), self.directive)
        return Sample(
            id=f"{int(row['index']):04d}",
            image=picture(_bytes(row["image"], what), what),
            text=text,
            answer=right,
            phrases=phrases,
            meta={"category": row["category"], "l2_category": row["l2_category"]},
            choices=_CHOICES,
        )


def _with_choices(row: dict[str, Any]) -> str:
    question = str(row["question"]).strip()
    listed = [f"{letter}: {row[letter]}" for letter in _CHOICES if row.get(letter)]
    if not listed or re.search(r"Options:\s*A", question):
        return question
    return f"{question}\nOptions: {', '.join(listed)}"


def _bytes(image: Any, what: str) -> bytes:
    """Bytes as they are, bytes inside a record, or base64 text."""
    if isinstance(image, dict):
        image = image.get("bytes")
    if isinstance(image, str):
        try:
            return base64.b64decode(image, validate=True)
        except binascii.Error as error:
            raise BadInput(f"{what}: its image is not base64: {error}.") from None
    if not isinstance(image, bytes):
        raise BadInput(f"{what}: expected the image as bytes; got {type(image).__name__}.")
    return image


class _TableRows:
    """Rows of a TSV with base64 images: 60 MB as published, so read whole."""

    def __init__(self, path: Path) -> None:
        csv.field_size_limit(2**27)
        try:
            with path.open(encoding="utf-8", newline="") as file:
                self.rows: list[dict[str, Any]] = list(csv.DictReader(file, delimiter="\t"))
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise BadInput(f"{path} is not a tab-separated table: {error}.") from None
        have = list(self.rows[0]) if self.rows else []
        if lacking := [name for name in _COLUMNS if name not in have]:
            raise BadInput(f"{path} has no column {lacking[0]!r}; it has {', '.join(have)}. Is it MMStar?")

    def __len__(self) -> int:
        return len(self.rows)

    def row(self, position: int) -> dict[str, Any]:
        return self.rows[position]

    def column(self, name: str) -> list[Any]:
        return [row[name] for row in self.rows]
