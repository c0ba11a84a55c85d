"""Recipe `detector`: an object detector of torchvision or transformers by name, weights from a file or the hub."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from annotated_types import Ge

from karat.kernel.card import Card
from karat.kernel.errors import BadInput, ExtraMissing, UnknownName
from karat.kernel.typing import Scalar
from karat.models.detector import Detector, detector
from karat.models.local_weights import local_weights, read_weights
from karat.models.preprocessing import Preprocessing
from karat.models.weights import file_revision


@dataclass(frozen=True)
class DetectorRecipe:
    """An object detector by name.

    Attributes:
        architecture: `torchvision:NAME`, or `transformers:ID` with a hub id or a directory.
        weights: A file of weights: .safetensors, or torchvision's .pth.
        pretrained: Without a file, weights come from the library's hub; without either they are random, by `seed`.
        size: Side of the square that images are brought to, in pixels.
        layer: What CAMs read; by default the last stage of the backbone.
        seed: Of random weights.
    """

    card: ClassVar[Card] = Card(
        "detector", "an object detector of torchvision or transformers", "model", extra="vision"
    )
    architecture: str = "torchvision:fasterrcnn_resnet50_fpn"
    weights: str | None = None
    pretrained: bool = False
    size: Annotated[int, Ge(1)] = 224
    layer: str | None = None
    seed: Annotated[int, Ge(0)] = 0

    @property
    def label(self) -> str:
        return self.architecture.partition(":")[2].rsplit("/", 1)[-1] or self.architecture

    @property
    def facts(self) -> dict[str, Scalar]:
        return {
            "family": "detector",
            "architecture": self.architecture,
            "weights": self.weights,
            "pretrained": self.pretrained,
            "seed": self.seed,
        }

    @property
    def capabilities(self) -> frozenset[str]:
        return frozenset({"scores", "gradients", "activations", "boxes"})

    @property
    def revision(self) -> str:
        if self.weights is None:
            return f"1:pretrained={self.pretrained}:seed={self.seed}"
        return f"1:{file_revision(local_weights(self.weights))}"

    def sees(self) -> str:
        """Asks the architecture, not the weights."""
        library, _, name = self.architecture.partition(":")
        if library == "transformers":
            from karat.models.hub import describe_preprocessing

            return f"{describe_preprocessing(name)}; here at {self.size}×{self.size}"
        import torch

        with torch.device("meta"):
            inside: Any = self._architecture(name).transform
        side = inside.min_size[-1]  # of a square image
        mean, std = (", ".join(f"{value:.4g}" for value in values) for values in (inside.image_mean, inside.image_std))
        return f"the whole image at {self.size}×{self.size}, by itself resized to {side}×{side}, mean {mean}, std {std}"

    def load(self) -> Detector:
        library, _, name = self.architecture.partition(":")
        if library == "transformers":
            from karat.models.hub import load

            module, processor = load("detector", "AutoModelForObjectDetection", name)
            mean, std = tuple(processor.image_mean), tuple(processor.image_std)
            transform = Preprocessing((self.size, self.size), mean, std, "bilinear")
            return detector(module, transform, name=self.label, layer=self.layer)
        if library != "torchvision":
            raise BadInput(f"detector: architecture is torchvision:NAME or transformers:ID; got {self.architecture!r}.")
        transform = Preprocessing((self.size, self.size), (0, 0, 0), (1, 1, 1), "bilinear")
        return detector(self._torchvision(name), transform, name=self.label, layer=self.layer)

    def _torchvision(self, name: str) -> Any:
        module = self._architecture(name)
        if self.weights is not None:
            read_weights(module, local_weights(self.weights), self.architecture)
        elif self.pretrained:
            import torch
            from torchvision import models

            url = models.get_model_weights(name).DEFAULT.url
            module.load_state_dict(torch.hub.load_state_dict_from_url(url, weights_only=True, map_location="cpu"))
        return module

    def _architecture(self, name: str) -> Any:
        """The module with random weights."""
        try:
            import torch
            from torchvision import models
        except ImportError as error:
            raise ExtraMissing("the detector model", error.name or "torch", "vision") from None
        if name not in models.list_models(module=models.detection):
            raise UnknownName("torchvision detector", name, models.list_models(module=models.detection))
        torch.manual_seed(self.seed)
        return models.get_model(name, weights=None, weights_backbone=None)
