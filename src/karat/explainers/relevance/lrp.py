"""Layer-wise relevance propagation for transformers: AttnLRP and CP-LRP. One forward and backward of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from karat.explainers.placing import WORDS, at_text, attributions, in_sequence, reads_text, wide
from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.errors import BadInput
from karat.probe.request import PIXELS
from karat.probe.session import Session

if TYPE_CHECKING:
    from torch import Tensor

    from karat.explainers.relevance.backward import Tally

_NEEDS, _BOTH = frozenset({"gradients"}), frozenset({"visual", "words"})
Gammas = tuple[float, float]


@dataclass(frozen=True)
class AttnLrp:
    """Relevance of the answer's raw score at the input: x · g, g the gradient under the rules of `relevance.rules`.

    `layer` is where the image is read: "pixels", or a layer of the vision tower ("vision.last"). `gammas` is the gamma
    rule for (convolutions, linear maps) of the vision tower; (0.25, 0.05) is within the published grid. fsyn2026 has
    none. `notes` of the attribution hold, in units of the score: score = relevance + leak + absorbed. The leak is what
    softmaxes lose under this rule; biases, positions and class tokens absorb the rest.
    """

    layer: str = PIXELS
    gammas: Gammas | None = None
    passes: ClassVar[int] = 1
    card: ClassVar[Card] = Card(
        "relevance/attnlrp",
        "relevance of the answer passed back through the network, attention included",
        "explainer",
        needs=_NEEDS,
        gives=_BOTH,
        citation="Achtibat et al. 2024, AttnLRP; fsyn2026 A.2",
        departures="an input below 1e-10 to an activation gets no relevance, where the code adds 1e-10 to the divisor",
        passes="1",
        extra="vision",
    )

    def __call__(self, session: Session) -> list[Attribution]:
        return _relevance(session, self.card.name, self.layer, self.gammas, hold_attention=False)


@dataclass(frozen=True)
class CpLrp:
    """As attnlrp, but attention weights are held fixed: queries and keys get nothing, and nothing is lost.

    Without biases the relevance of pixels and words adds up to the score. `layer` and `gammas` as for attnlrp.
    """

    layer: str = PIXELS
    gammas: Gammas | None = None
    passes: ClassVar[int] = 1
    card: ClassVar[Card] = Card(
        "relevance/cplrp",
        "relevance passed back with attention weights held fixed: none of it is lost",
        "explainer",
        needs=_NEEDS,
        gives=_BOTH,
        citation="Ali et al. 2022, XAI for transformers: better explanations through conservative propagation",
        departures="norms and activations as in attnlrp",
        passes="1",
        extra="vision",
    )

    def __call__(self, session: Session) -> list[Attribution]:
        return _relevance(session, self.card.name, self.layer, self.gammas, hold_attention=True)


def _relevance(
    session: Session, name: str, layer: str, gammas: Gammas | None, hold_attention: bool
) -> list[Attribution]:
    from karat.explainers.relevance.rules import Propagation
    from karat.probe import trace

    if gammas is not None and min(gammas) < 0:
        raise BadInput(f"{name}: gammas are 0 or more, for convolutions and for linear maps; got {gammas}.")
    model = session.torch_model
    layers = (layer, WORDS) if reads_text(model) else (layer,)
    vision = getattr(model, "vision", None)
    rules = Propagation(model.module, len(session.samples), hold_attention, gammas, vision)
    with rules, trace(model, session.inputs, session.targets, layers=layers) as seen:
        session.cost.traces += 1
        session.cost.backwards += seen.backwards
        inner = {at: wide(seen.activations[at]) * wide(seen.gradients[at]) for at in layers}
        _check_finite(name, rules.tally, [seen.scores, *inner.values()])
        maps = (wide(seen.spatial(layer)) * wide(seen.spatial(layer, "gradients"))).sum(1)
        joint = layer != PIXELS and in_sequence(session, seen, layer)
        text = at_text(session, inner[layer if joint else WORDS]) if WORDS in layers else None
        # On a layer over the joint sequence words are read there, and their embeddings would count twice.
        total = _per_sample([inner[at] for at in ((layer,) if joint else layers)])
        scores, lost = seen.scores.double().cpu(), rules.tally.lost
    found = attributions(
        session,
        maps,
        None if text is None else text.sum(-1),
        space="pixel" if layer == PIXELS else "patch",
        signed=True,
    )
    return [
        replace(one, notes={"score": y, "relevance": r, "leak": leak, "absorbed": y - r - leak})
        for one, y, r, leak in zip(found, scores.tolist(), total.tolist(), lost.tolist(), strict=True)
    ]


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
