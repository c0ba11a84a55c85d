"""What training on explanations asks for: evidence that points (Eq. 15), that lies on the target (Eq. 16), or answers
whose representations come apart by relation (Eq. 17). On torch tensors, with gradients."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from karat.metrics.compass import compass

Points = npt.NDArray[np.float64]  # (n, 2) in map cells


def compass_loss(
    maps: Tensor, reference: Points, target: Points, aspect: float | Points = 1.0, entropy: float = 0.1
) -> Tensor:
    """1 - sum_k P(theta_k) cos(theta_k - theta_true), plus `entropy` times the entropy of P as a share of its largest.

    `maps` (n, h, w), not negative; `aspect`, one or (n,), is a cell's height over its width. Samples without evidence
    have no direction and do not count. # creg2026 Eq. 15
    """
    shares: Tensor = compass(maps, reference, target, aspect=aspect)
    fine = torch.isfinite(shares).all(1)
    if not bool(fine.any()):
        return maps.sum() * 0
    step = ((target - reference) * np.stack([np.ones(len(maps)), np.broadcast_to(aspect, len(maps))], axis=1))[
        fine.cpu().numpy()
    ]
    true = torch.as_tensor(np.arctan2(-step[:, 1], step[:, 0]), device=maps.device, dtype=shares.dtype)
    shares = shares[fine]
    sectors = shares.shape[1]
    angles = torch.arange(sectors, device=maps.device, dtype=shares.dtype) * (2 * math.pi / sectors)
    off = 1 - (shares * torch.cos(angles - true[:, None])).sum(1)
    spread = -(shares * shares.clamp(min=1e-12).log()).sum(1) / math.log(sectors)
    return (off + entropy * spread).mean()


def target_loss(relevance: Tensor, inside: Tensor) -> Tensor:
    """-log of the softmax mass of relevance (n, tokens) on the tokens inside the target's box. # creg2026 Eq. 16

    A softmax depends on the scale of the relevance, which is not given: it is divided by its mean over the tokens.
    Samples whose box holds no token centre do not count.
    """
    some = inside.any(1)
    if not bool(some.any()):
        return relevance.sum() * 0
    scores = relevance[some] / relevance[some].abs().mean(1, keepdim=True).clamp(min=1e-12)
    scores = scores.log_softmax(1)
    return -scores.masked_fill(~inside[some], -math.inf).logsumexp(1).mean()


def contrastive_loss(states: Tensor, prototypes: Tensor, relation: Tensor, temperature: float = 0.1) -> Tensor:
    """InfoNCE of states (n, d) against one learnable prototype per relation (4, d), by cosine. # creg2026 Eq. 17"""
    likeness = F.normalize(states, dim=1) @ F.normalize(prototypes, dim=1).T
    return F.cross_entropy(likeness / temperature, relation)
