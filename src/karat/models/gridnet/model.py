"""`GridNetModel`: the trained network behind the interface that every torch model of Karat has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from karat.datasets.grid.scenes import answers as answer_names
from karat.datasets.grid.world import World
from karat.kernel.errors import BadInput
from karat.kernel.sample import Sample
from karat.kernel.typing import Box, Values
from karat.models.gridnet.network import Answers, Found, GridNetwork
from karat.models.gridnet.pixels import SIDE, shrink
from karat.models.gridnet.vocabulary import PAD, number_words
from karat.models.torch_model import Inputs, Layout

BATCH = 64


class GridNetModel:
    """A trained twin. Pixels are 96 x 96, the area average of the image, from -1 (black) to 1 (white)."""

    vision = "backbone"

    def __init__(self, name: str, mechanism: str | None, capabilities: frozenset[str], network: GridNetwork) -> None:
        self.name = name
        self.mechanism = mechanism
        self.capabilities = capabilities
        self.module = network
        self.answers = answer_names(World())
        self.neutral_token: int | None = PAD
        self._number = {answer: number for number, answer in enumerate(self.answers)}

    @property
    def layers(self) -> Mapping[str, str]:
        """The last layer only adds up for the answer token: the states of cells and words are last read before it."""
        last = self.module.shape.joint_layers - 2
        states = {f"decoder.{k}": f"joint.{k}" for k in range(self.module.shape.joint_layers)}
        signal = {
            "vision.signal": "backbone.middle",
            "decoder.signal": f"joint.{last - 1}",
        }  # the backbone's output is normed
        return {**states, **signal, "vision.last": "backbone", "decoder.last": f"joint.{last}", "words": "word"}

    @property
    def attention_layers(self) -> Sequence[str]:
        return tuple(f"joint.{k}.attention" for k in range(self.module.shape.joint_layers))

    def encode(self, samples: Sequence[Sample]) -> Inputs:
        most, like = self.module.shape.words, self.module.answer
        pixels = torch.stack([shrink(sample.image) for sample in samples]) if samples else torch.zeros(0, 3, SIDE, SIDE)
        tokens, keep = number_words([sample.text or "" for sample in samples])
        if tokens.shape[1] > most:
            raise BadInput(f"{self.name} reads questions of up to {most} words; got one of {tokens.shape[1]}.")
        words = tuple(tuple((at, at + 1) for at in range(int(count))) for count in keep.sum(axis=1))
        return Inputs(
            pixels.to(like.device, like.dtype),
            torch.from_numpy(tokens).to(like.device),
            torch.from_numpy(keep).to(like.device),
            words,
        )

    def outputs(self, inputs: Inputs) -> Answers:
        tokens, keep = self._text(inputs)
        if "cells" in inputs.reuse:
            return self.module.answers(self.module.read(inputs.reuse["cells"], tokens, keep))
        return self.module(inputs.pixels, tokens, keep)

    def logits(self, inputs: Inputs) -> Tensor:
        """(n, answers) the logit of the question type plus that of the answer within it."""
        return self.outputs(inputs).logits()

    def readout(self, inputs: Inputs, answers: Sequence[str]) -> Tensor:
        return self._pick(self.logits(inputs), answers)

    def log_probability(self, inputs: Inputs, answers: Sequence[str]) -> Tensor:
        return self._pick(self.outputs(inputs).log_probabilities(), answers)

    def layout(self, inputs: Inputs) -> Layout:
        grid = self.module.shape.grid
        words = 0 if inputs.tokens is None else inputs.tokens.shape[1]
        first_word = 1 + grid * grid
        return Layout((grid, grid), tuple(range(1, first_word)), tuple(range(first_word, first_word + words)), 0)

    def reuse_image(self, inputs: Inputs) -> Inputs:
        """Cells as the joint encoder gets them: they do not depend on the question."""
        with torch.no_grad():
            return replace(inputs, reuse={"cells": self.module.look(inputs.pixels)})

    def answer(self, samples: Sequence[Sample]) -> list[str]:
        answers: list[str] = []
        with torch.inference_mode():
            for first in range(0, len(samples), BATCH):
                table = self.outputs(self.encode(samples[first : first + BATCH])).log_probabilities()
                answers += [self.answers[number] for number in table.argmax(dim=1).tolist()]
        return answers

    def score(self, samples: Sequence[Sample], answers: Sequence[str]) -> Values:
        if len(samples) != len(answers):
            raise BadInput(f"one answer per sample is needed; got {len(samples)} samples and {len(answers)} answers.")
        scores = np.zeros(len(samples))
        with torch.inference_mode():
            for first in range(0, len(samples), BATCH):
                part = slice(first, first + BATCH)
                chosen = self.log_probability(self.encode(samples[part]), answers[part])
                scores[part] = chosen.exp().double().cpu().numpy()
        return scores

    def detect(self, samples: Sequence[Sample], threshold: float = 0.5) -> list[list[tuple[Box, tuple[int, ...]]]]:
        """For each sample the boxes (x, y, width, height, in pixels) of named objects and the words that name them.

        A query counts when it gives "no object" less than 1 - threshold; its words are those of at least half the
        probability of its likeliest word.
        """
        inputs = self.encode(samples)
        tokens, keep = self._text(inputs)
        with torch.inference_mode():
            detections: Found = self.module.decoder(self.module.encode(inputs.pixels, tokens, keep))
        chances = detections.phrases.softmax(dim=-1)
        result = []
        for i, sample in enumerate(samples):
            height, width = sample.size
            named = []
            for q in torch.nonzero(1 - chances[i, :, -1] > threshold)[:, 0].tolist():
                x, y, w, h = detections.boxes[i, q].tolist()
                box = (round((x - w / 2) * width), round((y - h / 2) * height), round(w * width), round(h * height))
                spoken = chances[i, q, :-1] * (torch.arange(self.module.shape.words) < len(inputs.words[i]))
                named.append((box, tuple(torch.nonzero(spoken >= spoken.max() / 2)[:, 0].tolist())))
            result.append(named)
        return result

    def _text(self, inputs: Inputs) -> tuple[Tensor, Tensor]:
        if inputs.tokens is None or inputs.token_keep is None:
            raise BadInput("gridnet reads a question: its inputs need tokens; make them with `encode`.")
        return inputs.tokens, inputs.token_keep

    def _pick(self, table: Tensor, answers: Sequence[str]) -> Tensor:
        for answer in answers:
            if answer not in self._number:
                raise BadInput(
                    f"gridnet cannot say {answer!r}; its answers are yes, no, left, right, above, below and 0 to 36."
                )
        numbers = torch.tensor([self._number[answer] for answer in answers], device=table.device)
        return table.gather(1, numbers[:, None])[:, 0]
