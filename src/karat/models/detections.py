"""What a detector finds in an image, whoever wrote it: boxes, classes and differentiable scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from karat.kernel.errors import BadInput

if TYPE_CHECKING:
    from torch import Tensor, nn

NOTHING = "nothing"  # what a detector answers that found nothing
_AT = " @ "
Corners = tuple[float, float, float, float]  # left, top, right, bottom as shares of width and height


@dataclass(frozen=True)
class Detection:
    """One found object. As an answer it is "dog @ 120,30,500,872": class and corners in thousandths of the sides."""

    label: str
    score: float
    box: Corners

    @property
    def answer(self) -> str:
        return f"{self.label}{_AT}{','.join(str(round(1000 * corner)) for corner in self.box)}"


def label_of(answer: str) -> str:
    """The class that an answer names.

    >>> label_of("dog @ 120,30,500,872"), label_of("dog")
    ('dog', 'dog')
    """
    return answer.partition(_AT)[0]


def box_of(answer: str) -> Corners | None:
    """The box that an answer names, or None for a class alone.

    >>> box_of("dog @ 120,30,500,872")
    (0.12, 0.03, 0.5, 0.872)
    """
    _, at, corners = answer.partition(_AT)
    if not at:
        return None
    parts = corners.split(",")
    if len(parts) != 4 or not all(part.lstrip("-").isdecimal() for part in parts):
        raise BadInput(f"a detection is 'class @ left,top,right,bottom' in thousandths of the sides; got {answer!r}.")
    left, top, right, bottom = (int(part) / 1000 for part in parts)
    return left, top, right, bottom


@dataclass(frozen=True, eq=False)
class Detections:
    """All detections of one image: `boxes` (k, 4) as shares within [0, 1], `classes` (k,), `scores` (k,) with their
    gradient."""

    boxes: Tensor
    classes: Tensor
    scores: Tensor

    def score(self, number: int, box: Corners | None, overlap: float) -> Tensor:
        """The score of the detection of that class that overlaps `box` best, if by at least `overlap`; else 0.

        Without a box, the best of that class. semscore2025's target for a detector, there for all four families.
        """
        scores, boxes = self.scores[self.classes == number], self.boxes[self.classes == number]
        if not len(scores):
            return self.scores.sum() * 0  # a zero that still has a gradient
        if box is None:
            return scores.max()
        shares = iou(boxes.detach(), boxes.new_tensor(box))
        best = int(shares.argmax())
        return scores[best] if float(shares[best]) >= overlap else scores[best] * 0


def iou(boxes: Tensor, box: Tensor) -> Tensor:
    """(k,) overlap of boxes (k, 4) with one box, as intersection over union."""
    import torch

    low, high = torch.maximum(boxes[:, :2], box[:2]), torch.minimum(boxes[:, 2:], box[2:])
    both = (high - low).clamp(min=0).prod(1)
    areas = (boxes[:, 2:] - boxes[:, :2]).clamp(min=0).prod(1), (box[2:] - box[:2]).clamp(min=0).prod()
    return both / (areas[0] + areas[1] - both).clamp(min=1e-12)


def detect(module: nn.Module, pixels: Tensor) -> list[Detections]:
    """One forward pass of a detector of torchvision, or of transformers' DETR family."""
    config: Any = getattr(module, "config", None)
    if config is not None:
        return _of_queries(module(pixel_values=pixels), int(config.num_labels))
    height, width = pixels.shape[-2:]
    sides = pixels.new_tensor([width, height, width, height])
    outputs: Any = module(list(pixels))
    if not (isinstance(outputs, list) and outputs and {"boxes", "labels", "scores"} <= set(outputs[0])):
        raise BadInput(
            f"{type(module).__name__} must map a list of images to a list of {{boxes, labels, scores}}, as those "
            "of torchvision do in evaluation mode, or be a detector of transformers."
        )
    return [Detections((one["boxes"] / sides).clamp(0, 1), one["labels"], one["scores"]) for one in outputs]


def _of_queries(output: Any, named: int) -> list[Detections]:
    """Every query is a detection of its best class. Where the head has a class more than it names, the last is "none"
    (DETR, YOLOS: softmax); else classes are told apart one by one (Deformable, Conditional, RT-DETR: sigmoid)."""
    import torch

    logits, boxes = output.logits.float(), output.pred_boxes.float()
    probabilities = logits.softmax(-1)[..., :-1] if logits.shape[-1] > named else logits.sigmoid()
    scores, classes = probabilities.max(-1)
    centre, half = boxes[..., :2], boxes[..., 2:] / 2
    corners = torch.cat([centre - half, centre + half], -1).clamp(0, 1)
    return [Detections(*one) for one in zip(corners, classes, scores, strict=True)]
