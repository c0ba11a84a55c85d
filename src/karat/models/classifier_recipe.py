"""Recipe `classifier`: a classifier of timm, torchvision or transformers by name, weights from a file or the hub."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from annotated_types import Ge

from karat.kernel.card import Card
from karat.kernel.errors import BadInput, ExtraMissing, UnknownName
from karat.kernel.typing import Scalar
from karat.models.classifier import Classifier, classifier
from karat.models.local_weights import local_weights, read_weights
from karat.models.preprocessing import Preprocessing
from karat.models.weights import file_revision

if TYPE_CHECKING:
    from torch import nn

_TRANSFORMER = re.compile(r"vit|deit|swin|pvt|hiera|beit|cait|eva|xcit|twins|convit|maxvit|dinov")


@dataclass(frozen=True)
class ClassifierRecipe:
    """An image classifier by name. Images are shown to it as it was trained.

    Attributes:
        architecture: A name of timm, `torchvision:NAME`, or `transformers:ID` (a hub id or a directory).
        weights: A file of weights, see `karat.models.local_weights`.
        pretrained: Without a file, weights come from the library's own hub; without either they are random, by `seed`.
        labels: Names of the classes; "imagenet" stands for its 1000.
        classes: How many there are, where they have no names.
        layer: What CAMs read; by default `karat.models.cam_layer.cam_layer`.
        size, mean, std: For weights that were trained with other images than the library's.
        by_order: Pair the tensors of the file with the module's by position instead of name.
        seed: Of random weights.
    """

    card: ClassVar[Card] = Card(
        "classifier", "an image classifier of timm, torchvision or transformers", "model", extra="vision"
    )
    architecture: str = "resnet18"
    weights: str | None = None
    pretrained: bool = False
    labels: tuple[str, ...] | Literal["imagenet"] = ()
    classes: Annotated[int, Ge(1)] | None = None
    layer: str | None = None
    size: Annotated[int, Ge(1)] | None = None
    mean: tuple[float, float, float] | None = None
    std: tuple[float, float, float] | None = None
    by_order: bool = False
    seed: Annotated[int, Ge(0)] = 0

    @property
    def label(self) -> str:
        name = self.architecture.partition(":")[2].rsplit("/", 1)[-1] or self.architecture
        return name if self.weights is None else f"{name}@{Path(self.weights).stem}"

    @property
    def facts(self) -> dict[str, Scalar]:
        return {
            "family": "classifier",
            "architecture": self.architecture,
            "weights": self.weights,
            "pretrained": self.pretrained,
            "seed": self.seed,
        }

    @property
    def capabilities(self) -> frozenset[str]:
        heads = {"attention"} if _TRANSFORMER.search(self.architecture.lower()) else set()
        return frozenset({"scores", "gradients", "activations"} | heads)

    @property
    def revision(self) -> str:
        if self.weights is None:
            return f"4:pretrained={self.pretrained}:seed={self.seed}"
        return f"4:{file_revision(local_weights(self.weights))}"

    def sees(self) -> str:
        """Asks the library, not the weights."""
        if self.architecture.startswith("transformers:"):
            from karat.models.hub import describe_preprocessing

            return f"{describe_preprocessing(self.architecture[13:])}; here always all of the shorter side"
        used = self._changed(self._published())
        mean, std = ", ".join(f"{m:g}" for m in used.mean), ", ".join(f"{s:g}" for s in used.std)
        return (
            f"the middle of the image at {used.size[0]}×{used.size[1]} ({used.interpolation}), mean {mean}, std {std}"
        )

    def vocabulary(self) -> tuple[str, ...]:
        return self._names

    def load(self) -> Classifier:
        module, published = self._module()
        if self.weights is not None:
            read_weights(module, local_weights(self.weights), self.architecture, self.by_order, _renamed(module))
        return classifier(
            module, self._changed(published), labels=self._names or None, name=self.label, layer=self.layer
        )

    @property
    def _names(self) -> tuple[str, ...]:
        if self.labels != "imagenet":
            return self.labels
        from karat.datasets.segmentation.imagenet import labels

        return labels()

    def _module(self) -> tuple[nn.Module, Preprocessing]:
        try:
            import timm
            import torch
            import torchvision
        except ImportError as error:
            raise ExtraMissing("the classifier model", error.name or "torch", "vision") from None
        library, _, name = (
            self.architecture.partition(":") if ":" in self.architecture else ("timm", "", self.architecture)
        )
        classes = len(self._names) or self.classes
        size: dict[str, Any] = {} if classes is None else {"num_classes": classes}
        torch.manual_seed(self.seed)
        module: Any
        if library == "transformers":
            from karat.models.hub import load

            module, processor = load("classifier", "AutoModelForImageClassification", name)
            return module, _of_processor(processor)
        if library == "torchvision":
            if name not in torchvision.models.list_models():
                raise UnknownName("torchvision model", name, torchvision.models.list_models())
            module = torchvision.models.get_model(name, weights=None, **size)
            if self.pretrained:
                url = torchvision.models.get_model_weights(name).DEFAULT.url
                with self._fetching():
                    fetched = torch.hub.load_state_dict_from_url(url, weights_only=True, map_location="cpu")
                module.load_state_dict(fetched)
            return module, _of_torchvision(name)
        if library != "timm":
            raise UnknownName("library", library, ["timm", "torchvision", "transformers"])
        if not timm.is_model(name):
            raise UnknownName("timm model", name, timm.list_models())
        with self._fetching():
            module = timm.create_model(name, pretrained=self.pretrained, **size)
        if self.size is not None and hasattr(module, "set_input_size"):  # a ViT has a place for every patch
            module.set_input_size((self.size, self.size))
        return module, Preprocessing.of_timm(module)

    @contextmanager
    def _fetching(self) -> Iterator[None]:
        """One line instead of what libraries raise where weights are not here and cannot be had."""
        try:
            yield
        except (OSError, RuntimeError, ValueError) as error:
            if not self.pretrained:
                raise
            reason = " ".join(str(error).split())[:200].rstrip(".")
            raise BadInput(
                f"the weights of {self.architecture} are not on this machine and cannot be fetched: {reason}. Load it "
                "once where there is a network, or give a file to the `classifier` model (`weights: FILE`)."
            ) from None

    def _published(self) -> Preprocessing:
        """What the library says about the architecture, without building it."""
        if self.architecture.startswith("torchvision:"):
            return _of_torchvision(self.architecture[12:])
        import timm

        config: Any = timm.get_pretrained_cfg(self.architecture)
        if config is None:
            return Preprocessing()
        return Preprocessing(config.input_size[1:], config.mean, config.std, config.interpolation, squash=False)

    def _changed(self, published: Preprocessing) -> Preprocessing:
        size = published.size if self.size is None else (self.size, self.size)
        return replace(published, size=size, mean=self.mean or published.mean, std=self.std or published.std)


def _renamed(module: nn.Module) -> Any:
    """What timm does to published weights of this architecture before it loads them, if anything."""
    return getattr(sys.modules[type(module).__module__], "checkpoint_filter_fn", None)


def _of_torchvision(name: str) -> Preprocessing:
    """What torchvision's own weights of that name were trained with, all of the shorter side shown."""
    from torchvision.models import get_model_weights

    published = get_model_weights(name).DEFAULT.transforms()
    [side] = published.crop_size
    mean, std = tuple(published.mean), tuple(published.std)
    return Preprocessing((side, side), mean, std, published.interpolation.value, squash=False)


def _of_processor(processor: Any) -> Preprocessing:
    """Size and normalisation of an image processor of transformers. One that goes by the shorter side keeps the
    proportions, one that squeezes images into its size does so here."""
    size = processor.size
    side = size.get("height") or size.get("shortest_edge")
    shape, mean, std = (side, size.get("width") or side), tuple(processor.image_mean), tuple(processor.image_std)
    return Preprocessing(shape, mean, std, "bilinear", squash=not size.get("shortest_edge"))
