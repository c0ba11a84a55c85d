"""Where attention is read: the rows that speak for the answer, the tokens that are there, and the way back to maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from karat.explainers.placing import attributions
from karat.kernel.attribution import Attribution
from karat.kernel.errors import BadInput
from karat.models.targets import explained_positions
from karat.models.torch_model import AnswersByToken, Layout, TorchModel
from karat.probe.request import Request
from karat.probe.session import Session

if TYPE_CHECKING:
    from torch import Tensor

    from karat.probe.heads import Heads


def heads_request(model: TorchModel, gradients: bool) -> Request:
    want = ("heads", "head_gradients") if gradients else ("heads",)
    return Request.of(model.layers, (), want, model.attention_layers)


def look(session: Session, name: str, gradients: bool) -> dict[str, Heads]:
    """The heads of every attention layer over the sequence, first to last. One trace, shared."""
    sequence(session, name)
    want = ("heads", "head_gradients") if gradients else ("heads",)
    seen = session.trace(want=want)
    return {layer: seen.heads[layer] for layer in session.torch_model.attention_layers}


def sequence(session: Session, name: str) -> tuple[Layout, tuple[int, ...]]:
    """The layout and the visual positions; an error where attention does not run over one sequence of patches."""
    layout = session.torch_model.layout(session.inputs)
    if layout.visual is None or layout.grid is None:
        raise BadInput(
            f"{name} follows attention over one sequence of tokens from first to last layer; {session.model.name!r} "
            "has none (its attention is windowed or pooled). Use a CAM, which needs no such sequence."
        )
    return layout, layout.visual


def speakers(session: Session, name: str, layer: Heads) -> Tensor:
    """(n, L) how much each row speaks for the answer; sums to 1.

    The class or readout token; the mean over the patches where the model averages them; the positions that predict the
    tokens of the target's span, each of which has seen what was said up to there (fsyn2026 A.2).
    """
    import torch

    layout, visual = sequence(session, name)
    row = torch.zeros(len(session.samples), layer.queries, device=layer.value.device, dtype=layer.dtype)
    if layout.readout is None:
        row[:, list(visual)] = 1 / len(visual)
        return row
    for i, positions in enumerate(explained_positions(session.model, layout, session.targets)):
        row[i, list(positions)] = 1 / len(positions)
    return row


def present(session: Session, length: int) -> Tensor:
    """(n, length) False at padding, of the question and of answers that are shorter than the longest."""
    import torch

    layout, inputs = session.torch_model.layout(session.inputs), session.inputs
    there = torch.ones(len(session.samples), length, dtype=torch.bool, device=inputs.pixels.device)
    if layout.text is not None and inputs.token_keep is not None:
        there[:, list(layout.text)] = inputs.token_keep
    if layout.readout is not None and isinstance(session.model, AnswersByToken):
        for i, positions in enumerate(explained_positions(session.model, layout, session.targets)):
            there[i, positions.stop :] = False
    return there


def placed(session: Session, name: str, row: Tensor, signed: bool = False) -> list[Attribution]:
    """Scores of the whole sequence (n, length) as maps over the image and scores of words."""
    layout, visual = sequence(session, name)
    assert layout.grid is not None
    maps = row[:, list(visual)].reshape(len(row), *layout.grid)
    text = row[:, list(layout.text)] if layout.text is not None else None
    return attributions(session, maps, text, signed=signed)


def check_finite(name: str, row: Tensor, heads: dict[str, Heads]) -> None:
    """An error that names the layer where a value stopped being a number. Looks for it only if there is one."""
    import torch

    if bool(torch.isfinite(row).all()):
        return
    layer, what = _first_bad(heads) or (next(reversed(heads)), "product of attention and gradient")
    kind = str(heads[layer].value.dtype).removeprefix("torch.")
    raise BadInput(
        f"{name}: the {what} of {layer} is NaN or infinite ({kind}). Check the weights and the input of that layer"
        + (", or load the model in bfloat16 or float32." if kind == "float16" else ".")
    )


def _first_bad(heads: dict[str, Heads]) -> tuple[str, str] | None:
    """Values go bad forwards, gradients backwards: the first in its own direction is the culprit."""
    for layer, part in heads.items():
        if _bad([part.value, part.query, part.key, part.given]):
            return layer, "attention"
    for layer, part in reversed(heads.items()):
        if _bad([part.output_gradient]):
            return layer, "gradient"
    return None


def _bad(tensors: Sequence[Tensor | None]) -> bool:
    return any(not bool(tensor.isfinite().all()) for tensor in tensors if tensor is not None)
