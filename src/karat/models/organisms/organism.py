"""How to get a model with a planted rule: from a file that `karat train organism` made, or one that ships with Karat.
Importing this loads no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from annotated_types import Ge, Le

from karat.kernel.card import Card
from karat.kernel.errors import BadInput
from karat.kernel.typing import Scalar
from karat.models.organisms.files import Origin, find_shipped, read_origin
from karat.models.organisms.recipe import organism_label
from karat.models.weights import file_revision

if TYPE_CHECKING:
    from karat.models.classifier import Classifier
    from karat.models.vlm_adapter import VLM


@dataclass(frozen=True)
class Organism:
    """`path` is the file. A spec may also name the file itself: `models: [checkpoints/mine/organism.safetensors]`."""

    card: ClassVar[Card] = Card(
        name="organism",
        summary="a model with a planted rule, from a file made by `karat train organism`",
        kind="model",
        extra="vlm",
    )
    path: str = ""

    @cached_property
    def origin(self) -> Origin:
        if not self.path:
            raise BadInput("organism: give `path`, a file made by `karat train organism`.")
        return read_origin(Path(self.path))

    @property
    def facts(self) -> Mapping[str, Scalar]:
        return {"of": self.origin.base, **self.origin.facts}

    @property
    def label(self) -> str:
        origin = self.origin
        return organism_label(Path(origin.base).name, origin.rule, origin.implant, origin.dose, origin.seed)

    @property
    def capabilities(self) -> frozenset[str]:
        """Those of the base, and a mechanism where one rule decides alone."""
        from karat.models.organisms.bases import base_capabilities

        return base_capabilities(self.origin.base) | ({"mechanism"} if self.origin.mechanism else frozenset())

    @property
    def mechanism(self) -> str | None:
        return self.origin.mechanism

    @property
    def revision(self) -> str:
        return file_revision(Path(self.path))

    def load(self) -> VLM | Classifier:
        from karat.models.organisms.bases import load_organism

        return load_organism(Path(self.path), self.label)


@dataclass(frozen=True)
class ShippedOrganism:
    """An organism of one of Karat's own bases, which is the name of the card; `usual` is the implant that labels leave
    out, `offers` what the base can do. `weights` is a file of your own instead of one that ships."""

    card: ClassVar[Card]
    usual: ClassVar[str]
    offers: ClassVar[frozenset[str]]
    variant: str = "content"
    implant: str = "scratch"
    dose: Annotated[float, Ge(0), Le(1)] = 1.0
    seed: Annotated[int, Ge(0)] = 0
    weights: str | None = None

    @property
    def facts(self) -> Mapping[str, Scalar]:
        return {
            "family": self.card.name,
            "variant": self.variant,
            "implant": self.implant,
            "dose": self.dose,
            "seed": self.seed,
        }

    @property
    def label(self) -> str:
        name = organism_label(self.card.name, self.variant, self.implant, self.dose, self.seed, self.usual)
        return name if self.weights is None else f"{name} ({self.weights})"

    @property
    def path(self) -> Path:
        if self.weights is not None:
            return Path(self.weights)
        return find_shipped(self.card.name, self.variant, self.implant, self.dose, self.seed)

    @property
    def capabilities(self) -> frozenset[str]:
        return self.offers | {"mechanism"} if self.mechanism else self.offers

    @property
    def mechanism(self) -> str | None:
        return self.origin.mechanism

    @property
    def origin(self) -> Origin:
        return read_origin(self.path)

    @property
    def revision(self) -> str:
        return file_revision(self.path)

    def load(self) -> VLM | Classifier:
        from karat.models.organisms.bases import load_organism

        return load_organism(self.path, self.label)
