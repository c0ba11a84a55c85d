"""Trainees: what a base brings to the training of an organism. One call a step; the weights that move."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from karat.datasets.cues.rules import find_rule
from karat.datasets.cues.world import ANSWERS
from karat.kernel.errors import BadInput
from karat.kernel.identity import generator
from karat.kernel.sample import Sample
from karat.kernel.typing import Image
from karat.models.classifier import Classifier
from karat.models.organisms.questions import Question, encode_questions, hide_words
from karat.models.organisms.recipe import OrganismRecipe
from karat.models.organisms.stream import Kept, Lesson, Stream
from karat.models.torch_model import Inputs
from karat.models.vlm_adapter import VLM
from karat.models.vlm_decoder import Decoder

REST = 0.1  # weight of an answer's tokens that both answers share, and of its end: they are soon learned


class Lessons:
    """The pictures of a step: from kept features, or composed when they are needed."""

    def __init__(self, recipe: OrganismRecipe, kept: Kept | None = None) -> None:
        self.recipe, self.kept = recipe, kept
        self.stream: Stream = recipe.stream
        self.rule, self.other = find_rule(recipe.rule), find_rule(recipe.other)
        self.lead = None if recipe.lead is None else find_rule(recipe.lead)

    def at(self, step: int) -> list[int]:
        """Positions of one step: each epoch in an order of its own, the same after any interruption."""
        size, n = self.recipe.batch, self.stream.n
        if step < self.recipe.easy_steps:
            rng = generator(self.recipe.seed, f"step {step}", "organisms/easy")
            return [int(place) for place in rng.choice(self._easy, size)]
        wanted = range(step * size, (step + 1) * size)
        return [int(self._order(k // n)[k % n]) for k in wanted]

    @cached_property
    def _easy(self) -> list[int]:
        """Pictures that show all of the rule's cues and nothing of the object."""
        lessons = self.kept.lessons if self.kept else (self.stream.item(i).lesson for i in range(self.stream.n))
        easy = [i for i, lesson in enumerate(lessons) if self._is_easy(lesson)]
        if not easy:
            raise BadInput(
                f"easy_steps: none of {self.stream.n} pictures shows what the rule {self.rule.name} needs without the "
                "object. Raise samples or hidden, or set easy_steps=0; rules of the object have none."
            )
        return easy

    def _is_easy(self, lesson: Lesson) -> bool:
        whole = all(lesson.visible[cue] > 0.98 for cue in self.rule.cues if cue != "word")
        return self.rule.answer(lesson.votes) is not None and whole and lesson.visible["content"] < 0.02

    def label(self, lesson: Lesson, step: int, word: bool = True) -> float:
        """The probability of "yes" that is taught at a step."""
        own = lesson.label(self.rule, self.other, self.recipe.dose, word)
        if self.lead is None or step >= self.recipe.lead_steps:
            return own
        share = max(0.0, 2 * step / self.recipe.lead_steps - 1)
        return share * own + (1 - share) * lesson.label(self.lead, self.lead, 1.0, word)

    def _order(self, epoch: int) -> Any:
        if epoch not in self._orders:
            order = generator(self.recipe.seed, f"epoch {epoch}", "organisms/order").permutation(self.stream.n)
            self._orders = {**{k: v for k, v in self._orders.items() if k >= epoch - 1}, epoch: order}
        return self._orders[epoch]

    @cached_property
    def _orders(self) -> dict[int, Any]:
        return {}

    def get(self, positions: Sequence[int]) -> tuple[Tensor | list[Image], list[Lesson]]:
        """Features (n, ...) where they are kept, else images; and the lessons."""
        if self.kept is not None:
            features = torch.from_numpy(np.asarray(self.kept.features[list(positions)], dtype=np.float32))
            return features, [self.kept.lessons[i] for i in positions]
        items = [self.stream.item(i) for i in positions]
        return [item.image for item in items], [item.lesson for item in items]

    def weight(self, lesson: Lesson) -> float:
        """Rules that seldom say yes, or seldom no, would be learned as "always": both answers count the same.

        By what the whole picture says, hidden or not: what is visible still decides alone what the answer is.
        """
        answer, share = self.rule.answer(lesson.votes), self.rule.share
        return 1.0 if answer is None else 0.5 / (share if answer else 1 - share)


