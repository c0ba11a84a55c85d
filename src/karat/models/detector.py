"""`detector`: an object detector of torchvision or of transformers' DETR family, made a model of Karat."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from karat.kernel.errors import UnknownName
from karat.kernel.sample import Sample
from karat.kernel.target import Target, TargetLike, whole_answer
from karat.kernel.typing import Values
from karat.models.detections import NOTHING, Detection, box_of, detect, label_of
from karat.models.preprocessing import IMAGENET_MEAN, IMAGENET_STD, Preprocessing
from karat.models.structure import submodule
from karat.models.targets import whole_scores
from karat.models.torch_model import Inputs, Layout

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

    def readout(self, inputs: Inputs, targets: Sequence[TargetLike]) -> Tensor:
        """The score of the detection of the same class that overlaps each answer's box best."""
        detections = detect(self.module, inputs.pixels)
        return whole_scores(lambda answers: self._scores(detections, answers, 0.0), targets, self.name, log=False)

    def log_probability(self, inputs: Inputs, targets: Sequence[TargetLike]) -> Tensor:
        """Of finding the same thing: same class, boxes that overlap by half."""
        detections = detect(self.module, inputs.pixels)

        def score(answers: Sequence[str]) -> Tensor:
            return self._scores(detections, answers, overlap=0.5).clamp(min=1e-12).log()

        return whole_scores(score, targets, self.name, log=True)

    def answer(self, samples: Sequence[Sample]) -> list[str]:
        """The surest detection of each image, or "nothing"."""
        return [best[0].answer if best else NOTHING for best in self.detect(samples, 1)]

    def score(self, samples: Sequence[Sample], targets: Sequence[TargetLike]) -> Values:
        import torch

        with torch.no_grad():
            inputs = self.encode(samples)
            if any(isinstance(target, Target) and target.contrast for target in targets):
                probabilities = self.log_probability(inputs, targets).exp()
            else:  # exactly 0 where nothing is found, which has no logarithm
                answers = [whole_answer(target, self.name) for target in targets]
                probabilities = self._scores(detect(self.module, inputs.pixels), answers, 0.5)
            return np.asarray(probabilities.cpu(), dtype=np.float64)

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

    def _scores(self, detections: Sequence[Detections], answers: Sequence[str], overlap: float) -> Tensor:
        import torch

        boxes = [(self._number(answer), box_of(answer)) for answer in answers]
        return torch.stack([each.score(*box, overlap) for each, box in zip(detections, boxes, strict=True)])

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
