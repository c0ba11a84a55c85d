"""What `gridnet` is trained for: grounding first (boxes, phrases, roles), then answers (gridvqax2026 section 4.1)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor
from torch.nn import functional as F

from karat.models.gridnet.network import Answers, Found

TEMPERATURE = 0.07  # of the contrastive alignment, as in MDETR


@dataclass(frozen=True, eq=False)
class Objects:
    """The objects that a question names, padded to G: boxes (n, G, 4) as centre and size, real (n, G), and for each
    the word positions of its phrase, phrases (n, G, T), rows summing to 1 at real objects."""

    boxes: Tensor
    real: Tensor
    phrases: Tensor


def generalized_iou(a: Tensor, b: Tensor) -> Tensor:
    """Generalised IoU of boxes (..., 4) given as centre and size; broadcasts."""
    low_a, high_a = a[..., :2] - a[..., 2:] / 2, a[..., :2] + a[..., 2:] / 2
    low_b, high_b = b[..., :2] - b[..., 2:] / 2, b[..., :2] + b[..., 2:] / 2
    shared = (torch.minimum(high_a, high_b) - torch.maximum(low_a, low_b)).clamp(min=0).prod(dim=-1)
    hull = (torch.maximum(high_a, high_b) - torch.minimum(low_a, low_b)).prod(dim=-1)
    union = a[..., 2:].prod(dim=-1) + b[..., 2:].prod(dim=-1) - shared
    return shared / union - (hull - union) / hull


@torch.no_grad()
def match(detections: Found, objects: Objects) -> Tensor:
    """(n, G) the query that each object is given to, by the Hungarian method; -1 at padding and where queries ran out.

    Cost: 5 x L1 + 2 x (1 - gIoU) + 1 - P(phrase), MDETR's weights.
    """
    given = detections.boxes[:, :, None, :]
    wanted = objects.boxes[:, None, :, :]
    likely = detections.phrases.softmax(dim=-1)[..., : objects.phrases.shape[-1]] @ objects.phrases.transpose(1, 2)
    cost = 5 * (given - wanted).abs().sum(dim=-1) - 2 * generalized_iou(given, wanted) - likely
    table = cost.cpu().double().numpy()
    counts = objects.real.sum(dim=1).tolist()
    result = torch.full(objects.real.shape, -1, dtype=torch.long)
    for i, count in enumerate(counts):  # real objects come first
        rows, columns = linear_sum_assignment(table[i, :, :count])
        result[i, torch.from_numpy(columns)] = torch.from_numpy(rows)
    return result.to(objects.real.device)


def detection(detections: Found, objects: Objects, keep: Tensor) -> dict[str, Tensor]:
    """L1 and generalised IoU of matched boxes, soft token prediction, and alignment of queries with words."""
    query = match(detections, objects)
    sample, slot = (query >= 0).nonzero(as_tuple=True)
    chosen = query[sample, slot]
    given, wanted = detections.boxes[sample, chosen], objects.boxes[sample, slot]
    words, count = objects.phrases.shape[-1], max(len(chosen), 1)  # a batch may name nothing that is there

    # Soft token prediction: matched queries name the words of their phrase, the rest name "no object".
    target = torch.zeros_like(detections.phrases)
    target[..., -1] = 1
    target[sample, chosen] = F.pad(objects.phrases[sample, slot], (0, detections.phrases.shape[-1] - words))
    weight = torch.full(detections.phrases.shape[:2], 0.1, device=target.device)  # MDETR's weight of "no object"
    weight[sample, chosen] = 1.0
    phrase = -(target * detections.phrases.log_softmax(dim=-1)).sum(dim=-1)

    return {
        "l1": (given - wanted).abs().sum() / count,
        "giou": (1 - generalized_iou(given, wanted)).sum() / count,
        "phrase": (phrase * weight).sum() / weight.sum(),
        "align": _align(detections, target[..., :words] > 0, keep),
    }


def _align(detections: Found, positive: Tensor, keep: Tensor) -> Tensor:
    """Contrastive alignment both ways: a query is close to its words and far from others, and the reverse."""
    logits = detections.queries @ detections.words.transpose(1, 2) / TEMPERATURE  # (n, Q, T)
    logits = logits.masked_fill(~keep[:, None, :], -1e4)
    total = logits.new_zeros(())
    for dim in (2, 1):
        has = positive.any(dim=dim)
        share = positive / positive.sum(dim=dim, keepdim=True).clamp(min=1)
        loss = -(logits.log_softmax(dim=dim) * share).sum(dim=dim)
        total = total + (loss * has).sum() / has.sum().clamp(min=1)
    return total / 2


def roles(logits: Tensor, role: Tensor, weight: Tensor) -> Tensor:
    """Cross-entropy of roles (n, places, roles) with weights (n, places); cells that play no part count little."""
    loss = F.cross_entropy(logits.flatten(0, 1), role.flatten(), reduction="none")
    return (loss * weight.flatten()).sum() / weight.sum().clamp(min=1e-6)


def regions(logits: Tensor, holds: Tensor, named: Tensor) -> Tensor:
    """Binary cross-entropy of "relation k holds at this cell" (n, cells, k) over the relations asked (n, k)."""
    weight = (named[:, None, :] & torch.ones_like(holds)).to(logits.dtype)
    loss = F.binary_cross_entropy_with_logits(logits, holds.to(logits.dtype), reduction="none")
    return (loss * weight).sum() / weight.sum().clamp(min=1)


def question_answering(answers: Answers, kind: Tensor, value: Tensor, weight: Tensor) -> Tensor:
    """Cross-entropy of question type `kind` (n,) and of `value` (n,) within it.

    gridvqax2026 section 4.1: each answer weighs inversely to its frequency in the batch; frequencies are taken within
    the question type, and weights average 1 there, so that no type outweighs another.
    """
    loss = (F.cross_entropy(answers.type, kind, reduction="none") * weight).sum()
    for i, logits in enumerate(answers.values):
        mine = kind == i
        loss = loss + 0 * logits.sum()  # a head without samples still gets a gradient, so that all weights keep step
        target = value[mine]
        counts = torch.bincount(target, minlength=logits.shape[1]).to(logits.dtype)
        inverse = 1 / counts[target]
        inverse = inverse * (len(target) / inverse.sum().clamp(min=1e-6))
        loss = loss + (F.cross_entropy(logits[mine], target, reduction="none") * inverse * weight[mine]).sum()
    return loss / weight.sum().clamp(min=1e-6)
