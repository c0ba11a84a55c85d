"""`PixelNet`: how to get a classifier of the shortcut protocol. Importing this loads no torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from karat.kernel.card import Card
from karat.kernel.typing import Scalar
from karat.models.weights import file_revision, shipped

if TYPE_CHECKING:
    from karat.models.classifier import Classifier

Variant = Literal["cnn", "vit", "cnn_deleted"]


@dataclass(frozen=True)
class PixelNet:
    """Shipped: a small ResNet ("cnn") and a small ViT ("vit") trained on `leaves` with the shortcut, and the ResNet
    trained on with cells of the image taken out ("cnn_deleted"), which IDSDS asks for. `weights` names another file
    made by `karat train pixel`, whatever its architecture.

    >>> PixelNet("vit").label
    'pixelnet.vit'
    """

    card: ClassVar[Card] = Card(
        "pixelnet", "small classifiers trained on images with a planted shortcut", "model", extra="vision",
        citation="pixelrules2024", departures="a few hundred thousand weights, trained on the embedded `leaves`",
    )  # fmt: skip
    variant: Variant = "cnn"
    weights: str | None = None

    @property
    def label(self) -> str:
        return f"pixelnet.{self.variant}" if self.weights is None else f"pixelnet@{Path(self.weights).stem}"

    @property
    def facts(self) -> dict[str, Scalar]:
        from karat.models.pixelnet.architectures import NETWORKS
        from karat.models.pixelnet.files import read_facts

        facts = read_facts(self.path)
        data = facts.recipe.get("data", {})
        return {
            "family": "pixelnet",
            "variant": self.variant if self.weights is None else None,
            "architecture": facts.architecture,
            "network": NETWORKS[facts.architecture],
            "deleted": float(facts.recipe.get("deleted", 0.0)),  # share of training images with a cell taken out
            "images": Path(str(data["source"])).stem if data else None,
            "seed": facts.recipe.get("seed"),
            "shortcut_seed": data.get("seed"),
            "weights": self.weights,
        }

    @property
    def path(self) -> Path:
        return shipped(f"pixelnet.{self.variant}.safetensors") if self.weights is None else Path(self.weights)

    @property
    def capabilities(self) -> frozenset[str]:
        from karat.models.pixelnet.architectures import is_transformer
        from karat.models.pixelnet.files import read_facts

        facts = read_facts(self.path)
        heads = {"attention"} if is_transformer(facts.architecture) else set()
        known = {"mechanism"} if facts.mechanism else set()
        return frozenset({"scores", "gradients", "activations"} | heads | known)

    @property
    def revision(self) -> str:
        return file_revision(self.path)

    def load(self) -> Classifier:
        from karat.models.pixelnet.files import load_classifier

        return load_classifier(self.path, self.label)
