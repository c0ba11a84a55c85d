"""`Finding`: what a protocol concludes from a whole run: plain sentences, and the table they rest on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from assay.kernel.typing import Scalar


@dataclass(frozen=True)
class Finding:
    """`sentences` hold up to the table's intervals; numbers in `rows` are not rounded."""

    title: str
    about: str
    sentences: tuple[str, ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[Scalar, ...], ...]

    def plain(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def read(data: Mapping[str, Any]) -> Finding:
        rows = tuple(tuple(row) for row in data["rows"])
        return Finding(data["title"], data["about"], tuple(data["sentences"]), tuple(data["columns"]), rows)
