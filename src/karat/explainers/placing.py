"""From tensors to `Attribution`s: maps laid over the whole image, scores of tokens gathered into words. No torch here.

What a tensor was of decides its place: a model may have seen only a part of the image (`Inputs.frames`), and a word may
be several tokens (`Inputs.words`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from karat.kernel.attribution import Attribution, resize_maps
from karat.kernel.typing import Map, Space
from karat.models.torch_model import Frame, TorchModel
from karat.probe.session import Session

if TYPE_CHECKING:
    from torch import Tensor

    from karat.probe.trace import Trace

WORDS = "words"  # the role of the word embeddings among a model's layers
_WHOLE: Frame = (0.0, 0.0, 1.0, 1.0)


def reads_text(model: TorchModel) -> bool:
    """Whether word scores are defined: the model reads a question and says where its words are embedded."""
    return "text" in model.capabilities and WORDS in model.layers


def attributions(
    session: Session,
    maps: Tensor,
    tokens: Tensor | None = None,
    *,
    space: Space = "patch",
    signed: bool = False,
    passes: float = 1.0,
) -> list[Attribution]:
    """One per sample, from maps (n, h, w) and, where defined, scores of the text tokens (n, T) of `Inputs.tokens`."""
    placed = _array(maps)
    scores = None if tokens is None else _array(tokens)
    frames = session.inputs.frames or (_WHOLE,) * len(placed)  # an unknown frame is taken for the whole image
    found = []
    for i, sample in enumerate(session.samples):
        spans = session.inputs.words[i] if session.inputs.words else ()
        words = np.array([scores[i, a:b].sum() for a, b in spans]) if scores is not None and spans else None
        visual = over_image(placed[i], frames[i], sample.size)
        found.append(Attribution(visual, words, space=space, signed=signed, passes=passes))
    return found


def over_image(shown: Map, frame: Frame, size: tuple[int, int]) -> Map:
    """A map of the part of an image that the model saw, as a map of the whole image: 0 where it saw nothing."""
    if frame == _WHOLE:
        return shown
    height, width = size
    top, left = round(frame[0] * height), round(frame[1] * width)
    bottom, right = max(round(frame[2] * height), top + 1), max(round(frame[3] * width), left + 1)
    whole = np.zeros(size, dtype=shown.dtype)
    whole[top:bottom, left:right] = resize_maps(shown[None], bottom - top, right - left)[0]
    return whole


def at_text(session: Session, recording: Tensor) -> Tensor | None:
    """The rows of a recording (n, L, width) that belong to `Inputs.tokens`: (n, T, width); None without text.

    Embeddings may be of the text alone (L = T) or of the whole sequence, where `Layout.text` has their places.
    """
    tokens = session.inputs.tokens
    if tokens is None:
        return None
    if recording.shape[1] == tokens.shape[1]:
        return recording
    places = session.torch_model.layout(session.inputs).text
    return None if places is None else recording[:, list(places)]


def in_sequence(session: Session, seen: Trace, layer: str) -> bool:
    """Whether a layer runs over the joint sequence of visual and text tokens, so that words have scores there."""
    name = session.torch_model.layers.get(layer, layer)
    return seen.layout is not None and seen.layout.text is not None and seen.in_joint_sequence(name)


def wide(tensor: Tensor) -> Tensor:
    """float32 or wider: products and powers of half precision overflow."""
    return tensor if tensor.element_size() >= 4 else tensor.float()


def _array(tensor: Tensor) -> npt.NDArray[Any]:
    found: npt.NDArray[Any] = wide(tensor.detach()).cpu().numpy()
    return found
