"""`Prompt`: a question in its chat template, as tokens: what stands before it, the question, what stands after it.

Only the question's tokens are `Inputs.tokens`, so templates, instructions, special tokens and image tokens are never
players. Rows of a batch are padded right after the question, so that the image and the reading position stand at the
same place in all.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from karat.kernel.errors import BadInput
from karat.kernel.sample import split_words
from karat.kernel.typing import Span

MARK = "\u2045question\u2046"  # no template and no question holds it
PLAIN = "USER: {image}\n{question} ASSISTANT:"  # LLaVA 1.5's, for processors that carry no template


@dataclass(frozen=True)
class Encoded:
    """Token numbers of one prompt; `words[j]` is the span of word j in `question`."""

    before: tuple[int, ...]
    question: tuple[int, ...]
    after: tuple[int, ...]
    words: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Spoken:
    """A text as a model would generate it: token numbers, and the characters of the text that each covers."""

    numbers: tuple[int, ...]
    spans: tuple[Span, ...]


@dataclass(frozen=True, eq=False)
class Prompt:
    """`tokenizer` is a fast one (it tells which characters a token covers)."""

    tokenizer: Any
    before: str
    after: str
    special: bool | None = None  # whether the tokenizer adds special tokens; None: unless the text begins with one

    @staticmethod
    def of(processor: Any, image_token: str, image: str, suffix: str = "") -> Prompt:
        """The template of a processor, taken apart at the question.

        `image_token` is what the template writes for an image, `image` what the processor makes of it. `suffix` is an
        instruction that follows every question and is no part of it.
        """
        tokenizer = processor.tokenizer
        if not getattr(tokenizer, "is_fast", False):
            raise BadInput(
                f"{type(tokenizer).__name__} cannot tell which characters a token covers: use a fast tokenizer."
            )
        if getattr(processor, "chat_template", None) or getattr(tokenizer, "chat_template", None):
            content = [{"type": "image"}, {"type": "text", "text": MARK}]
            whole = processor.apply_chat_template([{"role": "user", "content": content}], add_generation_prompt=True)
        else:
            whole = PLAIN.format(image=image_token, question=MARK)
        before, mark, after = whole.partition(MARK)
        if not mark or (before + after).count(image_token) != 1:
            raise BadInput(
                f"the chat template must show the question and one {image_token!r}; it gives {whole!r}. Put the image "
                "token into the processor's chat_template."
            )
        before, after = (part.replace(image_token, image) for part in (before, after))
        return Prompt(tokenizer, before, suffix + after)

    def encode(self, question: str) -> Encoded:
        """Tokens of the whole prompt, tokenised as one text, cut where the question starts and ends."""
        text = self.before + question + self.after
        start, stop = len(self.before), len(self.before) + len(question)
        # A template that writes the first token itself must not get it twice.
        first = self.tokenizer.bos_token
        special = not (first and text.startswith(first)) if self.special is None else self.special
        whole = self.tokenizer(text, return_offsets_mapping=True, add_special_tokens=special)
        numbers, spans = whole["input_ids"], whole["offset_mapping"]
        inside = [k for k, (a, b) in enumerate(spans) if a < stop and b > start and b > a]
        passed = [k for k, (a, b) in enumerate(spans) if b <= start or b == a == 0]
        head = inside[0] if inside else (max(passed) + 1 if passed else 0)
        tail = inside[-1] + 1 if inside else head
        covered = [(a - start, b - start) for a, b in spans[head:tail]]
        return Encoded(
            tuple(numbers[:head]), tuple(numbers[head:tail]), tuple(numbers[tail:]), words_in(question, covered)
        )

    def spoken(self, text: str) -> Spoken:
        """An answer as it would be generated: tokenised after the end of the prompt, not alone."""
        if text not in self._spoken:
            self._spoken[text] = self._tokenised(text)
        return self._spoken[text]

    def _tokenised(self, text: str) -> Spoken:
        prompt = self.after + ("" if self.after[-1:].isspace() else " ")
        ending = self.tokenizer(self.after, add_special_tokens=False)["input_ids"]
        whole = self.tokenizer(prompt + text, add_special_tokens=False, return_offsets_mapping=True)
        start, skipped = len(prompt), len(ending)
        if whole["input_ids"][:skipped] != ending:  # the answer would change how the prompt is cut
            whole = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
            start = skipped = 0
        numbers, spans = whole["input_ids"][skipped:], whole["offset_mapping"][skipped:]
        if not numbers:
            raise BadInput(f"the answer {text!r} has no tokens.")
        return Spoken(tuple(numbers), tuple((max(a - start, 0), max(b - start, 0)) for a, b in spans))

    @cached_property
    def _spoken(self) -> dict[str, Spoken]:
        """Answers so far: few, and asked about again and again."""
        return {}


def words_in(question: str, covered: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Token span of every word; a token over two words belongs to the first of them."""
    words = split_words(question)
    owners = [next((j for j, (a, b) in enumerate(words) if start < b and stop > a), -1) for start, stop in covered]
    mine = [[k for k, owner in enumerate(owners) if owner == j] for j in range(len(words))]
    return tuple((tokens[0], tokens[-1] + 1) if tokens else (0, 0) for tokens in mine)
