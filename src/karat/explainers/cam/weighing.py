"""The single-pass CAMs as functions of activations A and gradients G, both (n, c, h, w). Nothing is normalised here."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def gradcam(activations: Tensor, gradients: Tensor) -> Tensor:
    """(n, c, 1, 1) mean gradient of a channel: Selvaraju et al. 2017, Eq. 1."""
    return gradients.mean((2, 3), keepdim=True)


def positive_gradcam(activations: Tensor, gradients: Tensor) -> Tensor:
    """(n, c, 1, 1) mean of the positive gradients of a channel, as LLaVA-CAM has it."""
    return gradients.clamp(min=0).mean((2, 3), keepdim=True)


def gradcam_pp(activations: Tensor, gradients: Tensor) -> Tensor:
    """(n, c, 1, 1), Chattopadhay et al. 2018, Eq. 19: higher derivatives of exp(y) are powers of the first."""
    squared = gradients**2
    below = 2 * squared + activations.sum((2, 3), keepdim=True) * squared * gradients
    return (gradients.clamp(min=0) * squared / (below + 1e-6)).sum((2, 3), keepdim=True)


def xgradcam(activations: Tensor, gradients: Tensor) -> Tensor:
    """(n, c, 1, 1), Fu et al. 2020, Eq. 8: gradients weighted by the share of activation at each place."""
    return (gradients * activations).sum((2, 3), keepdim=True) / (activations.sum((2, 3), keepdim=True) + 1e-7)


def layercam(activations: Tensor, gradients: Tensor) -> Tensor:
    """(n, c, h, w), Jiang et al. 2021, Eq. 6: every place has its own weight."""
    return gradients.clamp(min=0)
