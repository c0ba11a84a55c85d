"""`GridProgModel`: the compiled network behind the interface that every torch model of Karat has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from karat.datasets.grid import World
from karat.datasets.grid.scenes import answers as answer_names
from karat.kernel.errors import BadInput
from karat.kernel.sample import Sample
from karat.kernel.target import TargetLike
from karat.kernel.typing import Values
from karat.models.gridprog.build import build
from karat.models.gridprog.lexicon import MAX_WORDS, PAD, Lexicon
from karat.models.gridprog.wiring import FIRST_CELL, READOUT
from karat.models.targets import whole_scores
from karat.models.torch_model import Inputs, Layout

BATCH = 16  # encoded images of 384 px take 1.8 MB each: more at once only leaves the cache


class GridProgModel:
    """A compiled twin. Pixels are in [-1, 0], white being 0: what is not there is exactly nothing."""

    vision = "vision"

    def __init__(
        self, name: str, mechanism: str | None, capabilities: frozenset[str], world: World, paths: Mapping[str, float]
    ) -> None:
        self.name = name
        self.mechanism = mechanism
        self.capabilities = capabilities
        self.world = world
        self.module = build(world, paths)
        self.answers = answer_names(world)
        self.neutral_token: int | None = PAD
        self._lexicon = Lexicon(world)
        self._number = {answer: number for number, answer in enumerate(self.answers)}

    @property
    def layers(self) -> Mapping[str, str]:
        """The last block only moves things to the readout: the states of cells and words are last read before it, and
        only there are words more than themselves. So all roles of the decoder are that block."""
        block = f"blocks.{max(len(self.module.blocks) - 2, 0)}"
        decoder = {f"decoder.{which}": block for which in ("early", "late", "last")}
        return {"vision.last": "vision", **decoder, "words": "words"}

    @property
    def attention_layers(self) -> Sequence[str]:
        return tuple(f"blocks.{number}.attention" for number in range(len(self.module.blocks)))

    def encode(self, samples: Sequence[Sample]) -> Inputs:
        side = self.world.pixels
        for sample in samples:
            if sample.size != (side, side):
                raise BadInput(
                    f"{self.name} reads {self.world.size}×{self.world.size} cells of {self.world.cell} pixels, "
                    f"{side}×{side} in all; sample {sample.id!r} is {sample.size[0]}×{sample.size[1]}. "
                    "Load gridprog with that size and cell."
                )
        images = np.stack([sample.image for sample in samples]) if samples else np.zeros((0, side, side, 3), np.uint8)
        like = self.module.places
        pixels = torch.from_numpy(images).permute(0, 3, 1, 2).to(like.device, like.dtype).sub_(255).div_(255)
        tokens = torch.full((len(samples), MAX_WORDS), PAD)
        words = []
        for row, sample in enumerate(samples):
            numbers = self._lexicon.tokens(sample)
            tokens[row, : len(numbers)] = torch.tensor(numbers)
            words.append(tuple((at, at + 1) for at in range(len(numbers))))
        tokens = tokens.to(like.device)
        return Inputs(pixels, tokens, tokens != PAD, tuple(words))

    def logits(self, inputs: Inputs) -> Tensor:
        """(n, answers), in the order of `self.answers`."""
        if inputs.tokens is None:
            raise BadInput("gridprog reads a question: its inputs need tokens; make them with `encode`.")
        cells = inputs.reuse["cells"] if "cells" in inputs.reuse else self.module.look(inputs.pixels)
        return self.module.read(cells, inputs.tokens)

    def readout(self, inputs: Inputs, targets: Sequence[TargetLike]) -> Tensor:
        table = self.logits(inputs)
        return whole_scores(lambda answers: self._pick(table, answers), targets, self.name, log=False)

    def log_probability(self, inputs: Inputs, targets: Sequence[TargetLike]) -> Tensor:
        table = self.logits(inputs).log_softmax(-1)
        return whole_scores(lambda answers: self._pick(table, answers), targets, self.name, log=True)

    def layout(self, inputs: Inputs) -> Layout:
        size, cells = self.world.size, self.world.n_cells
        first_word = FIRST_CELL + cells
        words = 0 if inputs.tokens is None else inputs.tokens.shape[1]
        return Layout(
            (size, size), tuple(range(FIRST_CELL, first_word)), tuple(range(first_word, first_word + words)), READOUT
        )

    def reuse_image(self, inputs: Inputs) -> Inputs:
        with torch.no_grad():
            return replace(inputs, reuse={"cells": self.module.look(inputs.pixels)})

    def answer(self, samples: Sequence[Sample]) -> list[str]:
        answers: list[str] = []
        with torch.inference_mode():
            for first in range(0, len(samples), BATCH):
                best = self.logits(self.encode(samples[first : first + BATCH])).argmax(-1)
                answers += [self.answers[number] for number in best.tolist()]
        return answers

    def score(self, samples: Sequence[Sample], targets: Sequence[TargetLike]) -> Values:
        if len(samples) != len(targets):
            raise BadInput(f"one answer per sample is needed; got {len(samples)} samples and {len(targets)} answers.")
        probabilities = np.zeros(len(samples))
        with torch.inference_mode():
            for first in range(0, len(samples), BATCH):
                part = slice(first, first + BATCH)
                likely = self.log_probability(self.encode(samples[part]), targets[part]).exp()
                probabilities[part] = likely.double().cpu().numpy()
        return probabilities

    def _pick(self, table: Tensor, answers: Sequence[str]) -> Tensor:
        for answer in answers:
            if answer not in self._number:
                raise BadInput(
                    f"gridprog cannot say {answer!r}; its answers are yes, no, left, right, above, below and "
                    f"0 to {self.world.n_cells}."
                )
        numbers = torch.tensor([self._number[answer] for answer in answers], device=table.device)
        return table.gather(1, numbers[:, None])[:, 0]
