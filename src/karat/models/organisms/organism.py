"""`Organism`: a model with a planted rule from a file that `karat train organism` made. Loads no torch by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from karat.kernel.card import Card
from karat.kernel.errors import BadInput
from karat.kernel.typing import Scalar
from karat.models.organisms.files import Origin, read_origin
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
        from karat.models.organisms.recipe import organism_label

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
        from karat.models.organisms.load import load_organism

        return load_organism(Path(self.path), self.label)
