"""`Cell`: (protocol, model, explainer, dataset shard), the unit of identity and resume; `Job`: cells run together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from karat.kernel.identity import digest

# Raised when the engine itself computes rows differently, so that old rows are not taken for new ones.
CELL_VERSION = 2


@dataclass(frozen=True)
class Cell:
    """`fields` is everything that decides the rows; `id` is its digest, so equal ids mean equal rows."""

    protocol: str
    model: str
    explainer: str
    dataset: str
    start: int
    stop: int
    fields: Mapping[str, Any]

    @cached_property
    def id(self) -> str:
        return digest(self.fields)

    @property
    def place(self) -> tuple[str, str, str, str, int, int]:
        """Where it stands in the grid, whatever its parameters: what `karat why` compares."""
        return self.protocol, self.model, self.explainer, self.dataset, self.start, self.stop

    @property
    def title(self) -> str:
        return f"{self.protocol} · {self.model} · {self.explainer} · {self.dataset}[{self.start}:{self.stop}]"


@dataclass(frozen=True)
class Job:
    """One model on one shard over its missing cells: explainers share traces and answered coalitions."""

    model: int  # positions in the resolved spec
    dataset: int
    start: int
    stop: int
    explainers: tuple[int, ...]
    cells: tuple[Cell, ...]  # one per explainer, same order