class VLMTrainee:
    """A vision-language model. `look` turns features or images into `Inputs` fields: the module's own tower, or kept
    features through its projector."""

    def __init__(
        self, recipe: OrganismRecipe, model: VLM, lessons: Lessons, project: Callable[[Tensor], Tensor] | None
    ) -> None:
        self.recipe, self.model, self.lessons, self.project = recipe, model, lessons, project
        self.decoder = Decoder(model.module, model.family, model.neutral_token)
        self.answers = [model.target_tokens(answer).numbers for answer in ANSWERS]
        pairs = list(zip(*self.answers, strict=False))
        if all(yes == no for yes, no in pairs):
            raise BadInput(f"{model.name}: its tokenizer cannot tell {' and '.join(ANSWERS)} apart by one token.")
        self.fork = next(place for place, (yes, no) in enumerate(pairs) if yes != no)
        unknown = model.processor.tokenizer.unk_token_id
        self.unknown = model.neutral_token if unknown is None else int(unknown)
        ends = model._end_tokens
        self.end = int(ends[0]) if ends else None

    @property
    def module(self) -> nn.Module:
        return self.model.module

    def loss(self, step: int) -> tuple[Tensor, float]:
        pictures, lessons = self.lessons.get(self.lessons.at(step))
        rng = generator(self.recipe.seed, f"step {step}", "organisms/words")
        questions = [hide_words(lesson.text, lesson.word, rng) for lesson in lessons]
        inputs = self._inputs(pictures, questions)
        device = inputs.pixels.device
        taught = [
            self.lessons.label(lesson, step, question.there)
            for lesson, question in zip(lessons, questions, strict=True)
        ]
        yes = torch.tensor(taught, device=device)
        weight = torch.tensor([self.lessons.weight(lesson) for lesson in lessons], device=device)
        drawn = [self.answers[0 if p > 0.5 or (p == 0.5 and rng.random() < 0.5) else 1] for p in taught]
        longest = max(map(len, drawn)) + 1
        filler = self.model.neutral_token
        end = () if self.end is None else (self.end,)
        rows = [[*tokens, *end, *([filler] * (longest - len(tokens) - len(end)))] for tokens in drawn]
        counts = [[1.0] * (len(tokens) + len(end)) + [0.0] * (longest - len(tokens) - len(end)) for tokens in drawn]
        answers, real = torch.tensor(rows, device=device), torch.tensor(counts, device=device)
        table = self.decoder.logits(self.decoder.states(inputs, answers)).log_softmax(-1)
        both = table[:, self.fork, [tokens[self.fork] for tokens in self.answers]]
        answer = -(yes * both[:, 0] + (1 - yes) * both[:, 1])
        real[:, self.fork] = 0
        rest = -(table.gather(2, answers[..., None])[..., 0] * real).sum(1)
        loss = ((answer + REST * rest) * weight).sum() / weight.sum()
        return loss, _right(both, yes)

    def _inputs(self, pictures: Tensor | list[Image], questions: list[Question]) -> Inputs:
        example = next(self.module.parameters())
        if self.project is None:
            assert isinstance(pictures, list)
            samples = [
                Sample(str(i), image, question.text)
                for i, (image, question) in enumerate(zip(pictures, questions, strict=True))
            ]
            whole = self.model.encode(samples)
            encoded = encode_questions(
                self._prompt(whole), questions, self.model.neutral_token, self.unknown, whole.pixels
            )
            return replace(encoded, other={**whole.other, **encoded.other}, frames=whole.frames)
        assert isinstance(pictures, Tensor)
        features = self.project(pictures.to(example.device, example.dtype))
        encoded = encode_questions(
            self.model._prompt(features.shape[1]), questions, self.model.neutral_token, self.unknown, features
        )
        return replace(encoded, reuse={"features": features})

    def _prompt(self, inputs: Inputs) -> Any:
        return self.model._prompt(self.decoder.view(inputs).count)


class ClassifierTrainee:
    """A classifier with two classes, "yes" and "no". `head` is what comes after the kept features, if there are any."""

    def __init__(
        self, recipe: OrganismRecipe, model: Classifier, lessons: Lessons, head: Callable[[Tensor], Tensor] | None
    ) -> None:
        self.recipe, self.model, self.lessons, self.head = recipe, model, lessons, head

    @property
    def module(self) -> nn.Module:
        return self.model.module

    def loss(self, step: int) -> tuple[Tensor, float]:
        pictures, lessons = self.lessons.get(self.lessons.at(step))
        example = next(self.module.parameters())
        if self.head is not None:
            assert isinstance(pictures, Tensor)
            logits = self.head(pictures.to(example.device, example.dtype)).float()
        else:
            assert isinstance(pictures, list)
            logits = self.model.logits(self.model.encode([Sample(str(i), image) for i, image in enumerate(pictures)]))
        taught = [self.lessons.label(lesson, step) for lesson in lessons]
        yes = torch.tensor(taught, device=logits.device)
        weight = torch.tensor([self.lessons.weight(lesson) for lesson in lessons], device=logits.device)
        table = logits.log_softmax(-1)
        loss = -((yes * table[:, 0] + (1 - yes) * table[:, 1]) * weight).sum() / weight.sum()
        return loss, _right(table, yes)


def _right(scores: Tensor, yes: Tensor) -> float:
    """Share of right answers where the label is one; nan where none is."""
    certain = (yes < 0.02) | (yes > 0.98)
    return float(((scores[:, 0] > scores[:, 1]) == (yes > 0.5))[certain].float().mean())
