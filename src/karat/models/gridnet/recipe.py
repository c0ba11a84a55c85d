"""`GridNet`: how to get a trained twin. Importing this loads no torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from annotated_types import Ge

from karat.kernel.card import Card
from karat.kernel.typing import Scalar
from karat.models.weights import file_revision, find_twin

if TYPE_CHECKING:
    from karat.models.gridnet.model import GridNetModel

MECHANISMS = {"pure": "reasons", "spur": "matches_words"}


@dataclass(frozen=True)
class GridNet:
    """The MDETR-style twin. `weights` names another safetensors file made by `karat train gridnet`; `seed` tells twins
    of one recipe apart (0 ships).

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
    seed: Annotated[int, Ge(0)] = field(default=0, metadata={"identity": False})  # which weights: their hash counts

    @property
    def label(self) -> str:
        more = ", ".join([f"seed {self.seed}"] * (self.seed > 0) + [self.weights or ""] * (self.weights is not None))
        return f"gridnet.{self.variant} ({more})" if more else f"gridnet.{self.variant}"

    @property
    def facts(self) -> dict[str, Scalar]:
        broken = ", ".join(sorted(self.broken_states())) or None
        return {
            "family": "gridnet",
            "variant": self.variant,
            "weights": self.weights,
            "seed": self.seed,
            "breaks_in": broken,
        }

    @property
    def capabilities(self) -> frozenset[str]:
        return frozenset({"scores", "gradients", "attention", "activations", "boxes", "text", "mechanism"})

    @property
    def mechanism(self) -> str:
        return MECHANISMS[self.variant]

    @property
    def path(self) -> Path:
        if self.weights is not None:
            return Path(self.weights)
        return find_twin("gridnet", self.variant, self.seed, ".safetensors")

    def broken_states(self) -> dict[str, str]:
        """Absent states in which these weights no longer answer as they do, with the reason."""
        from karat.models.weights.absence import broken_states

        return broken_states(self.label, self.revision)

    @property
    def revision(self) -> str:
        return file_revision(self.path)

    def load(self) -> GridNetModel:
        from karat.models.gridnet.files import load_network
        from karat.models.gridnet.model import GridNetModel

        return GridNetModel(self.label, self.mechanism, self.capabilities, load_network(self.path))
