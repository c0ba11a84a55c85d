"""What a torch adapter offers beyond `answer` and `score`: tensors in, a differentiable score out, layers by role.

`probe` builds both of its questions (traces and coalitions) on this alone, so an adapter written once serves every
explainer. Nothing here imports torch at run time: planning must stay light.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from karat.kernel.roles import Model
from karat.kernel.sample import Sample
from karat.kernel.target import TargetLike
from karat.kernel.typing import Span

if TYPE_CHECKING:
    from torch import Tensor, nn


Frame = tuple[float, float, float, float]


@dataclass(frozen=True, eq=False)
class Inputs:
    """An encoded batch.

    `pixels` (n, 3, H, W) normalised as the model was trained; `tokens` (n, T) with `token_keep` True at real tokens,
    None for models without text. `words[i][j]` is the token span of word j of sample i; template and special tokens
    belong to no word, so they are never players. `other` holds whatever else the module's forward takes. Padding of
    `tokens` is on the right and changes no answer, and every tensor is batch first, so that batches can be cut and
    joined. `frames[i]` is the part of image i that its pixels show, (top, left, bottom, right) as shares of height and
    width; () is the whole of each, None unknown. `reuse` holds what `ReusesImage.reuse_image` made of these pixels.
    """

    pixels: Tensor
    tokens: Tensor | None = None
    token_keep: Tensor | None = None
    words: tuple[tuple[tuple[int, int], ...], ...] = ()
    other: Mapping[str, Tensor] = field(default_factory=dict)
    frames: tuple[Frame, ...] | None = ()
    reuse: Mapping[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Layout:
    """Where things sit in the sequence that attention runs over: (rows, columns) of the visual tokens, their positions
    in row-major order, the position of every text token (same order as `Inputs.tokens`), and the reading position
    whose row explains the answer. `None` where the architecture has no such thing."""

    grid: tuple[int, int] | None
    visual: tuple[int, ...] | None
    text: tuple[int, ...] | None
    readout: int | None


@runtime_checkable
class TorchModel(Model, Protocol):
    """A model that can be looked into."""

    @property
    def module(self) -> nn.Module: ...
    @property
    def layers(self) -> Mapping[str, str]:
        """Role to dotted module name: "vision.last", "decoder.last", "words" (its output are word embeddings)..."""
        ...

    @property
    def attention_layers(self) -> Sequence[str]:
        """Dotted names of the self-attention modules over the joint (or visual) sequence, first to last."""
        ...

    @property
    def neutral_token(self) -> int | None:
        """The token that stands for an absent word (pad)."""
        ...

    def encode(self, samples: Sequence[Sample]) -> Inputs: ...
    def readout(self, inputs: Inputs, targets: Sequence[TargetLike], /) -> Tensor:
        """(n,) the raw score (logit) of each target, differentiable. Models that answer as a whole are given texts;
        those that answer token by token give the sum over the tokens of the target's span, given its context."""
        ...

    def log_probability(self, inputs: Inputs, targets: Sequence[TargetLike], /) -> Tensor:
        """(n,) log-probability of each target: of its span, given its context."""
        ...

    def layout(self, inputs: Inputs) -> Layout: ...


@runtime_checkable
class CutsImages(Protocol):
    """A model that nobody can look into, but that says into how many (rows, columns) an image shall be cut."""

    @property
    def grid(self) -> tuple[int, int]: ...


@runtime_checkable
class HasVisionTower(Protocol):
    """A torch model one part of which sees the image and nothing else."""

    @property
    def vision(self) -> str:
        """Dotted name of the vision tower; layers under it hold visual tokens only."""
        ...


@runtime_checkable
class ReusesImage(HasVisionTower, Protocol):
    """A torch model whose work on the image can be kept while the text changes."""

    def reuse_image(self, inputs: Inputs) -> Inputs:
        """The same inputs with `reuse` filled: image features and, where the image comes first, the key/value states
        of the prompt up to the question. `readout` and `log_probability` then skip that work. No gradients."""
        ...


@runtime_checkable
class ArrangesVision(HasVisionTower, Protocol):
    """A torch model whose vision tower need not run one row per sample: several images in one row, or several rows
    (tiles) per image. Traces hold recordings of it by sample."""

    def by_sample(self, layer: str, recording: Tensor, inputs: Inputs) -> Tensor:
        """A recording of a layer under `vision`: (n, tokens, width), patches first and row-major, or (n, c, h, w)."""
        ...

    def as_run(self, layer: str, states: Tensor, inputs: Inputs) -> Tensor:
        """The inverse, for states (n, tokens, width)."""
        ...

    def patches(self, inputs: Inputs) -> tuple[int, int] | None:
        """(rows, columns) of the patches that such a recording starts with; None where its length tells."""
        ...


@runtime_checkable
class SizesBatches(Protocol):
    """A torch model whose inputs have sizes that depend on the sample."""

    def batch_key(self, sample: Sample) -> Hashable:
        """Equal for samples that can be encoded together."""
        ...


@dataclass(frozen=True)
class TargetTokens:
    """What a model is made to say for a target: `numbers` are the tokens up to the end of its span, of which those from
    `first` on are explained. The token at place k is predicted at position `Layout.readout` + k of the sequence."""

    numbers: tuple[int, ...]
    first: int = 0

    @property
    def context(self) -> tuple[int, ...]:
        return self.numbers[: self.first]

    @property
    def explained(self) -> tuple[int, ...]:
        return self.numbers[self.first :]


@runtime_checkable
class ReadsSpans(Protocol):
    """A torch model that reads many spans of one text off one forward: what it says later changes nothing before."""

    def span_scores(self, inputs: Inputs, targets: Sequence[TargetLike], log: bool, /) -> Tensor:
        """(n, targets) raw scores or, if `log`, log-probabilities of spans of one text, on every row; differentiable.
        Each is what `readout` or `log_probability` would give."""
        ...


@runtime_checkable
class ScoresAnswers(Protocol):
    """A torch model that scores every answer it has in one pass."""

    def logits(self, inputs: Inputs, /) -> Tensor:
        """(n, answers) raw scores."""
        ...


@runtime_checkable
class ListsAnswers(Protocol):
    """A model that can give these answers and no others."""

    @property
    def answers(self) -> Sequence[str]: ...


@runtime_checkable
class ListsLabels(Protocol):
    """A classifier with names for its classes, where it has any."""

    @property
    def labels(self) -> Sequence[str] | None: ...


@runtime_checkable
class AnswersByToken(Protocol):
    """A torch model that answers token by token. After `Layout.readout` its sequence goes on with what it is made to
    say, up to the last token but one; every position is read by the same head."""

    @property
    def states(self) -> str:
        """Dotted name of the module whose output (n, length, width) the head reads."""
        ...

    @property
    def head(self) -> str:
        """Dotted name of the map from states to logits over tokens."""
        ...

    def token_spans(self, text: str) -> tuple[Span, ...]:
        """The characters that each token of a text covers, as it would be generated. Those of `Target.token`."""
        ...

    def target_tokens(self, target: TargetLike) -> TargetTokens:
        """What is said for a target, as it would be generated, and which of it is explained."""
        ...
