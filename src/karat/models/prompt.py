"""`Prompt`: a question in its chat template, as tokens: what stands before it, the question, what stands after it.

Only the question's tokens are `Inputs.tokens`, so templates, instructions, special tokens and image tokens are never
players. Rows of a batch are padded right after the question, so that the image and the reading position stand at the
same place in all.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from karat.kernel.errors import BadInput
from karat.kernel.sample import split_words

_MARK = "\u2045question\u2046"  # no template and no question holds it
PLAIN = "USER: {image}\n{question} ASSISTANT:"  # LLaVA 1.5's, for processors that carry no template


@dataclass(frozen=True)
class Encoded:
    """Token numbers of one prompt; `words[j]` is the span of word j in `question`."""

    before: tuple[int, ...]
    question: tuple[int, ...]
    after: tuple[int, ...]
    words: tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False)
class Prompt:
    """`tokenizer` is a fast one (it tells which characters a token covers)."""

    tokenizer: Any
    before: str
    after: str

    @staticmethod
    def of(processor: Any, image_token: str, shown: str, suffix: str = "") -> Prompt:
        """The template of a processor, taken apart at the question.

        `image_token` is what the template writes for an image, `shown` what the processor makes of it. `suffix` is an
        instruction that follows every question and is no part of it.
        """
        tokenizer = processor.tokenizer
        if not getattr(tokenizer, "is_fast", False):
            raise BadInput(
                f"{type(tokenizer).__name__} cannot tell which characters a token covers: use a fast tokenizer."
            )
        if getattr(processor, "chat_template", None) or getattr(tokenizer, "chat_template", None):
            content = [{"type": "image"}, {"type": "text", "text": _MARK}]
            whole = processor.apply_chat_template([{"role": "user", "content": content}], add_generation_prompt=True)
        else:
            whole = PLAIN.format(image=image_token, question=_MARK)
        before, mark, after = whole.partition(_MARK)
        if not mark or (before + after).count(image_token) != 1:
            raise BadInput(
                f"the chat template must show the question and one {image_token!r}; it gives {whole!r}. Put the image "
                "token into the processor's chat_template."
            )
        before, after = (part.replace(image_token, shown) for part in (before, after))
        return Prompt(tokenizer, before, suffix + after)

    def encode(self, question: str) -> Encoded:
        """Tokens of the whole prompt, tokenised as one text, cut where the question starts and ends."""
        text = self.before + question + self.after
        start, stop = len(self.before), len(self.before) + len(question)
        # A template that writes the first token itself must not get it twice.
        first = self.tokenizer.bos_token
        whole = self.tokenizer(
            text, return_offsets_mapping=True, add_special_tokens=not (first and text.startswith(first))
        )
        numbers, spans = whole["input_ids"], whole["offset_mapping"]
        inside = [k for k, (a, b) in enumerate(spans) if a < stop and b > start and b > a]
        passed = [k for k, (a, b) in enumerate(spans) if b <= start or b == a == 0]
        head = inside[0] if inside else (max(passed) + 1 if passed else 0)
        tail = inside[-1] + 1 if inside else head
        covered = [(a - start, b - start) for a, b in spans[head:tail]]
        return Encoded(
            tuple(numbers[:head]), tuple(numbers[head:tail]), tuple(numbers[tail:]), _words_in(question, covered)
        )

    def answer(self, answer: str) -> tuple[int, ...]:
        """Tokens of an answer as it would be generated: tokenised after the end of the prompt, not alone."""
        return _answer_tokens(self, answer)


@cache
def _answer_tokens(prompt: Prompt, answer: str) -> tuple[int, ...]:
    gap = "" if prompt.after[-1:].isspace() else " "
    shown = prompt.tokenizer(prompt.after, add_special_tokens=False)["input_ids"]
    whole = prompt.tokenizer(prompt.after + gap + answer, add_special_tokens=False)["input_ids"]
    alone = prompt.tokenizer(answer, add_special_tokens=False)["input_ids"]
    numbers = tuple(whole[len(shown) :]) if whole[: len(shown)] == shown else tuple(alone)
    if not numbers:
        raise BadInput(f"the answer {answer!r} has no tokens.")
    return numbers


def _words_in(question: str, covered: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Token span of every word; a token over two words belongs to the first of them."""
    words = split_words(question)
    owners = [next((j for j, (a, b) in enumerate(words) if start < b and stop > a), -1) for start, stop in covered]
    mine = [[k for k, owner in enumerate(owners) if owner == j] for j in range(len(words))]
    return tuple((tokens[0], tokens[-1] + 1) if tokens else (0, 0) for tokens in mine)
