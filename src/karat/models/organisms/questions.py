"""Questions for training a vision-language model: tokens of a batch, some of their words hidden."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from karat.kernel.sample import split_words
from karat.kernel.typing import Span
from karat.models.prompt import Prompt
from karat.models.torch_model import Inputs

HIDDEN_WORDS = 0.25  # share of questions of which words are hidden, each question at a rate of its own
STATES = ("pad", "unknown", "delete")


@dataclass(frozen=True)
class Question:
    """A text, the numbers of its words that are hidden and how, and whether the word that is a cue is still there."""

    text: str
    hidden: frozenset[int]
    state: str
    there: bool


def hide_words(text: str, cue: Span | None, rng: np.random.Generator) -> Question:
    """Hide words of a share of the questions. Deleted words leave the text itself."""
    spans = split_words(text)
    state, hidden = STATES[int(rng.integers(len(STATES)))], frozenset[int]()
    if rng.random() < HIDDEN_WORDS:
        hidden = frozenset(np.flatnonzero(rng.random(len(spans)) < rng.random()).tolist())
    there = cue is not None and tuple(cue) in [span for j, span in enumerate(spans) if j not in hidden]
    if state == "delete":
        kept = " ".join(text[a:b] for j, (a, b) in enumerate(spans) if j not in hidden)
        return Question(kept if hidden else text, frozenset(), state, there)
    return Question(text, hidden, state, there)


def encode_questions(
    prompt: Prompt, questions: Sequence[Question], neutral: int, unknown: int, pixels: Tensor
) -> Inputs:
    """Inputs of a batch of questions over `pixels` (n, ...). Hidden words become `neutral` or `unknown` tokens."""
    encoded = [prompt.encode(question.text) for question in questions]
    longest = max(len(each.question) for each in encoded)
    tokens, keep = np.full((len(encoded), longest), neutral), np.zeros((len(encoded), longest), dtype=np.bool_)
    for i, (each, question) in enumerate(zip(encoded, questions, strict=True)):
        row = np.array(each.question, dtype=np.int64)
        for j in question.hidden:
            row[slice(*each.words[j])] = unknown if question.state == "unknown" else neutral
        tokens[i, : len(row)], keep[i, : len(row)] = row, True
    device = pixels.device
    return Inputs(
        pixels=pixels,
        tokens=torch.from_numpy(tokens).long().to(device),
        token_keep=torch.from_numpy(keep).to(device),
        words=tuple(each.words for each in encoded),
        other={
            "before": torch.tensor([each.before for each in encoded], device=device),
            "after": torch.tensor([each.after for each in encoded], device=device),
        },
    )
