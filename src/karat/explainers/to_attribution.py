"""From tensors to `Attribution`s: maps laid over the whole image, scores of tokens gathered into words. No torch here.

What a tensor was of decides its place: a model may have seen only a part of the image (`Inputs.frames`), and a word may
be several tokens (`Inputs.words`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from karat.kernel.attribution import Attribution, Floats, resize_maps
from karat.kernel.typing import Map, Space
from karat.models.torch_model import Frame, TorchModel
from karat.probe.session import Session

if TYPE_CHECKING:
    from torch import Tensor

    from karat.probe.trace import Trace

WORDS = "words"  # the role of the word embeddings among a model's layers
WHOLE: Frame = (0.0, 0.0, 1.0, 1.0)


def attributions(
    session: Session,
    maps: Tensor,
    tokens: Tensor | None = None,
    *,
    space: Space = "patch",
    signed: bool = False,
    passes: float = 1.0,
) -> list[Attribution]:
    """Tensors of a whole batch as one `Attribution` per sample.

    Args:
        maps: (n, h, w) scores of what the model saw of each image; they are laid over the whole image.
        tokens: (n, T) scores of the text tokens of `Inputs.tokens`, added up by word; None where words have none.
        space: what a cell of the map is: "pixel" or "patch".
        signed: whether negative scores speak against the answer.
        passes: forward passes that a sample cost.
    """
    visual = as_array(maps)
    scores = None if tokens is None else as_array(tokens)
    made = []
    for i, sample in enumerate(session.samples):
        spans = session.inputs.words[i] if session.inputs.words else ()
        words, parts = (None, None) if scores is None or not spans else by_word(scores[i], spans)
        on_image = over_image(visual[i], frame_of(session, i), sample.size)
        made.append(Attribution(on_image, words, space=space, signed=signed, passes=passes, tokens=parts))
    return made


def by_word(scores: Floats, spans: Sequence[tuple[int, int]]) -> tuple[Floats, Floats]:
    """Scores (T,) of text tokens added up by word (words,), and those of the words' own tokens, one after the other.

    >>> words, tokens = by_word(np.array([9.0, 1.0, 2.0, 4.0]), [(1, 3), (3, 4)])
    >>> words.tolist(), tokens.tolist()
    ([3.0, 4.0], [1.0, 2.0, 4.0])
    """
    own = [scores[start:stop] for start, stop in spans]
    return np.array([part.sum() for part in own]), np.concatenate(own)


def frame_of(session: Session, i: int) -> Frame:
    """The part of image i that the model sees: all of it for a plain function, or where nobody knows."""
    frames = None if session.inside is None else session.inputs.frames
    return frames[i] if frames else WHOLE


def over_image(visible: Map, frame: Frame, size: tuple[int, int]) -> Map:
    """A map of the part of an image that the model saw, as a map of the whole image: 0 where it saw nothing."""
    if frame == WHOLE:
        return visible
    height, width = size
    top, left = round(frame[0] * height), round(frame[1] * width)
    bottom, right = max(round(frame[2] * height), top + 1), max(round(frame[3] * width), left + 1)
    whole = np.zeros(size, dtype=visible.dtype)
    whole[top:bottom, left:right] = resize_maps(visible[None], bottom - top, right - left)[0]
    return whole


def reads_text(model: TorchModel) -> bool:
    """Whether word scores are defined: the model reads a question and says where its words are embedded."""
    return "text" in model.capabilities and WORDS in model.layers


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


def in_sequence(session: Session, trace: Trace, layer: str) -> bool:
    """Whether a layer runs over the joint sequence of visual and text tokens, so that words have scores there."""
    name = session.torch_model.layers.get(layer, layer)
    return trace.layout is not None and trace.layout.text is not None and trace.in_joint_sequence(name)


def wide(tensor: Tensor) -> Tensor:
    """float32 or wider: products and powers of half precision overflow."""
    return tensor if tensor.element_size() >= 4 else tensor.float()


def as_array(tensor: Tensor) -> npt.NDArray[Any]:
    """A tensor as an array of float32 or wider."""
    array: npt.NDArray[Any] = wide(tensor.detach()).cpu().numpy()
    return array
