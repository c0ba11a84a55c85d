"""Coalition games over models: which features are kept, the rest absent, and what the model then answers.

`ModelGames` answers blocks of coalitions for an `Evaluator`, and of soft masks for `FadedImages`. A plain model gets
altered images and texts. A torch model is encoded once: masks then choose between the encoded image and the encoded
absent image, and replace tokens, on tensors. Where the adapter can (`ReusesImage`), each distinct image is encoded
once, however many texts go with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from karat.kernel.errors import BadInput
from karat.kernel.roles import Model
from karat.kernel.sample import Sample
from karat.kernel.target import TargetLike
from karat.kernel.typing import Keep, Values
from karat.models.torch_model import ReadsSpans, ReusesImage, TorchModel
from karat.probe.absence import DRAWS, Absence
from karat.probe.batcher import Passes
from karat.probe.evaluator import Block
from karat.probe.games import Game, ValueFunction
from karat.probe.players import TextPlayers, VisualPlayers

if TYPE_CHECKING:
    from karat.probe.masked_inputs import ImageMemory, MaskedInputs
    from karat.probe.span_values import SpanValues

Kind = Literal["probability", "logit", "log_odds"]
Shades = npt.NDArray[np.float32]  # (m, h, w) soft masks in [0, 1], 1 = the image itself, 0 = its absence


class FadedBlock(NamedTuple):
    """Soft masks of a batch that belong to one game; its text is whole."""

    game: int
    shades: Shades

    @property
    def rows(self) -> int:
        return len(self.shades)


B = TypeVar("B", Block, FadedBlock)


@dataclass(frozen=True, eq=False)
class Setting:
    """One game: a sample, the answer that is valued, who plays, and what absence means."""

    sample: Sample
    target: TargetLike
    visual: VisualPlayers
    text: TextPlayers
    absence: Absence
    kind: Kind = "probability"

    def each(self) -> list[Setting]:
        """The settings whose values are averaged: this one, or one for each image that cells are resampled from."""
        return [replace(self, absence=absence) for absence in self.absence.each()]

    def altered(self, visual_keep: Keep, text_keep: Keep) -> list[Sample]:
        """The samples that coalitions (m, players) stand for."""
        absent = self.absence.image_of(self.sample)
        labels = self.visual.labels_of(*self.sample.size)
        kept = with_always_kept(visual_keep)[:, labels]  # (m, H, W)
        return [
            replace(
                self.sample,
                image=np.where(pixels[..., None], self.sample.image, absent),
                text=self.text_without(words),
                phrases=self.sample.phrases if words.all() else (),
            )
            for pixels, words in zip(kept, text_keep, strict=True)
        ]

    def faded(self, shades: Shades) -> list[Sample]:
        """The samples under soft masks (m, H, W)."""
        mask, absent = shades[..., None], self.absence.image_of(self.sample)
        images = np.rint(mask * self.sample.image + (1 - mask) * absent).astype(np.uint8)
        return [replace(self.sample, image=image) for image in images]

    def text_without(self, keep: npt.NDArray[np.bool_]) -> str | None:
        if keep.all():
            return self.sample.text
        if self.absence.text not in ("auto", "delete", "given"):
            raise BadInput(f"text absence {self.absence.text!r} needs a model with tokens; use 'delete' or 'given'.")
        absent = frozenset(j for group, kept in zip(self.text.groups, keep, strict=True) if not kept for j in group)
        return self.absence.text_of(self.sample, absent)


class ModelGame(Game):
    """A `Game` that knows its place in a session's evaluator, its players, and its setting."""

    index: int
    setting: Setting

    def __init__(self, value: ValueFunction, index: int, setting: Setting) -> None:
        super().__init__(value, setting.visual.count, setting.text.count)
        object.__setattr__(self, "index", index)
        object.__setattr__(self, "setting", setting)


@dataclass
class ImagePasses:
    """Images encoded by vision towers: how often, and how often remembered features served instead."""

    made: int = 0
    saved: int = 0


