"""Layer-wise relevance propagation for transformers: the answer's score passed back through the network by modified
backward rules (`relevance_rules`). One forward and backward of its own.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, ClassVar

from annotated_types import Ge

from karat.explainers.to_attribution import WORDS, at_text, attributions, in_sequence, reads_text, wide
from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.constraints import checked
from karat.kernel.errors import BadInput
from karat.models.torch_model import HasVisionTower
from karat.probe.request import PIXELS
from karat.probe.session import Session

if TYPE_CHECKING:
    from torch import Tensor

    from karat.explainers.relevance_backward import Tally

Gammas = tuple[Annotated[float, Ge(0)], Annotated[float, Ge(0)]]
_card = partial(
    Card,
    kind="explainer",
    needs=frozenset({"gradients"}),
    gives=frozenset({"visual", "words"}),
    passes="1",
    extra="vision",
)


@dataclass(frozen=True)
@checked
class Relevance:
    """What both rules share; they differ in whether attention weights are held fixed."""

    layer: str = PIXELS
    gammas: Gammas | None = None
    passes: ClassVar[int] = 1
    card: ClassVar[Card]
    hold_attention: ClassVar[bool]

    def __call__(self, session: Session) -> list[Attribution]:
        from karat.explainers.relevance_rules import Propagation
        from karat.probe import trace
        from karat.probe.recording import record_spans
        from karat.probe.request import Request

        model, layer = session.torch_model, self.layer
        layers = (layer, WORDS) if reads_text(model) else (layer,)
        vision = model.vision if isinstance(model, HasVisionTower) else None
        at_once = session.one_forward()
        rows = 1 if at_once else len(session.samples)
        rules = Propagation(model.module, rows, self.hold_attention, self.gammas, vision)
        with ExitStack() as stack:
            stack.enter_context(rules)
            if at_once:
                request = Request.of(model.layers, layers, ("activations", "gradients"), ())
                recorded = record_spans(model, session.inputs, session.targets, request, rules.tally.turn)
                stack.callback(recorded.close)
            else:
                recorded = stack.enter_context(trace(model, session.inputs, session.targets, layers=layers))
            session.cost.traces += 1
            session.cost.backwards += recorded.backwards
            inner = {at: wide(recorded.activations[at]) * wide(recorded.gradients[at]) for at in layers}
            _check_finite(self.card.name, rules.tally, [recorded.scores, *inner.values()])
            maps = (wide(recorded.spatial(layer)) * wide(recorded.spatial(layer, "gradients"))).sum(1)
            joint = layer != PIXELS and in_sequence(session, recorded, layer)
            text = at_text(session, inner[layer if joint else WORDS]) if WORDS in layers else None
            # On a layer over the joint sequence words are read there, and their embeddings would count twice.
            total = _per_sample([inner[at] for at in ((layer,) if joint else layers)])
            scores, lost = recorded.scores.double().cpu(), rules.tally.by_row
        tokens = None if text is None else text.sum(-1)
        made = attributions(session, maps, tokens, space="pixel" if layer == PIXELS else "patch", signed=True)
        return [
            replace(one, notes={"score": y, "relevance": r, "leak": leak, "absorbed": y - r - leak})
            for one, y, r, leak in zip(made, scores.tolist(), total.tolist(), lost.tolist(), strict=True)
        ]


class AttnLrp(Relevance):
    """Relevance of the answer's raw score at the input: x · g, g the gradient under the rules of `relevance_rules`.

    `layer` is where the image is read: "pixels", or a layer of the vision tower ("vision.last"). `gammas` is the gamma
    rule for (convolutions, linear maps) of the vision tower; (0.25, 0.05) is within the published grid. fsyn2026 has
    none. `notes` of the attribution hold, in units of the score: score = relevance + leak + absorbed. The leak is what
    softmaxes lose under this rule; biases, positions and class tokens absorb the rest.
    """

    hold_attention: ClassVar[bool] = False
    card: ClassVar[Card] = _card(
        "relevance/attnlrp",
        "relevance of the answer passed back through the network, attention included",
        citation="Achtibat et al. 2024, AttnLRP; fsyn2026 A.2",
        departures="an input below 1e-10 to an activation gets no relevance, where the code adds 1e-10 to the divisor",
    )


class CpLrp(Relevance):
    """As attnlrp, but attention weights are held fixed: queries and keys get nothing, and nothing is lost.

    Without biases the relevance of pixels and words adds up to the score. `layer` and `gammas` as for attnlrp.
    """

    hold_attention: ClassVar[bool] = True
    card: ClassVar[Card] = _card(
        "relevance/cplrp",
        "relevance passed back with attention weights held fixed: none of it is lost",
        citation="Ali et al. 2022, XAI for transformers: better explanations through conservative propagation",
        departures="norms and activations as in attnlrp",
    )


def _per_sample(relevance: list[Tensor]) -> Tensor:
    import torch

    return torch.stack([part.double().cpu().flatten(1).sum(1) for part in relevance]).sum(0)


def _check_finite(name: str, tally: Tally, tensors: list[Tensor]) -> None:
    if all(bool(tensor.isfinite().all()) for tensor in tensors):
        return
    what, where = ("attention", tally.bad_values) if tally.bad_values else ("relevance", tally.bad_relevance)
    place = f"the {what} of {where}" if where else "the relevance before the first attention layer"
    raise BadInput(
        f"{name}: {place} is NaN or infinite. Check the weights and the input of that layer; in half precision, load "
        "the model in float32."
    )
