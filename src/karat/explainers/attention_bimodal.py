"""Chefer's rule for two streams that look at each other: relevance of each modality's tokens to each other's.

For models with co-attention (LXMERT, encoder-decoder); a single sequence of both modalities needs attention/generic
only. The maps come in the order in which the model computes them:

    relevance = Bimodal.start(n_image, n_text)
    for layer in model:
        relevance = relevance.attends("image", fused_self_attention_of_the_image)
        relevance = relevance.crosses("image", fused_cross_attention_of_image_queries_over_text_keys)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

Stream = Literal["image", "text"]


@dataclass(frozen=True, eq=False)
class Bimodal:
    """R^{ii} `image` (i, i), R^{tt} `text` (t, t), R^{it} `image_text` (i, t), R^{ti} `text_image` (t, i).

    Fused maps are E_h (A ∘ dy/dA)^+, queries first (`attention_rollout.positive_then_mean`). Equations are those of
    Chefer et al. 2021, generic.
    """

    image: Tensor
    text: Tensor
    image_text: Tensor
    text_image: Tensor

    @staticmethod
    def start(n_image: int, n_text: int, dtype: torch.dtype = torch.float32) -> Bimodal:
        """Eq. 1-2: each token is relevant to itself only."""
        return Bimodal(
            torch.eye(n_image, dtype=dtype),
            torch.eye(n_text, dtype=dtype),
            torch.zeros(n_image, n_text, dtype=dtype),
            torch.zeros(n_text, n_image, dtype=dtype),
        )

    def attends(self, stream: Stream, fused: Tensor) -> Bimodal:
        """Self-attention, Eq. 6-7: what a token learns from its like, and with it what those know of the others."""
        own, other = self._of(stream)
        return self._with(stream, own + fused @ own, other + fused @ other)

    def crosses(self, stream: Stream, fused: Tensor) -> Bimodal:
        """Tokens of `stream` look at the other stream, fused (own, other), Eq. 10-11.

        Self-relevance is normalised first (Eq. 8-9), without which tokens seen in many layers would drown the rest.
        """
        own, other = self._of(stream)
        theirs, theirs_of_own = self._of("text" if stream == "image" else "image")
        arriving = fused @ _normalised(theirs)
        return self._with(
            stream,
            own + fused @ theirs_of_own,  # Eq. 11: the other stream's knowledge of ours comes home
            other + _normalised(own).transpose(0, 1) @ arriving,  # Eq. 10
        )

    def _of(self, stream: Stream) -> tuple[Tensor, Tensor]:
        return (self.image, self.image_text) if stream == "image" else (self.text, self.text_image)

    def _with(self, stream: Stream, own: Tensor, other: Tensor) -> Bimodal:
        if stream == "image":
            return replace(self, image=own, image_text=other)
        return replace(self, text=own, text_image=other)


def _normalised(relevance: Tensor) -> Tensor:
    """Eq. 8-9: R - I with rows that sum to 1, plus I. Rows that learnt nothing yet stay as they are."""
    eye = torch.eye(len(relevance), dtype=relevance.dtype, device=relevance.device)
    learnt = relevance - eye
    total = learnt.sum(-1, keepdim=True)
    return torch.where(total > 0, learnt / total.clamp(min=torch.finfo(relevance.dtype).tiny), 0.0) + eye