@dataclass(eq=False)
class ModelGames:
    """The games of a session, by index."""

    model: Model
    settings: list[Setting] = field(default_factory=list)
    shapes: list[tuple[int, int]] = field(default_factory=list)  # (n_visual, n_text) of each game
    images: ImagePasses = field(default_factory=ImagePasses)
    passes: Passes = field(default_factory=Passes)
    draws: dict[int, list[int]] = field(default_factory=dict)  # of games that resample: the games that are averaged
    _masked_inputs: dict[int, MaskedInputs] = field(default_factory=dict, repr=False)
    _pictures: dict[tuple[object, ...], int] = field(default_factory=dict, repr=False)

    @cached_property
    def inside(self) -> TorchModel | None:
        """The model as one that takes tensors, or None. Asked once: a structural check reads every property."""
        return self.model if isinstance(self.model, TorchModel) else None

    @cached_property
    def reuses(self) -> ReusesImage | None:
        """The model as one whose work on an image can be kept, or None."""
        return self.model if isinstance(self.model, ReusesImage) else None

    def add(self, setting: Setting) -> int:
        if setting.visual.count + setting.text.count == 0:
            raise BadInput(f"a game on sample {setting.sample.id} has no players: give visual or text players.")
        if setting.absence.draws:
            index = self._append(setting)
            self.draws[index] = [self._append(one) for one in setting.each()]
            return index
        return self._append(setting)

    def _append(self, setting: Setting) -> int:
        self.settings.append(setting)
        self.shapes.append((setting.visual.count, setting.text.count))
        if isinstance(self.model, ReadsSpans):
            self.spans.add(len(self.settings) - 1, setting)
        return len(self.settings) - 1

    def masked_inputs(self, model: TorchModel, index: int) -> MaskedInputs:
        """The encoded form of a game, made when first needed."""
        from karat.probe.masked_inputs import MaskedInputs

        if index not in self._masked_inputs:
            self._masked_inputs[index] = MaskedInputs(model, self.settings[index])
        return self._masked_inputs[index]

    def picture(self, index: int) -> int:
        """A number for what the visual players of a game show: games that differ in text or target only share it."""
        setting = self.settings[index]
        key = (setting.sample.id, *setting.visual.identity, *setting.absence.visual_identity)
        return self._pictures.setdefault(key, len(self._pictures))

    @cached_property
    def spans(self) -> SpanValues:
        """Games that differ in their target only, and what one has learnt for the others."""
        from karat.probe.span_values import SpanValues

        return SpanValues()

    @cached_property
    def image_memory(self) -> ImageMemory:
        from karat.probe.masked_inputs import ImageMemory

        return ImageMemory()

    def values(self, blocks: Sequence[Block]) -> Values:
        """Values of all coalitions of the blocks, in order: one batch for the model, or one for each draw."""
        return self._over_draws(blocks, self._values)

    def faded_values(self, blocks: Sequence[FadedBlock]) -> Values:
        """Values of all soft masks of the blocks, in order: one batch for the model, or one for each draw."""
        return self._over_draws(blocks, self._faded_values)

    def _over_draws(self, blocks: Sequence[B], values: Callable[[Sequence[B]], Values]) -> Values:
        """Blocks of games that resample have the mean over their draws; the others are valued once."""
        drawn = np.array([block.game in self.draws for block in blocks for _ in range(block.rows)], dtype=np.bool_)
        if not drawn.any():
            return values(blocks)
        result = np.zeros(len(drawn))
        if plain := [block for block in blocks if block.game not in self.draws]:
            result[~drawn] = values(plain)
        resampled = [block for block in blocks if block.game in self.draws]
        for k in range(DRAWS):
            result[drawn] += values([block._replace(game=self.draws[block.game][k]) for block in resampled]) / DRAWS
        more = (DRAWS - 1) * int(drawn.sum())
        self.passes.requested, self.passes.made = self.passes.requested + more, self.passes.made + more
        return result

    def _values(self, blocks: Sequence[Block]) -> Values:
        if self.inside is not None:
            from karat.probe.masked_inputs import coalition_values

            return coalition_values(self, self.inside, blocks)
        return self._values_of_samples(
            blocks, [self.settings[block.game].altered(block.visual_keep, block.text_keep) for block in blocks]
        )

    def _faded_values(self, blocks: Sequence[FadedBlock]) -> Values:
        if self.inside is not None:
            from karat.probe.masked_inputs import faded_values

            return faded_values(self, self.inside, blocks)
        return self._values_of_samples(blocks, [self.settings[block.game].faded(block.shades) for block in blocks])

    def _values_of_samples(
        self, blocks: Sequence[Block] | Sequence[FadedBlock], samples: Sequence[list[Sample]]
    ) -> Values:
        settings = [self.settings[block.game] for block in blocks for _ in range(block.rows)]
        if any(setting.kind == "logit" for setting in settings):
            raise BadInput(f"{self.model.name!r} gives probabilities only; use value='probability' or 'log_odds'.")
        values = self.model.score([s for part in samples for s in part], [setting.target for setting in settings])
        return np.where([setting.kind == "log_odds" for setting in settings], log_odds(values), values)


def with_always_kept(keep: Keep) -> Keep:
    """Keep with one more column, always True: label -1 reads it."""
    return np.concatenate([keep, np.ones((len(keep), 1), dtype=np.bool_)], axis=1)


def log_odds(probability: Values) -> Values:
    """log(p / (1 - p)), finite for p = 0 and 1."""
    tiny = np.finfo(np.float64).tiny
    p = np.clip(probability, tiny, 1.0)
    return np.log(p) - np.log(np.clip(1.0 - p, np.finfo(np.float64).eps / 2, None))
