"""Explainers made for vision-language models that answer token by token: LLaVA-CAM and TAM."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
from annotated_types import Ge

from karat.explainers.to_attribution import at_text, attributions, by_word, frame_of, over_image, wide
from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.constraints import checked
from karat.kernel.errors import BadInput, CapabilityMissing
from karat.kernel.sample import Sample
from karat.kernel.typing import Map
from karat.models.torch_model import AnswersByToken, TorchModel
from karat.probe.request import Request
from karat.probe.session import Session

if TYPE_CHECKING:
    from torch import Tensor

    from karat.probe.trace import Trace

Floats = npt.NDArray[np.floating[Any]]
Variant = Literal["paper", "released"]
_BEFORE_MLP = ("post_attention_layernorm", "ffn_norm", "ln_2", "norm2")  # Llama and Qwen2, InternLM2, others
_RELEASED_SIDE = 16
_card = partial(Card, kind="explainer", gives=frozenset({"visual", "words"}), extra="vlm")


@dataclass(frozen=True)
@checked
class LlavaCam:
    """ReLU(mean_c h_c w_c) / max, w_c the mean over visual tokens of ReLU(gradient); mean over `copies` noisy images.

    h is the norm after the attention of decoder layer `layer` (fsyn2026 A.2: 7; the released code has 13 for LLaVA, 26
    and 32 for others). A decoder with too few layers is read at its last but one, the last whose visual tokens still
    matter. `noise` is the standard deviation as a share of the 255 levels; `copies=0` is the clean image alone, the
    GradCAM of fsyn2026. `batch_size`: copies in memory at once. variant="released" reads the last 256 visual tokens as
    16 × 16, whatever the grid.
    """

    layer: Annotated[int, Ge(0)] = 7
    copies: Annotated[int, Ge(0)] = 50
    noise: Annotated[float, Ge(0)] = 0.1
    batch_size: Annotated[int, Ge(1)] = 16
    variant: Variant = "paper"
    card: ClassVar[Card] = _card(
        "vlm/llava_cam",
        "a CAM of an early decoder layer, averaged over noisy copies of the image",
        needs=frozenset({"gradients", "activations", "autoregressive", "text"}),
        citation="Zhang et al. 2025, LLaVA-CAM; fsyn2026 A.2",
        departures="words are not in the paper: mean_c h_c w_c with the weights and the scale of the image, signed",
        version=2,
        passes="copies",
    )

    @property
    def passes(self) -> int:
        return max(self.copies, 1)

    def __call__(self, session: Session) -> list[Attribution]:
        model = session.torch_model
        layer = self._name(model)
        if self.copies == 0:
            return attributions(session, *self._cam(session, session.trace((layer,)), layer), passes=self.passes)
        return [self._smoothed(session, i, layer) for i in range(len(session.samples))]

    def _smoothed(self, session: Session, i: int, layer: str) -> Attribution:
        """One sample: its noisy copies fill batches. Memory is that of one batch, however many copies."""
        from karat.probe import trace

        model, alone, maps, texts = session.torch_model, session.only(i), [], []
        for batch in self._noisy(session.samples[i], session.rng(i, self.card.name)):
            targets = [session.targets[i]] * len(batch)
            with trace(model, model.encode(batch), targets, layers=(layer,)) as recorded:
                session.cost.traces += 1
                session.cost.backwards += recorded.backwards
                visual, text = self._cam(alone, recorded, layer)
                maps.append(visual.sum(0, keepdim=True))
                texts.append(text.sum(0, keepdim=True))
        total, words = sum(maps[1:], maps[0]), sum(texts[1:], texts[0])
        return attributions(alone, *_scaled(total, words), passes=self.passes)[0]

    def _noisy(self, sample: Sample, rng: np.random.Generator) -> Iterator[list[Sample]]:
        for start in range(0, self.copies, self.batch_size):
            count = min(self.batch_size, self.copies - start)
            moved = sample.image + rng.normal(0.0, self.noise * 255, (count, *sample.image.shape))
            yield [replace(sample, image=image) for image in moved.clip(0, 255).astype(np.uint8)]

    def _cam(self, session: Session, trace: Trace, layer: str) -> tuple[Tensor, Tensor]:
        """(n, rows, columns) and (n, T), both divided by the highest value of the map. Only the map is rectified, as
        the paper has it: words need an order, and a word that speaks against the answer comes last, not nowhere."""
        states, slopes = self._visual(trace, layer), self._visual(trace, layer, "gradients")
        weights = slopes.clamp(min=0).mean((2, 3), keepdim=True)
        maps = (states * weights).mean(1).clamp(min=0)
        at_words = at_text(session, trace.activations[layer])
        assert at_words is not None
        text = (wide(at_words) * weights[:, :, 0, 0][:, None]).mean(-1)
        return _scaled(maps, text)

    def _visual(self, trace: Trace, layer: str, kind: Literal["activations", "gradients"] = "activations") -> Tensor:
        cells = wide(trace.spatial(layer, kind))
        if self.variant == "paper" or cells.shape[2] * cells.shape[3] < _RELEASED_SIDE**2:
            return cells
        return cells.flatten(2)[..., -(_RELEASED_SIDE**2) :].unflatten(2, (_RELEASED_SIDE, _RELEASED_SIDE))

    def _name(self, model: TorchModel) -> str:
        depth = sum(role.startswith("decoder.") and role[8:].isdecimal() for role in model.layers)
        block = model.layers[f"decoder.{min(self.layer, max(depth - 2, 0))}"]
        children = {name for name, _ in model.module.get_submodule(block).named_children()}
        for name in _BEFORE_MLP:
            if name in children:
                return f"{block}.{name}"
        raise BadInput(f"{self.card.name} reads the norm after attention; {block} has {', '.join(sorted(children))}.")


def _scaled(maps: Tensor, text: Tensor) -> tuple[Tensor, Tensor]:
    """Both divided by the highest value of the map; nothing where the map is nothing."""
    highest = maps.amax((1, 2), keepdim=True)
    scale = (highest > 0) / highest.clamp(min=1e-30)
    return maps * scale, text * scale[:, 0]


@runtime_checkable
class Biased(Protocol):
    """A linear map that may add a bias."""

    @property
    def bias(self) -> Tensor | None: ...


@dataclass(frozen=True)
@checked
class Tam:
    """Activation of token c at a position: ReLU(logit of c there). The map of the target's token `token`, counted from
    the start of its span, is that at the visual tokens; its text scores those at the question and at all that was said
    before.

    Estimated causal inference: earlier tokens have maps of their own; their mean, weighted by the answer's text scores,
    is fitted to the map by least squares and taken away. Then image and text are brought to [0, 1] together, and the
    image passes the rank Gaussian filter. variant="released" is the public code: for an answer's first token it gives
    the map of the question's first token instead, and it rounds to 256 levels.
    """

    token: Annotated[int, Ge(0)] = 0
    variant: Variant = "paper"
    passes: ClassVar[int] = 1
    card: ClassVar[Card] = _card(
        "vlm/tam",
        "where the image by itself says the answer's token, freed from what earlier words say",
        needs=frozenset({"activations", "autoregressive", "text"}),
        citation="Li et al. 2025, Token activation map",
        departures="earlier tokens are those of the question and the answer, template left out; flat windows stay",
        passes="1",
    )

    def traces(self, model: TorchModel) -> Request:
        states = _by_token(model, self.card.name).states
        return Request.of(model.layers, (states,), ("activations",), ())

    def __call__(self, session: Session) -> list[Attribution]:
        model = session.torch_model
        decoder = _by_token(model, self.card.name)
        states = session.trace((decoder.states,), want=("activations",)).activations[decoder.states]
        head = model.module.get_submodule(decoder.head)
        return [self._explain(session, i, decoder, states[i], head) for i in range(len(session.samples))]

    def _explain(self, session: Session, i: int, decoder: AnswersByToken, states: Tensor, head: Any) -> Attribution:
        layout, inputs = session.torch_model.layout(session.inputs), session.inputs
        assert layout.visual is not None
        assert layout.grid is not None
        assert layout.text is not None
        assert layout.readout is not None
        assert inputs.tokens is not None
        assert inputs.token_keep is not None
        tokens = decoder.target_tokens(session.targets[i])
        if self.token >= len(tokens.explained):
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
        # (visual + earlier text, earlier tokens + target): how strongly each position says each token
        activations = _activations(states, [*layout.visual, *places], [*earlier, target], head)
        if not np.isfinite(activations).all():
            raise BadInput(f"{self.card.name}: the output of {decoder.states} is NaN or infinite.")
        n = len(layout.visual)
        of_target, distinct = activations[:, -1], [number != target for number in earlier]
        visual = without_earlier(of_target[:n], of_target[n:], activations[:n, :-1], distinct)
        both = spread(np.concatenate([visual, of_target[n:]]))
        cells, text = rank_gaussian(both[:n].reshape(layout.grid)), both[n:]
        if self.variant == "released":
            cells, text = np.floor(cells * 255), np.floor(text * 255)
        words, parts = by_word(text, inputs.words[i]) if len(text) and inputs.words[i] else (None, None)
        on_image = over_image(cells, frame_of(session, i), session.samples[i].size)
        notes = {"token": float(target)}
        return Attribution(on_image, words, space="patch", passes=1.0, notes=notes, tokens=parts)


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
        if isinstance(head, Biased) and head.bias is not None:
            logits = logits + wide(head.bias[tokens])
        return np.asarray(logits.clamp(min=0).cpu().double().numpy())


def _by_token(model: TorchModel, name: str) -> AnswersByToken:
    if not isinstance(model, AnswersByToken):
        raise CapabilityMissing(name, ["autoregressive"], model.name, model.capabilities)
    return model


def rank_gaussian(image: Map, size: int = 3) -> Map:
    """TAM's filter on the sorted values of a window, between the median and the mean.

    Each place gets Σ_r w_r v_(r) over the sorted window, w_r = exp(-r² / 2σ²), r counted from the median.
    σ is the window's coefficient of variation, std / mean: even windows keep their median, uneven ones are smoothed
    over more ranks. Edges are mirrored without repeating them. A flat window keeps its value (the released code divides
    by zero there).
    """
    half = size // 2
    padded = np.pad(image, half, mode="reflect" if min(image.shape) > half else "edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, (size, size)).reshape(*image.shape, size * size)
    ranked = np.sort(windows, axis=-1)
    mean, deviation = ranked.mean(-1, keepdims=True), ranked.std(-1, keepdims=True)
    flat = (deviation == 0) | (mean <= 0)
    sigma = np.where(flat, 1.0, deviation) / np.where(flat, 1.0, mean)
    rank = np.arange(size * size) - size * size // 2
    # The median's weight is 1, so that a narrow filter is the median rather than 0 / 0.
    with np.errstate(over="ignore", under="ignore"):
        weights = np.exp(-(rank**2) / (2 * sigma**2))
    filtered = (ranked * weights).sum(-1) / weights.sum(-1)
    return np.where(flat[..., 0], image, filtered)
