"""`GridNet`: how to get a trained twin. Importing this loads no torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from karat.kernel.card import Card
from karat.kernel.typing import Scalar
from karat.models.weights import file_revision, shipped

if TYPE_CHECKING:
    from karat.models.gridnet.model import GridNetModel

MECHANISMS = {"pure": "reasons", "spur": "matches_words"}


@dataclass(frozen=True)
class GridNet:
    """The MDETR-style twin. `weights` names another safetensors file made by `karat train gridnet`.

    >>> GridNet("spur").label
    'gridnet.spur'
    """

    card: ClassVar[Card] = Card(
        name="gridnet",
        summary="trained twin: convolutions, text encoder, joint transformer, object queries with boxes, QA heads",
        kind="model",
        citation="gridvqax2026",
        departures="an answer token in the joint encoder instead of QA queries; cells are supervised by role too",
        extra="vision",
    )

    variant: Literal["pure", "spur"] = "pure"
    weights: str | None = None

    @property
    def label(self) -> str:
        return f"gridnet.{self.variant}" if self.weights is None else f"gridnet.{self.variant} ({self.weights})"

    @property
    def facts(self) -> dict[str, Scalar]:
        return {"family": "gridnet", "variant": self.variant, "weights": self.weights}

    @property
    def capabilities(self) -> frozenset[str]:
        return frozenset({"scores", "gradients", "attention", "activations", "boxes", "text", "mechanism"})

    @property
    def mechanism(self) -> str:
        return MECHANISMS[self.variant]

    @property
    def path(self) -> Path:
        return shipped(f"gridnet.{self.variant}.safetensors") if self.weights is None else Path(self.weights)

    @property
    def revision(self) -> str:
        return file_revision(self.path)

    def load(self) -> GridNetModel:
        from karat.models.gridnet.files import load_network
        from karat.models.gridnet.model import GridNetModel

        return GridNetModel(self.label, self.mechanism, self.capabilities, load_network(self.path))
