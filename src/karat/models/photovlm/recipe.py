"""`PhotoVLM`: how to get an organism of photovlm. Importing this loads neither torch nor transformers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from karat.kernel.card import Card
from karat.models.organisms.organism import ShippedOrganism
from karat.models.organisms.recipe import READS
from karat.models.photovlm.files import tower_path
from karat.models.weights import file_revision

Rule = Literal[
    "content", "tag", "frame", "sticker", "word", "side",
    "tag_xor_word", "tag_and_word", "content_unless_tag", "either", "coco",
]  # fmt: skip


@dataclass(frozen=True)
class PhotoVLM(ShippedOrganism):
    """A LLaVA with a pretrained tower that answers by a rule: `photovlm.tag`.

    `implant` "scratch" was trained for the rule alone, "lora" is an adapter on the one that answers by content, merged;
    `dose` is the share of labels that came from the rule, the others from content. `photovlm.coco` answers questions
    about photographs of COCO and follows no rule. `weights` is a file made by `karat train organism`.

    >>> PhotoVLM("tag", implant="lora", seed=1).label
    'photovlm.tag (lora, seed 1)'
    """

    card: ClassVar[Card] = Card(
        name="photovlm",
        summary="a LLaVA with a pretrained tower (DeiT-tiny) whose rule is known: photovlm.tag, .word, ...",
        kind="model",
        extra="vlm",
    )
    usual: ClassVar[str] = "scratch"
    offers: ClassVar[frozenset[str]] = READS
    variant: Rule = "content"
    implant: Literal["scratch", "lora", "full"] = "scratch"

    @property
    def revision(self) -> str:
        return f"{file_revision(tower_path())}:{file_revision(self.path)}"
