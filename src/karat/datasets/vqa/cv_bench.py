"""Dataset `cv_bench`: counting, relations, depth and distance in photographs, as questions with choices."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

from karat.datasets.arrays import file_hash
from karat.datasets.vqa.files import Directive, ParquetRows, locate, picture, put
from karat.kernel.answers import LETTERS
from karat.kernel.card import Card
from karat.kernel.errors import BadInput
from karat.kernel.identity import digest
from karat.kernel.sample import Sample

_COLUMNS = ("idx", "type", "task", "image", "question", "choices", "answer", "prompt")
_LETTER = re.compile(r"\(?([A-J])\)?")


@dataclass(frozen=True)
class CVBench:
    """`source` is the hub id, a folder with `test_2d.parquet` and `test_3d.parquet`, or one such file.

    The published `prompt` (question and choices) is what the model is asked, with the `directive` of fsyn2026 A.1.
    """

    source: str = "nyu-visionx/CV-Bench"
    tasks: tuple[Literal["Count", "Relation", "Depth", "Distance"], ...] = ()
    directive: Directive = "letter"
    hub_revision: str | None = None
    card: ClassVar[Card] = Card(
        "cv_bench", "counting, relations, depth and distance in photographs, as questions with choices", "dataset",
        citation="Tong et al. 2024, Cambrian-1: a fully open, vision-centric exploration of multimodal LLMs",
    )  # fmt: skip

    @property
    def label(self) -> str:
        chosen = f".{'+'.join(self.tasks)}" if self.tasks else ""
        return f"cv_bench{chosen}"  # the same questions whatever the directive: models that need another one share them

    @cached_property
    def _rows(self) -> ParquetRows:
        names = ("test_[23]d.parquet", "test.parquet", "test-*.parquet", "*.parquet")
        return ParquetRows(locate(self.source, names, self.hub_revision), _COLUMNS)

    @cached_property
    def _positions(self) -> list[int]:
        if not self.tasks:
            return list(range(len(self._rows)))
        return [i for i, task in enumerate(self._rows.column("task")) if task in self.tasks]

    @cached_property
    def revision(self) -> str:
        paths = dict.fromkeys(path for path, _, _ in self._rows.groups)
        return digest([self.card.version, *map(file_hash, paths)])

    def __len__(self) -> int:
        return len(self._positions)

    def load(self, start: int, stop: int) -> list[Sample]:
        return [self._sample(self._rows.row(i)) for i in self._positions[start:stop]]

    def _sample(self, row: dict[str, Any]) -> Sample:
        what = f"cv_bench {row['type']} question {row['idx']}"
        letters = tuple(LETTERS[: len(row["choices"])])
        right = _LETTER.fullmatch(str(row["answer"]).strip())
        if right is None or right.group(1) not in letters:
            raise BadInput(f"{what}: the answer {row['answer']!r} is none of its {len(letters)} choices.")
        text, phrases = put(str(row["prompt"]), self.directive)
        return Sample(
            id=f"{row['type']}-{int(row['idx']):05d}",
            image=picture(row["image"]["bytes"], what),
            text=text,
            answer=right.group(1),
            phrases=phrases,
            meta={"type": row["type"], "task": row["task"], "choices": len(letters)},
            choices=letters,
        )
