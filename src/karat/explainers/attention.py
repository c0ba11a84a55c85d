"""Explainers made of attention maps. Image and words, from one shared trace that keeps no map.

An entry is a card and `row_scores`: what the tokens of the sequence are worth to the answer's position, made of the
attention layers first to last. What is traced, the check for NaN and the way to maps and words are `AttentionRows`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from annotated_types import Ge, Lt

from karat.explainers.to_attribution import attributions
from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.constraints import checked
from karat.kernel.errors import BadInput
from karat.models.targets import explained_positions
from karat.models.torch_model import AnswersByToken, Layout, TorchModel
from karat.probe.request import Request
from karat.probe.session import Session

if TYPE_CHECKING:
    from torch import Tensor

    from karat.explainers.attention_rollout import Discard
    from karat.probe.attention import Heads

Fusion = Literal["mean", "max", "min"]
Variant = Literal["paper", "released"]
Ratio = Annotated[float, Ge(0), Lt(1)]
_card = partial(Card, kind="explainer", gives=frozenset({"visual", "words"}), passes="1", extra="vision")
_plain = partial(_card, needs=frozenset({"attention"}))
_weighted = partial(_card, needs=frozenset({"attention", "gradients"}))


class AttentionRows:
    """Scores of the tokens of one sequence, from the heads of its attention layers.

    Called with a `Session` of n samples it returns n attributions: a map of the model's patches and, for a model that
    reads text, one score per word. Models whose attention does not run over one sequence are refused.
    """

    card: ClassVar[Card]
    passes: ClassVar[int] = 1

    def row_scores(self, session: Session, layers: list[Heads]) -> Tensor:
        """(n, L) of the whole sequence."""
        raise NotImplementedError

    @property
    def _recordings(self) -> tuple[str, ...]:
        return ("heads", "head_gradients") if "gradients" in self.card.needs else ("heads",)

    def traces(self, model: TorchModel) -> Request:
        return Request.of(model.layers, (), self._recordings, model.attention_layers)

    def __call__(self, session: Session) -> list[Attribution]:
        layout, visual = token_sequence(session, self.card.name)
        assert layout.grid is not None
        trace = session.trace(want=self._recordings)
        heads = {layer: trace.heads[layer] for layer in session.torch_model.attention_layers}
        row = self.row_scores(session, list(heads.values()))
        check_finite(self.card.name, row, heads)
        maps = row[:, list(visual)].reshape(len(row), *layout.grid)
        text = row[:, list(layout.text)] if layout.text is not None else None
        return attributions(session, maps, text)

    def _check_layer(self, session: Session, layer: int, count: int) -> None:
        if not -count <= layer < count:
            raise BadInput(f"{self.card.name}: {session.model.name!r} has {count} layers; got {layer}.")


# ---- attention by itself: blind to the answer


@dataclass(frozen=True)
@checked
class Raw(AttentionRows):
    """The answer's row of one layer's attention, heads fused. `layer` counts from the end if negative."""

    layer: int = -1
    fusion: Fusion = "mean"
    card: ClassVar[Card] = _plain(
        "attention/raw",
        "where the answer's position looks in one layer",
        citation="Vaswani et al. 2017, Attention is all you need",
    )

    def row_scores(self, session: Session, layers: list[Heads]) -> Tensor:
        from karat.explainers.attention_rollout import plain, read

        self._check_layer(session, self.layer, len(layers))
        layer = layers[self.layer]
        return read(layer, answer_rows(session, self.card.name, layer), plain(self.fusion))


@dataclass(frozen=True)
@checked
class Rollout(AttentionRows):
    """The product over layers of (W + I) / 2, W the attention with heads fused; other fusions are divided by row sums.

    `discard_ratio` drops the lowest pairs of each layer first (the answer's look at itself is spared).
    semscore2025 has fusion="max", discard_ratio=0.9, variant="released": row sums divide columns there.
    """

    fusion: Fusion = "mean"
    discard_ratio: Ratio = 0.0
    variant: Variant = "paper"
    card: ClassVar[Card] = _plain(
        "attention/rollout",
        "where the answer's position looks, through all layers and residual connections",
        citation="Abnar and Zuidema 2020, Quantifying attention flow in transformers",
        departures="discard ratio and other fusions than the mean are vit-explain's",
    )

    def row_scores(self, session: Session, layers: list[Heads]) -> Tensor:
        from karat.explainers.attention_rollout import discarding, plain, shares

        row, fuse = answer_rows(session, self.card.name, layers[-1]), plain(self.fusion)
        if self.discard_ratio == 0 and self.variant == "paper":
            return shares(layers, row, fuse)
        drop = _discard(session, self.card.name, self.discard_ratio, layers[-1].queries)
        return discarding(layers, row, fuse, drop, self.variant == "released")


# ---- attention weighted by its gradient


@dataclass(frozen=True)
@checked
class GradRollout(AttentionRows):
    """The product over layers of I + E_h (A ∘ dy/dA)^+.

    creg2026 calls it Transformer Attribution, fsyn2026 Grad×Rollout. On one sequence this is attention/generic by
    another road. `normalise` divides rows by their sum in every layer, as rollout does and as Chefer et al.'s code for
    BERT does.
    """

    normalise: bool = False
    card: ClassVar[Card] = _weighted(
        "attention/grad_rollout",
        "rollout of attention weighted by its positive gradient",
        citation="Chefer et al. 2021, Transformer interpretability beyond attention visualization, Eq. 13; creg2026",
        departures="attention stands where Chefer et al. have its LRP relevance, as creg2026 and fsyn2026 have it",
    )

    def row_scores(self, session: Session, layers: list[Heads]) -> Tensor:
        from karat.explainers.attention_rollout import positive_then_mean, shares, sums

        row = answer_rows(session, self.card.name, layers[-1])
        return (shares if self.normalise else sums)(layers, row, positive_then_mean)


@dataclass(frozen=True)
@checked
class Generic(AttentionRows):
    """R <- R + E_h (A ∘ dy/dA)^+ R, read at the answer's row: the rule for one sequence, decoders included.

    `start_layer` is the first layer taken in; negative counts from the end (the released CLIP demo has -1: the last
    layer only). Two streams with co-attention: `karat.explainers.attention_bimodal`.
    """

    start_layer: int = 0
    card: ClassVar[Card] = _weighted(
        "attention/generic",
        "relevance carried back through attention weighted by its positive gradient",
        citation="Chefer et al. 2021, Generic attention-model explainability, Eq. 5-6",
    )

    def row_scores(self, session: Session, layers: list[Heads]) -> Tensor:
        from karat.explainers.attention_rollout import positive_then_mean, sums

        self._check_layer(session, self.start_layer, len(layers))
        layers = layers[self.start_layer :]
        return sums(layers, answer_rows(session, self.card.name, layers[-1]), positive_then_mean)


@dataclass(frozen=True)
@checked
class Gar(AttentionRows):
    """Gradient attention rollout: rollout of (E_h A ∘ dy/dA)^+ whose lowest pairs are dropped.

    variant="released" is vit-explain's code, which semscore2025 keeps: the gradients of the layers in reverse order,
    no guard, row sums that divide columns.
    """

    discard_ratio: Ratio = 0.9
    variant: Variant = "paper"
    card: ClassVar[Card] = _weighted(
        "attention/gar",
        "rollout of attention times gradient, the weakest pairs dropped",
        citation="Gildenblat 2020, vit-explain; semscore2025",
        departures='gradients in the order of the layers, rows divided by their sums; not so in variant="released"',
    )

    def row_scores(self, session: Session, layers: list[Heads]) -> Tensor:
        from karat.explainers.attention_rollout import discarding, mean_then_positive

        released = self.variant == "released"
        if released and len({layer.count for layer in layers}) > 1:
            raise BadInput(
                f'{self.card.name}: variant="released" pairs each layer with the gradient of its mirror image; '
                f"the layers of {session.model.name!r} have different numbers of heads."
            )
        drop = _discard(session, self.card.name, self.discard_ratio, layers[-1].queries)
        drop = replace(drop, guards=None) if released else drop
        row = answer_rows(session, self.card.name, layers[-1])
        return discarding(layers, row, mean_then_positive, drop, released)


@dataclass(frozen=True)
@checked
class Daam(AttentionRows):
    """Σ over blocks of ReLU(Σ_c w_c a_j v_jc): a the answer's attention, v the values of all heads side by side,
    w = ReLU(dy/dO) at the answer's position.

    `squash` is σ(5x / max) - 1/2, then min-max: on in the released class, off in its scripts and in semscore2025.
    variant="released" also rounds min-max maps to 256 levels, as the code does.
    """

    squash: bool = False
    variant: Variant = "paper"
    card: ClassVar[Card] = _weighted(
        "attention/daam",
        "what each token gave to the answer's position, block by block, weighted by its gradient",
        citation="Liao et al. 2024, Dynamic accumulated attention map; semscore2025",
        departures="words of models that read text are scored like patches",
    )

    def row_scores(self, session: Session, layers: list[Heads]) -> Tensor:
        from karat.explainers.attention_rollout import contributions

        row = answer_rows(session, self.card.name, layers[-1])
        total = sum(contributions(layer, row) for layer in layers[1:]) + contributions(layers[0], row)
        visual = list(token_sequence(session, self.card.name)[1])
        if self.squash:
            highest = total[:, visual].amax(1, keepdim=True).clamp(min=1e-12)
            total = _min_max((5 * total / highest).sigmoid() - 0.5, visual)
        return (_min_max(total, visual) * 255).floor() if self.variant == "released" else total


def _min_max(row: Tensor, visual: list[int]) -> Tensor:
    """From 0 to 1 over the image of each sample."""
    low, high = row[:, visual].amin(1, keepdim=True), row[:, visual].amax(1, keepdim=True)
    return (row - low) / (high - low).clamp(min=1e-12)


# ---- where attention is read


def token_sequence(session: Session, name: str) -> tuple[Layout, tuple[int, ...]]:
    """The layout and the visual positions; an error where attention does not run over one sequence of patches."""
    layout = session.torch_model.layout(session.inputs)
    if layout.visual is None or layout.grid is None:
        raise BadInput(
            f"{name} follows attention over one sequence of tokens from first to last layer; {session.model.name!r} "
            "has none (its attention is windowed or pooled). Use a CAM, which needs no such sequence."
        )
    return layout, layout.visual


def answer_rows(session: Session, name: str, layer: Heads) -> Tensor:
    """(n, L) how much each row of the sequence stands for the answer; sums to 1.

    The class or readout token; the mean over the patches where the model averages them; the positions that predict the
    tokens of the target's span, each of which has seen what was said up to there (fsyn2026 A.2).
    """
    import torch

    layout, visual = token_sequence(session, name)
    row = torch.zeros(len(session.samples), layer.queries, device=layer.value.device, dtype=layer.dtype)
    if layout.readout is None:
        row[:, list(visual)] = 1 / len(visual)
        return row
    for i, positions in enumerate(explained_positions(session.model, layout, session.targets)):
        row[i, list(positions)] = 1 / len(positions)
    return row


def _discard(session: Session, name: str, ratio: float, length: int) -> Discard:
    from karat.explainers.attention_rollout import Discard

    layout, _ = token_sequence(session, name)
    guards = None
    if layout.readout is not None:
        guards = [positions.start for positions in explained_positions(session.model, layout, session.targets)]
    return Discard(ratio, present_tokens(session, length), guards)


def present_tokens(session: Session, length: int) -> Tensor:
    """(n, length) False at padding, of the question and of answers that are shorter than the longest."""
    import torch

    layout, inputs = session.torch_model.layout(session.inputs), session.inputs
    present = torch.ones(len(session.samples), length, dtype=torch.bool, device=inputs.pixels.device)
    if layout.text is not None and inputs.token_keep is not None:
        present[:, list(layout.text)] = inputs.token_keep
    if layout.readout is not None and isinstance(session.model, AnswersByToken):
        for i, positions in enumerate(explained_positions(session.model, layout, session.targets)):
            present[i, positions.stop :] = False
    return present


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
        if _bad([part.value, part.query, part.key, part.formed]):
            return layer, "attention"
    for layer, part in reversed(heads.items()):
        if _bad([part.output_gradient]):
            return layer, "gradient"
    return None


def _bad(tensors: Sequence[Tensor | None]) -> bool:
    return any(not bool(tensor.isfinite().all()) for tensor in tensors if tensor is not None)
