"""Soft masks: images that fade into their absent state, pixel by pixel, batched and counted like any coalition.

A coalition knows only kept and absent. RISE's masks have shades between, so here the evaluator's "players" are the bits
of a mask's number, and whoever draws the masks can make number k again when its batch comes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from karat.kernel.errors import BadInput
from karat.kernel.target import TargetLike
from karat.kernel.typing import Keep, Values
from karat.models.torch_model import TorchModel
from karat.probe.coalitions import Kind, ModelGame, log_odds
from karat.probe.evaluator import Block, Evaluator, Question
from karat.probe.session import Session

BITS = 24
Shades = npt.NDArray[np.float32]  # (m, h, w) in [0, 1], 1 = the image itself
Numbers = npt.NDArray[np.int64]  # (m,)
Draw = Callable[[Numbers], Shades]


@dataclass(eq=False)
class Shading:
    """The images of some games under soft masks. `draw[g](numbers)` gives the masks of game g."""

    session: Session
    games: Sequence[ModelGame]
    draw: Sequence[Draw]

    def values(self, counts: Sequence[int]) -> list[Values]:
        """Values (counts[g],) of masks 0, 1, ... of every game, in full batches across games."""
        passes, size = self.session.cost.passes, self.session.batch_size
        # Numbers never repeat within a call, so nothing is worth remembering.
        evaluator = Evaluator(self.answer, [(BITS, 0)] * len(self.games), size, memory_bytes=0, passes=passes)
        return evaluator.run([(g, numbered(count)) for g, count in enumerate(counts)])

    def answer(self, blocks: Sequence[Block]) -> Values:
        model = self.session.model
        shades = [self.draw[block.game](_numbers(block.visual_keep)) for block in blocks]
        if self.session.inside is not None:
            return self._through_tensors(self.session.inside, blocks, shades)
        samples, targets = [], []
        for block, shade in zip(blocks, shades, strict=True):
            setting = self.games[block.game].setting
            images = _mixed_images(setting.sample.image, setting.absence.image_of(setting.sample), shade)
            samples += [replace(setting.sample, image=image) for image in images]
            targets += [setting.target] * len(images)
        return as_kind(model.score(samples, targets), self.games[0].setting.kind, model.name)

    def _through_tensors(self, model: TorchModel, blocks: Sequence[Block], shades: Sequence[Shades]) -> Values:
        import torch

        from karat.probe.batches import join
        from karat.probe.hooks import evaluating

        rows: list[Any] = []
        targets: list[TargetLike] = []
        for block, shade in zip(blocks, shades, strict=True):
            game = self.games[block.game]
            mixed = self.session.games.mixed(model, game.index)
            spread = mixed.texts(np.ones((len(shade), game.n_text), dtype=np.bool_))
            full = mixed.base.pixels
            if mixed.base.frames is None:  # a transform of the user's: only it knows what a pixel becomes
                sample, absence = game.setting.sample, game.setting.absence
                images = _mixed_images(sample.image, absence.image_of(sample), shade)
                pixels = model.encode([replace(sample, image=image) for image in images]).pixels
            else:
                mask = torch.from_numpy(shade).to(full.device, full.dtype)[:, None]
                pixels = torch.lerp(mixed.absent_pixels, full, mask)
            rows.append(replace(spread, pixels=pixels))
            targets += [game.setting.target] * len(shade)
        kind = self.games[0].setting.kind
        with torch.no_grad(), evaluating(model.module):
            inputs = join(rows, model.neutral_token or 0)
            if kind == "logit":
                return np.asarray(model.readout(inputs, targets).double().cpu().numpy())
            probability = model.log_probability(inputs, targets).double().exp().cpu().numpy()
        return as_kind(probability, kind, model.name)


def view(session: Session, game: ModelGame) -> tuple[int, int]:
    """(h, w) of the masks: what the model sees of the image where that is known, else the image itself."""
    if session.inside is not None:
        base = session.games.mixed(session.inside, game.index).base
        if base.frames is not None:
            return base.pixels.shape[-2], base.pixels.shape[-1]
    return game.setting.sample.size


def numbered(count: int) -> Question[Values]:
    """Ask for masks 0 .. count - 1."""
    return (yield (np.arange(count)[:, None] >> np.arange(BITS)) & 1 == 1)


def as_kind(probability: Values, kind: Kind, name: str) -> Values:
    if kind == "logit":
        raise BadInput(f"{name!r} gives probabilities only; use value='probability' or 'log_odds'.")
    return log_odds(probability) if kind == "log_odds" else probability


def _numbers(keep: Keep) -> Numbers:
    return keep @ (1 << np.arange(BITS, dtype=np.int64))


def _mixed_images(image: npt.NDArray[np.uint8], absent: npt.NDArray[np.uint8], shade: Shades) -> npt.NDArray[np.uint8]:
    mask = shade[..., None]
    return np.rint(mask * image + (1 - mask) * absent).astype(np.uint8)
