"""pytorch-grad-cam on the models of `architectures`: its maps, and ours after its own normalisation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import architectures
import cv2
import numpy as np
import numpy.typing as npt
from architectures import SIDE
from pytorch_grad_cam.utils.model_targets import ClassifierOutputTarget
from pytorch_grad_cam.utils.reshape_transforms import swinT_reshape_transform, vit_reshape_transform

from karat.kernel.attribution import Attribution

KEYS = ("resnet", "vit", "swin")
Maps = npt.NDArray[np.floating[Any]]


def normalised(attributions: Sequence[Attribution]) -> Maps:
    """Scaled to [0, 1], resized to the input, scaled again: what the peer does to its maps."""

    def scale(one: Maps) -> Maps:
        one = one - one.min()
        return one / (one.max() + 1e-7)

    maps = [each.visual for each in attributions if each.visual is not None]
    return np.stack([scale(cv2.resize(scale(one.astype(np.float32)), (SIDE, SIDE))) for one in maps])


def theirs(
    key: str, kind: Any, call: dict[str, Any] | None = None, layer_name: str = "vision.last", n: int = 3, **options: Any
) -> Maps:
    """Maps (n, SIDE, SIDE) of a class of pytorch-grad-cam; `options` go to its constructor, `call` to its call.

    It writes gradients into parameters; they are taken out again, since tests share the models.
    """
    model, session = architectures.model(key), architectures.session(key, n)
    layer = model.module.get_submodule(model.layers.get(layer_name, layer_name))
    classes = [ClassifierOutputTarget("abcde".index(t) if key == "resnet" else int(t)) for t in session.targets]
    try:
        with kind(model.module, [layer], reshape_transform=_reshape(key), **options) as method:
            smooth = {"aug_smooth": False, "eigen_smooth": False, **(call or {})}
            return np.asarray(method(session.inputs.pixels, classes, **smooth))
    finally:
        model.module.zero_grad(set_to_none=True)


def _reshape(key: str) -> Any:
    if key == "resnet":
        return None
    if key == "vit":
        return lambda tokens: vit_reshape_transform(tokens, SIDE // 16, SIDE // 16)
    return lambda tokens: swinT_reshape_transform(tokens, SIDE // 32, SIDE // 32)
