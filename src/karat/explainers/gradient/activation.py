"""Gradient times activation at inner layers: of one layer, and creg2026's contrast of the answer with a foil."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, ClassVar

from annotated_types import Le, MinLen

from karat.explainers.to_attribution import at_text, attributions, in_sequence, wide
from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.constraints import checked
from karat.kernel.errors import BadInput
from karat.kernel.target import TargetLike, instead
from karat.models.torch_model import ListsAnswers, ListsLabels, ScoresAnswers, TorchModel
from karat.probe.request import Request
from karat.probe.session import Session

if TYPE_CHECKING:
    from torch import Tensor

_ATTENTION = re.compile(r"att(entio)?n", re.IGNORECASE)
_NEEDS = frozenset({"gradients", "activations"})
_card = partial(Card, kind="explainer", needs=_NEEDS, gives=frozenset({"visual", "words"}), extra="vision")


@dataclass(frozen=True)
@checked
class GradXAct:
    """Σ_d g_d · h_d at every token or cell of one layer. `layer` is a role ("vision.last") or a dotted name."""

    layer: str = "vision.last"
    passes: ClassVar[int] = 1
    card: ClassVar[Card] = _card(
        "gradient/grad_x_act",
        "gradient times activation at one layer",
        citation="creg2026 Eq. 7, one layer",
        departures="sign kept; the paper takes the absolute value",
        passes="1",
    )

    def traces(self, model: TorchModel) -> Request:
        return Request.of(model.layers, (self.layer,), ("activations", "gradients"), ())

    def __call__(self, session: Session) -> list[Attribution]:
        trace = session.trace((self.layer,))
        maps = wide(trace.spatial(self.layer)) * wide(trace.spatial(self.layer, "gradients"))
        tokens = None
        if in_sequence(session, trace, self.layer):
            tokens = at_text(session, wide(trace.activations[self.layer]) * wide(trace.gradients[self.layer]))
        return attributions(session, maps.sum(1), None if tokens is None else tokens.sum(-1), signed=True)


@dataclass(frozen=True)
@checked
class ContrastiveGradXAct:
    """|Σ_d g_d · h_d| of the difference between the answer's score and that of its foil, over several layers.

    The foil is the strongest other answer (creg2026 calls it the rival).

    Args:
        layers: hidden states counted from the end, as in transformers: -1 is the model's output, so -2 is the state
            after the last block but one. Those that a shallow model does not have are left out.
        candidates: the answers among which the foil is found; by default all that the model can give, where it has a
            list of them, else the choices of the sample.
    """

    layers: Annotated[tuple[Annotated[int, Le(-2)], ...], MinLen(1)] = (-2, -3, -4, -5)
    candidates: tuple[str, ...] = ()
    card: ClassVar[Card] = _card(
        "gradient/contrastive_grad_x_act",
        "what speaks for the answer and against its strongest rival, over several layers",
        needs=_NEEDS | {"attention"},
        citation="creg2026 Eq. 7-9",
        departures="the layer weights of Eq. 8 come from visual tokens and serve words too: the paper has no words",
        passes="2 + candidates",
        version=2,
    )

    def __post_init__(self) -> None:
        if len(self.candidates) == 1:
            raise BadInput(f"{self.card.name}: candidates are two or more, or none; got {self.candidates}.")

    @property
    def passes(self) -> int:
        """Two traces, and the scores of the candidates: in one pass where the model tables all its answers."""
        return 2 + (len(self.candidates) or 1)

    def traces(self, model: TorchModel) -> Request:
        return Request.of(model.layers, self._names(model), ("activations", "gradients"), ())

    def __call__(self, session: Session) -> list[Attribution]:
        names = self._names(session.torch_model)
        # The prompt's hidden states do not depend on the answer, so ∇(z_tgt - z_neg) is a difference of two gradients.
        others, passes = foils(session, self.candidates)
        of_foil = session.trace(names, targets=others)
        trace = session.trace(names)
        maps, tokens = [], []
        for name in names:
            slope = wide(trace.spatial(name, "gradients")) - wide(of_foil.spatial(name, "gradients"))
            maps.append((slope * wide(trace.spatial(name))).sum(1).abs())  # creg2026 Eq. 7
            state = at_text(session, trace.activations[name])
            plus, minus = at_text(session, trace.gradients[name]), at_text(session, of_foil.gradients[name])
            if state is not None and plus is not None and minus is not None:
                tokens.append(((wide(plus) - wide(minus)) * wide(state)).sum(-1).abs())
        return attributions(session, *_weighted(maps, tokens), passes=2 + passes)

    def _names(self, model: TorchModel) -> list[str]:
        blocks = block_names(model)
        names = [blocks[k] for k in self.layers if -len(blocks) <= k]
        if not names:
            raise BadInput(
                f"{self.card.name}: of the hidden states {self.layers}, {model.name!r} has none; it has {len(blocks)} "
                f"blocks, so give layers from -2 to -{len(blocks)}."
            )
        return names


def block_names(model: TorchModel) -> list[str]:
    """The blocks around the attention layers, first to last: their outputs are the hidden states."""
    names = []
    for layer in model.attention_layers:
        parts = layer.split(".")
        while parts and _ATTENTION.search(parts[-1]):
            parts.pop()
        names.append(".".join(parts) or layer)
    return names


def _weighted(maps: Sequence[Tensor], tokens: Sequence[Tensor]) -> tuple[Tensor, Tensor | None]:
    """creg2026 Eq. 8: softmax over layers of the largest relevance of each."""
    import torch

    if len({tuple(each.shape) for each in maps}) > 1:
        sizes = ", ".join(f"{each.shape[1]}×{each.shape[2]}" for each in maps)
        raise BadInput(f"layers with grids of different sizes ({sizes}) cannot be added; name some of one size.")
    stacked = torch.stack(list(maps), 1)  # (n, layers, h, w)
    weights = stacked.amax((2, 3)).softmax(1)
    words = (torch.stack(list(tokens), 1) * weights[..., None]).sum(1) if tokens else None
    return (stacked * weights[..., None, None]).sum(1), words


# ---- foils


def foils(session: Session, candidates: Sequence[str]) -> tuple[list[TargetLike], int]:
    """creg2026 Eq. 9: the highest-scoring candidate; where that is the target itself, the next one. A candidate stands
    in the target's place, in its context.

    And how many passes a sample it took to find out.
    """
    import torch

    from karat.probe.hooks import evaluating

    with torch.no_grad(), evaluating(session.torch_model.module):
        names, scores, passes = _candidate_scores(session, candidates)
    if len(names) < 2:
        raise BadInput(f"a contrast needs two candidates or more; got {', '.join(names) or 'none'}.")
    chosen: list[TargetLike] = []
    for target, row in zip(session.targets, scores, strict=True):
        order = [names[k] for k in row.argsort(descending=True, stable=True)[:2].tolist()]
        chosen.append(instead(target, order[1] if order[0] == str(target) else order[0]))
    return chosen, passes


def _candidate_scores(session: Session, candidates: Sequence[str]) -> tuple[list[str], Tensor, int]:
    """Candidates, their raw scores (n, candidates), and passes a sample. What is no choice of a sample scores -inf."""
    import torch

    model, inputs = session.torch_model, session.inputs
    answers = list(model.answers) if isinstance(model, ListsAnswers) else []
    if not candidates and isinstance(model, ScoresAnswers):
        table = model.logits(inputs)
        labels = list(model.labels or ()) if isinstance(model, ListsLabels) else []
        return answers or labels or [str(k) for k in range(table.shape[1])], table, 1
    names = list(candidates) or answers
    choices = [sample.choices for sample in session.samples]
    if not names and min(map(len, choices)) < 2:
        raise BadInput(
            f"{model.name!r} has no list of answers, and not all of its samples have two choices or more: name "
            "candidates, e.g. ('left', 'right')."
        )
    among = names or list(dict.fromkeys(choice for each in choices for choice in each))
    columns = [model.readout(inputs, [instead(target, name) for target in session.targets]) for name in among]
    table = torch.stack(columns, 1)
    if not names:
        allowed = torch.tensor([[name in each for name in among] for each in choices], device=table.device)
        table = table.masked_fill(~allowed, -torch.inf)
    return among, table, len(among)
