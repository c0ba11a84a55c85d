"""What the single-pass CAMs share: one trace, weights from it, the weighted sum at visual tokens and at words."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from karat.explainers.placing import at_text, attributions, in_sequence, wide
from karat.kernel.attribution import Attribution
from karat.kernel.errors import BadInput
from karat.models.torch_model import TorchModel
from karat.probe.request import Request
from karat.probe.session import Session

if TYPE_CHECKING:
    from torch import Tensor

    from karat.probe.trace import Trace

Weigh = Callable[["Tensor", "Tensor"], "Tensor"]  # (A, G) -> weights that broadcast over A (n, c, h, w)


def layer_request(model: TorchModel, layer: str, gradients: bool = True) -> Request:
    want = ("activations", "gradients") if gradients else ("activations",)
    return Request.of(model.layers, (named(model, layer),), want, ())


def named(model: TorchModel, layer: str) -> str:
    """The layer as it was asked for; an error for a role that the model does not have."""
    if layer == "vision.last" and layer not in model.layers:
        roles = ", ".join(model.layers) or "none"
        raise BadInput(f"{model.name!r} does not say which layer is its last with a map (roles: {roles}); name one.")
    return layer


def weighted_cam(session: Session, layer: str, weigh: Weigh, eigen_smooth: bool, aug_smooth: bool) -> list[Attribution]:
    """ReLU(Σ_c w_c A_c), or its first component with `eigen_smooth`, averaged over views with `aug_smooth`."""
    layer = named(session.torch_model, layer)

    def draw(seen: Trace) -> Tensor:
        activations, gradients = wide(seen.spatial(layer)), wide(seen.spatial(layer, "gradients"))
        return together(weigh(activations, gradients) * activations, eigen_smooth)

    seen = session.trace((layer,))
    if aug_smooth:
        from karat.explainers.cam.augmentation import VIEWS, over_views

        return attributions(session, over_views(session, layer, seen, draw), space="pixel", passes=VIEWS)
    return attributions(session, draw(seen), None if eigen_smooth else _at_words(session, seen, layer, weigh))


def together(weighted: Tensor, eigen_smooth: bool) -> Tensor:
    """(n, c, h, w) to (n, h, w), negative parts dropped."""
    if not eigen_smooth:
        return weighted.sum(1).clamp(min=0)
    from karat.explainers.cam.projection import first_component

    return first_component(weighted).clamp(min=0)


def _at_words(session: Session, seen: Trace, layer: str, weigh: Weigh) -> Tensor | None:
    """(n, T) the same sum at the text tokens, where the layer has any. Weights per channel are those of the image."""
    if not in_sequence(session, seen, layer):
        return None
    states, slopes = at_text(session, seen.activations[layer]), at_text(session, seen.gradients[layer])
    if states is None or slopes is None:
        return None
    states, slopes = wide(states).transpose(1, 2), wide(slopes).transpose(1, 2)  # (n, c, T)
    weights = weigh(wide(seen.spatial(layer)), wide(seen.spatial(layer, "gradients")))
    if weights.shape[2:] == (1, 1):
        return (weights[..., 0] * states).sum(1).clamp(min=0)
    return (weigh(states[..., None], slopes[..., None])[..., 0] * states).sum(1).clamp(min=0)
