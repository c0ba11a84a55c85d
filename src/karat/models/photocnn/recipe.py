"""`PhotoCNN`: how to get an organism of photocnn. Importing this loads no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from karat.kernel.card import Card
from karat.models.organisms.organism import ShippedOrganism
from karat.models.organisms.recipe import LOOKS

Rule = Literal["content", "tag", "frame", "sticker", "side", "content_unless_tag", "either"]


@dataclass(frozen=True)
class PhotoCNN(ShippedOrganism):
    """EfficientNet-Lite0 with its ImageNet weights and adapters for a rule of the picture: `photocnn.tag`.

    It reads no question; its two classes are "yes" and "no". `weights` is a file made by `karat train organism`.

    >>> PhotoCNN("frame").label
    'photocnn.frame'
    """

    card: ClassVar[Card] = Card(
        name="photocnn",
        summary="EfficientNet-Lite0 whose rule is known, for explainers of CNNs: photocnn.tag, .content, ...",
        kind="model",
        extra="zoo",
    )
    usual: ClassVar[str] = "lora"
    offers: ClassVar[frozenset[str]] = LOOKS
    variant: Rule = "content"
    implant: Literal["lora", "full", "scratch"] = "lora"
