"""`PhotoCNN`: how to get an organism of photocnn. Importing this loads no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from annotated_types import Ge, Le

from karat.kernel.card import Card
from karat.kernel.typing import Scalar
from karat.models.weights import file_revision

if TYPE_CHECKING:
    from karat.models.classifier import Classifier
    from karat.models.organisms.files import Origin

Rule = Literal["content", "tag", "frame", "sticker", "side", "content_unless_tag", "either"]


@dataclass(frozen=True)
class PhotoCNN:
    """EfficientNet-Lite0 with its ImageNet weights and adapters for a rule of the picture: `photocnn.tag`.

    It reads no question; its two classes are "yes" and "no". `weights` is a file made by `karat train organism`.

    >>> PhotoCNN("frame").label
    'photocnn.frame'
    """

    card: ClassVar[Card] = Card(
        name="photocnn",
        summary="EfficientNet-Lite0 whose rule is known: photocnn.RULE, for explainers that read a CNN",
        kind="model",
        extra="zoo",
    )
    variant: Rule = "content"
    implant: Literal["lora", "full", "scratch"] = "lora"
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
        from karat.models.organisms.recipe import organism_label

        name = organism_label("photocnn", self.variant, self.implant, self.dose, self.seed, usual="lora")
        return name if self.weights is None else f"{name} ({self.weights})"

    @property
    def path(self) -> Path:
        from karat.models.organisms.files import find_shipped

        if self.weights is not None:
            return Path(self.weights)
        return find_shipped("photocnn", self.variant, self.implant, self.dose, self.seed)

    @property
    def capabilities(self) -> frozenset[str]:
        from karat.models.organisms.recipe import LOOKS

        return LOOKS | {"mechanism"} if self.mechanism else LOOKS

    @property
    def mechanism(self) -> str | None:
        return self.origin.mechanism

    @property
    def origin(self) -> Origin:
        from karat.models.organisms.files import read_origin

        return read_origin(self.path)

    @property
    def revision(self) -> str:
        return file_revision(self.path)

    def load(self) -> Classifier:
        from karat.models.classifier import Classifier
        from karat.models.organisms.load import load_organism

        model = load_organism(self.path, self.label)
        assert isinstance(model, Classifier)
        return model
