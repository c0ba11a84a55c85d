"""`PhotoVLM`: how to get an organism of photovlm. Importing this loads neither torch nor transformers."""

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
    from karat.models.organisms.files import Origin
    from karat.models.vlm_adapter import VLM

Rule = Literal[
    "content", "tag", "frame", "sticker", "word", "side",
    "tag_xor_word", "tag_and_word", "content_unless_tag", "either", "coco",
]  # fmt: skip


@dataclass(frozen=True)
class PhotoVLM:
    """A LLaVA with a pretrained tower that answers by a rule: `photovlm.tag`.

    `implant` "scratch" was trained for the rule alone, "lora" is an adapter on the one that answers by content, merged;
    `dose` is the share of labels that came from the rule, the others from content. `photovlm.coco` answers questions
    about photographs of COCO and follows no rule. `weights` is a file made by `karat train organism`.

    >>> PhotoVLM("tag", implant="lora", seed=1).label
    'photovlm.tag (lora, seed 1)'
    """

    card: ClassVar[Card] = Card(
        name="photovlm",
        summary="a LLaVA with a pretrained tower (DeiT-tiny) whose rule is known: photovlm.RULE",
        kind="model",
        extra="vlm",
    )
    variant: Rule = "content"
    implant: Literal["scratch", "lora", "full"] = "scratch"
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

        name = organism_label("photovlm", self.variant, self.implant, self.dose, self.seed)
        return name if self.weights is None else f"{name} ({self.weights})"

    @property
    def path(self) -> Path:
        from karat.models.organisms.files import find_shipped

        if self.weights is not None:
            return Path(self.weights)
        return find_shipped("photovlm", self.variant, self.implant, self.dose, self.seed)

    @property
    def capabilities(self) -> frozenset[str]:
        from karat.models.organisms.recipe import READS

        return READS | {"mechanism"} if self.mechanism else READS

    @property
    def mechanism(self) -> str | None:
        return self.origin.mechanism

    @property
    def origin(self) -> Origin:
        from karat.models.organisms.files import read_origin

        return read_origin(self.path)

    @property
    def revision(self) -> str:
        from karat.models.photovlm.files import tower_path

        return f"{file_revision(tower_path())}:{file_revision(self.path)}"

    def load(self) -> VLM:
        from karat.models.organisms.load import load_organism
        from karat.models.vlm_adapter import VLM

        model = load_organism(self.path, self.label)
        assert isinstance(model, VLM)
        return model
