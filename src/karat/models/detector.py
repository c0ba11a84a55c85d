"""`detector`: an object detector of torchvision or of transformers' DETR family, made a model of Karat."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from karat.kernel.card import Card
from karat.kernel.errors import BadInput, ExtraMissing, UnknownName
from karat.kernel.sample import Sample
from karat.kernel.typing import Scalar, Values
from karat.models.detections import NOTHING, Detection, box_of, detect, label_of
from karat.models.local_weights import local_weights, read_weights
from karat.models.preprocessing import IMAGENET_MEAN, IMAGENET_STD, Preprocessing
from karat.models.structure import submodule
from karat.models.torch_model import Inputs, Layout
from karat.models.weights import file_revision

if TYPE_CHECKING:
    from torch import Tensor, nn

    from karat.models.detections import Detections

__all__ = ["NOTHING", "Detection", "Detector", "detector", "label_of"]
_AS_IT_IS = Preprocessing(mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0), interpolation="bilinear")
_STAGES = ("layer4", "stages", "features")  # as ResNets of torchvision and timm, of transformers, and others call it


def detector(
    module: nn.Module,
    transform: Preprocessing | None = None,
    labels: Sequence[str] | None = None,
    name: str | None = None,
    layer: str | None = None,
) -> Detector:
    """A detector of torchvision (FCOS, SSD, Faster R-CNN...) or transformers (DETR, YOLOS, RT-DETR...) as a model.

        model = detector(torchvision.models.detection.ssd300_vgg16(weights="DEFAULT"))
        model.answer(samples)  # ["dog @ 120,30,500,872", ...]

    Args:
        module: The detector. It is put into evaluation mode.
        transform: From images to pixels. torchvision's detectors normalise and resize by themselves, so by default
            images are only brought to 224 px; those of transformers get ImageNet's mean as well.
        labels: Names of the classes by number; by default what transformers' config says, else COCO's 91.
        name: How tables call it; by default the name of its class.
        layer: Dotted name of the layer that CAMs read; by default the last stage of the backbone.

    Returns:
        A model whose answers are a class with its box (`karat.models.detections.Detection`) and which can be looked
        into.
    """
    module.eval()
    config: Any = getattr(module, "config", None)
    if labels is None:
        labels = [config.id2label[k] for k in range(config.num_labels)] if config is not None else _coco_labels()
    if transform is None:
        transform = _AS_IT_IS if config is None else Preprocessing(mean=IMAGENET_MEAN, std=IMAGENET_STD)
    if layer is not None:
        submodule(module, layer)
    return Detector(module, transform, tuple(labels), name or type(module).__name__, layer)


def _coco_labels() -> list[str]:
    from torchvision.models.detection import FasterRCNN_ResNet50_FPN_Weights

    return list(FasterRCNN_ResNet50_FPN_Weights.COCO_V1.meta["categories"])


@dataclass(frozen=True, eq=False)
class Detector:
    """A `TorchModel` without text whose answers are detections. Made by `detector`."""

    module: nn.Module
    transform: Preprocessing
    labels: tuple[str, ...]
    name: str
    layer: str | None = None
    mechanism: None = None

    @property
    def capabilities(self) -> frozenset[str]:
        return frozenset({"scores", "gradients", "activations", "boxes"})

    @cached_property
    def layers(self) -> Mapping[str, str]:
        last = self.layer or _last_stage(self.module)
        return {"vision.last": last} if last else {}

    @property
    def attention_layers(self) -> tuple[str, ...]:
        return ()

    @property
    def neutral_token(self) -> None:
        return None

    def encode(self, samples: Sequence[Sample]) -> Inputs:
        example = next(self.module.parameters())
        pixels = self.transform([sample.image for sample in samples]).to(example.device, example.dtype)
        return Inputs(pixels=pixels, frames=tuple(self.transform.frame(*sample.size) for sample in samples))

    def readout(self, inputs: Inputs, answers: Sequence[str]) -> Tensor:
        """The score of the detection of the same class that overlaps each answer's box best."""
        return self._scores(inputs, answers, overlap=0.0)

    def log_probability(self, inputs: Inputs, answers: Sequence[str]) -> Tensor:
        """Of finding the same thing: same class, boxes that overlap by half."""
        return self._scores(inputs, answers, overlap=0.5).clamp(min=1e-12).log()

    def answer(self, samples: Sequence[Sample]) -> list[str]:
        """The surest detection of each image, or "nothing"."""
        return [best[0].answer if best else NOTHING for best in self.detect(samples, 1)]

    def score(self, samples: Sequence[Sample], answers: Sequence[str]) -> Values:
        import torch

        with torch.no_grad():
            return np.asarray(self._scores(self.encode(samples), answers, 0.5).cpu(), dtype=np.float64)

    def ranking(self, samples: Sequence[Sample], top: int) -> list[list[tuple[str, float]]]:
        return [[(one.answer, one.score) for one in best] for best in self.detect(samples, top)]

    def detect(self, samples: Sequence[Sample], top: int = 100) -> list[list[Detection]]:
        """The surest detections of each image, boxes as shares of its width and height."""
        import torch

        with torch.no_grad():
            detections = detect(self.module, self.encode(samples).pixels)
        return [self._best(of_image, top) for of_image in detections]

    def layout(self, inputs: Inputs) -> Layout:
        return Layout(None, None, None, None)

    def _best(self, detections: Detections, top: int) -> list[Detection]:
        classes, scores, boxes = detections.classes, detections.scores, detections.boxes
        order = scores.argsort(descending=True)[:top].tolist()
        return [Detection(self.labels[int(classes[k])], float(scores[k]), tuple(boxes[k].tolist())) for k in order]

    def _scores(self, inputs: Inputs, answers: Sequence[str], overlap: float) -> Tensor:
        import torch

        detections = detect(self.module, inputs.pixels)
        targets = [(self._number(answer), box_of(answer)) for answer in answers]
        return torch.stack([each.score(*target, overlap) for each, target in zip(detections, targets, strict=True)])

    def _number(self, answer: str) -> int:
        label = label_of(answer)
        if label == NOTHING:
            return -1
        if label not in self.labels:
            raise UnknownName(f"label of {self.name}", label, self.labels)
        return self.labels.index(label)


def _last_stage(module: nn.Module) -> str | None:
    """The last stage of the backbone; where it is a list of stages, the last of them (lists themselves do not run)."""
    known = dict(module.named_modules())
    for stage in _STAGES:
        for name in known:
            if re.fullmatch(rf"(\w+\.)*backbone(\.\w+)*\.{stage}", name):
                parts = list(known[name]._modules)
                return name if stage == "layer4" or not parts else f"{name}.{parts[-1]}"
    return None


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
    size: Annotated[int, Field(ge=1)] = 224
    layer: str | None = None
    seed: Annotated[int, Field(ge=0)] = 0

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
