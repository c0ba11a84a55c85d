"""TAM: how strongly each visual token says the answer's token, minus what earlier tokens would make it say anyway."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from karat.explainers.placing import over_image, wide
from karat.explainers.vlm.llava_cam import BOTH
from karat.explainers.vlm.rank_filter import rank_gaussian
from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.errors import BadInput, CapabilityMissing
from karat.models.torch_model import AnswersByToken, TorchModel
from karat.probe.request import Request
from karat.probe.session import Session

if TYPE_CHECKING:
    from torch import Tensor

Floats = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Tam:
    """Activation of token c at a position: ReLU(logit of c there). The map of the target's token `token`, counted from
    the start of its span, is that at the visual tokens; its text scores those at the question and at all that was said
    before.

    Estimated causal inference: earlier tokens have maps of their own; their mean, weighted by the answer's text scores,
    is fitted to the map by least squares and taken away. Then image and text are brought to [0, 1] together, and the
    image passes the rank Gaussian filter. variant="released" is the public code: for an answer's first token it gives
    the map of the question's first token instead, and it rounds to 256 levels.
    """

    token: int = 0
    variant: Literal["paper", "released"] = "paper"
    passes: ClassVar[int] = 1
    card: ClassVar[Card] = Card(
        "vlm/tam",
        "where the image by itself says the answer's token, freed from what earlier words say",
        "explainer",
        needs=frozenset({"activations", "autoregressive", "text"}),
        gives=BOTH,
        citation="Li et al. 2025, Token activation map",
        departures="earlier tokens are those of the question and the answer, template left out; flat windows stay",
        passes="1",
        extra="vlm",
    )

    def traces(self, model: TorchModel) -> Request:
        states = _speaker(model, self.card.name).states
        return Request.of(model.layers, (states,), ("activations",), ())

    def __call__(self, session: Session) -> list[Attribution]:
        model = session.torch_model
        speaker = _speaker(model, self.card.name)
        seen = session.trace((speaker.states,), want=("activations",))
        head: Any = model.module.get_submodule(speaker.head)
        states = seen.activations[speaker.states]
        return [self._explain(session, i, speaker, states[i], head) for i in range(len(session.samples))]

    def _explain(self, session: Session, i: int, speaker: AnswersByToken, states: Tensor, head: Any) -> Attribution:
        layout, inputs = session.torch_model.layout(session.inputs), session.inputs
        assert layout.visual is not None
        assert layout.grid is not None
        assert layout.text is not None
        assert layout.readout is not None
        assert inputs.tokens is not None
        assert inputs.token_keep is not None
        tokens = speaker.target_tokens(session.targets[i])
        if not 0 <= self.token < len(tokens.explained):
            raise BadInput(
                f"{self.card.name}: the target {str(session.targets[i])!r} has {len(tokens.explained)} tokens; got "
                f"token={self.token}."
            )
        turn = tokens.first + self.token  # how many tokens of the answer come before
        question = [int(number) for number in inputs.tokens[i][inputs.token_keep[i]]]
        places = [*layout.text[: len(question)], *range(layout.readout + 1, layout.readout + 1 + turn)]
        earlier, target = [*question, *tokens.numbers[:turn]], tokens.numbers[turn]
        if self.variant == "released" and turn == 0:
            places, earlier, target = [], [], question[0]
        # (visual + earlier text, earlier tokens + target): what each position says
        numbers = [*earlier, target]
        says = _activations(states, [*layout.visual, *places], numbers, head)
        if not np.isfinite(says).all():
            raise BadInput(f"{self.card.name}: the output of {speaker.states} is NaN or infinite.")
        n = len(layout.visual)
        visual = without_earlier(says[:n, -1], says[n:, -1], says[:n, :-1], [number != target for number in earlier])
        both = spread(np.concatenate([visual, says[n:, -1]]))
        shown, text = rank_gaussian(both[:n].reshape(layout.grid)), both[n:]
        if self.variant == "released":
            shown = np.floor(shown * 255)
            text = np.floor(text * 255)
        frames = inputs.frames or ((0.0, 0.0, 1.0, 1.0),) * len(session.samples)
        words = np.array([text[a:b].sum() for a, b in inputs.words[i]]) if len(text) else None
        found = Attribution(over_image(shown, frames[i], session.samples[i].size), words, space="patch", passes=1.0)
        return replace(found, notes={"token": float(target)})


def without_earlier(visual: Floats, text: Floats, maps: Floats, distinct: list[bool]) -> Floats:
    """Estimated causal inference: ReLU(A - s I).

    `visual` (v,) is A; `text` (t,) the answer's activations at earlier tokens; `maps` (v, t) the maps of those tokens.
    I = Σ w_i A_i over tokens that are not the answer's own (`distinct`), w the text activations, normalised; s is the
    scalar least-squares fit of I to A.
    """
    weights = text * np.array(distinct, dtype=text.dtype)
    if weights.sum() <= 0:
        return visual
    interference = maps @ (weights / weights.sum())
    size = interference @ interference
    if size == 0:
        return visual
    return np.maximum(visual - (visual @ interference) / size * interference, 0)


def spread(values: Floats) -> Floats:
    """To [0, 1], all together."""
    low, high = values.min(), values.max()
    return (values - low) / (high - low) if high > low else np.zeros_like(values)


def _activations(states: Tensor, positions: list[int], tokens: list[int], head: Any) -> Floats:
    """ReLU of the logits (positions, tokens): only the rows of the head that are asked for are multiplied."""
    import torch

    with torch.no_grad():
        weight = wide(head.weight[tokens])
        logits = wide(states[positions]) @ weight.T
        if getattr(head, "bias", None) is not None:
            logits = logits + wide(head.bias[tokens])
        return np.asarray(logits.clamp(min=0).cpu().double().numpy())


def _speaker(model: TorchModel, name: str) -> AnswersByToken:
    if not isinstance(model, AnswersByToken):
        raise CapabilityMissing(name, ["autoregressive"], model.name, model.capabilities)
    return model
