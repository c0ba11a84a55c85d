"""`GridNet`: how to get a trained twin. Importing this loads no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from karat.kernel.card import Card
from karat.models.twin_recipe import TwinRecipe, twin_card

if TYPE_CHECKING:
    from karat.models.gridnet.model import GridNetModel


@dataclass(frozen=True)
class GridNet(TwinRecipe):
    """The MDETR-style twin. `weights` names another safetensors file made by `karat train gridnet`; `seed` tells twins
    of one recipe apart (0 ships).

    >>> GridNet("spur").label
    'gridnet.spur'
    """

    ending: ClassVar[str] = ".safetensors"
    card: ClassVar[Card] = twin_card(
        "gridnet",
        "trained twins gridnet.pure, .spur: convolutions, text encoder, joint transformer, object queries, QA heads",
        departures="an answer token in the joint encoder instead of QA queries; cells are supervised by role too",
        extra="vision",
    )

    @property
    def capabilities(self) -> frozenset[str]:
        return frozenset({"scores", "gradients", "attention", "activations", "boxes", "text", "mechanism"})

    def load(self) -> GridNetModel:
        from karat.models.gridnet.files import load_network
        from karat.models.gridnet.model import GridNetModel

        return GridNetModel(self.label, self.mechanism, self.capabilities, load_network(self.path))
