"""Protocol `semantic`: how much of the explanation lies on things that have nothing to do with the label?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from karat.protocols.semantic.protocol import Semantic
from karat.protocols.semantic.sweep import SemanticSweep

if TYPE_CHECKING:
    from karat.kernel.roles import Dataset
    from karat.results.run import Run

__all__ = ["Semantic", "SemanticSweep", "export", "gallery"]


def export(run: Run, folder: str | Path, kind: str = "parquet") -> list[Path]:
    """Predictions, images and classes of a run as tables, .parquet or .csv. See `analysis`."""
    from karat.protocols.semantic.analysis import export as write

    return write(run, folder, kind)


def gallery(run: Run, dataset: Dataset, out: str | Path, *, explainer: str, model: str, columns: int = 5) -> Path:
    """Examples of every kind of right and wrong reason as one PNG. See `pictures`."""
    from karat.protocols.semantic.pictures import gallery as draw

    return draw(run, dataset, out, explainer=explainer, model=model, columns=columns)
