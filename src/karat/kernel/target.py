"""`Target`: what is explained. A span of what was said, everything before it being context.

A model says "(B)". What fsyn2026 explains is the "B", given that "(" was said: P(B | "("). So a target is a text and a
span of its characters; values, gradients, attention rows, relevance and activations are those of the span's tokens, and
the text before the span is a prefix that the model is made to say, whatever it sees. What was said after the span plays
no part.

Characters become tokens by one rule: a token belongs to the span if it covers any character of it (`tokens_of`). White
space at either end of a span is not part of it, unless there is nothing else. So the token " dog" is the word "dog"; a
token "(B" that no border divides belongs to the span "B"; a token that is nothing but the space before a word is
context; and a token before the first character, such as the space that a prompt asks for, goes with what opens the
text.

A plain text stands for itself as a whole wherever a target is taken.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from karat.kernel.errors import BadInput
from karat.kernel.typing import Span

_WORDS = re.compile(r"\w+(?:['’-]\w+)*")
_SENTENCES = re.compile(r"[^\s.!?][^.!?\n]*(?:[.!?](?=\w)[^.!?\n]*)*[.!?]*")  # "1.5" goes on, "dog. The" does not


@dataclass(frozen=True)
class Target:
    """A span of a text that was said.

    >>> b = Target("(B) a cup", (1, 2))
    >>> b.words, b.context
    ('B', '(')

    Attributes:
        text: What was said, in full.
        span: Start and end (exclusive) of the characters that are explained; white space at its ends is left out.
        contrast: Words that could have stood there instead. Raw scores are then differences (span minus contrast), and
            the probability is that of the span if it is known to be one of the two: P(span) / (P(span) + P(contrast)).
        joint: Explain the whole text up to the end of the span, with no context: P("(") · P(B | "(").
    """

    text: str
    span: Span
    contrast: str | None = None
    joint: bool = False

    def __post_init__(self) -> None:
        start, stop = self.span
        if not 0 <= start < stop <= len(self.text):
            raise BadInput(
                f"a span is (start, end) within the {len(self.text)} characters of what was said; got {self.span} of "
                f"{_short(self.text)}."
            )
        if self.contrast is not None and not self.contrast.strip():
            raise BadInput("a contrast is a text with at least one word; got an empty one.")
        inner = self.text[start:stop]
        if inner.strip():  # a token may be a line break, and a target
            start, stop = start + len(inner) - len(inner.lstrip()), stop - len(inner) + len(inner.rstrip())
        object.__setattr__(self, "span", (start, stop))

    @property
    def words(self) -> str:
        """What is explained; of a joint target the context as well."""
        return self.text[0 if self.joint else self.span[0] : self.span[1]]

    @property
    def context(self) -> str:
        """What was said before, which the model is made to say."""
        return "" if self.joint else self.text[: self.span[0]]

    def __str__(self) -> str:
        return self.words

    def instead(self, words: str) -> Target:
        """The same context, with other words in the span's place."""
        start = self.span[0]
        return Target(self.text[:start] + words, (start, start + len(words)), joint=self.joint)

    @staticmethod
    def whole(text: str, contrast: str | None = None) -> Target:
        """All of a text."""
        return Target(text, (0, len(text)), contrast)

    @staticmethod
    def word(word: str, text: str, occurrence: int = 1) -> Target:
        """The `occurrence`-th time (from 1) that a word stands in a text; whole words, in any case if not as written.

        >>> Target.word("dog", "A dog sees a dog.", occurrence=2).span
        (13, 16)
        """
        spans = [match.span() for match in _WORDS.finditer(text)]
        return _nth(word, text, _same(word, text, spans), spans, occurrence)

    @staticmethod
    def phrase(phrase: str, text: str, occurrence: int = 1) -> Target:
        """The `occurrence`-th time (from 1) that a few words stand in a text one after the other, from word to word.

        >>> Target.phrase("a dog", "A dog sees a dog.").context
        'A dog sees '
        """
        pattern = r"\s+".join(re.escape(part) for part in phrase.split())
        if not pattern:
            raise BadInput("a phrase is a text with at least one word; got an empty one.")
        edges = (r"(?<!\w)" if phrase.strip()[0].isalnum() else "", r"(?!\w)" if phrase.strip()[-1].isalnum() else "")
        for flags in (0, re.IGNORECASE):
            spans = [match.span() for match in re.finditer(edges[0] + pattern + edges[1], text, flags)]
            if spans:
                break
        return _nth(phrase, text, spans, _runs(text, len(phrase.split())), occurrence)

    @staticmethod
    def sentence(number: int, text: str) -> Target:
        """The `number`-th sentence of a text, from 1, or from -1 backwards. Sentences end with . ! ? or a line.

        >>> Target.sentence(2, "There is a dog. It is red.").words
        'It is red.'
        """
        spans = [match.span() for match in _SENTENCES.finditer(text)]
        return Target(text, _at(number, spans, "sentence", text))

    @staticmethod
    def token(number: int, text: str, spans: Sequence[Span]) -> Target:
        """The `number`-th token of a text, from 1, or from -1 backwards. `spans` are the characters of each token, as
        `karat.models.vlm`'s models give them by `token_spans(text)`."""
        return Target(text, _at(number, spans, "token", text))


TargetLike = str | Target


def split_spoken(text: str) -> list[Span]:
    """The words of what was said; where it has none (a formula, a sign), what stands between spaces.

    >>> split_spoken("A dog, asleep."), split_spoken("+ ?")
    ([(0, 1), (2, 5), (7, 13)], [(0, 1), (2, 3)])
    """
    words = [match.span() for match in _WORDS.finditer(text)]
    return words or [match.span() for match in re.finditer(r"\S+", text)]


def text_of(target: TargetLike) -> str:
    """All that was said."""
    return target if isinstance(target, str) else target.text


def plain(target: Target) -> TargetLike:
    """A target that is all of its text and nothing more, as that text: models that answer as a whole take no other."""
    if target.span == (0, len(target.text)) and target.contrast is None:
        return target.text
    return target


def instead(target: TargetLike, words: str) -> TargetLike:
    """Other words in a target's place, in its context."""
    return words if isinstance(target, str) else target.instead(words)


def distinct(targets: Iterable[TargetLike]) -> list[TargetLike]:
    """Each target once, in the order of their words."""
    return sorted(set(targets), key=lambda target: (str(target), repr(target)))


def whole_answer(target: TargetLike, model: str) -> str:
    """The text of a target for a model that does not answer token by token; an error where only a part is meant."""
    if isinstance(target, str):
        return target
    if target.span[1] < len(target.text) or target.context:
        raise BadInput(
            f"{model!r} answers as a whole, so no part of its answer can be explained: asked for {target.words!r} of "
            f"{_short(target.text)}. Explain {target.text!r}, or ask a model that answers token by token."
        )
    return target.text


def tokens_of(target: TargetLike, spans: Sequence[Span]) -> tuple[int, int]:
    """The tokens that are explained, from first to last (exclusive): those that cover any character of the span.

    `spans` are the characters that each token of the text covers. Tokens of no characters belong to nobody, but those
    that come before the text do to a span that opens it.

    >>> tokens_of(Target("(B) a cup", (1, 2)), [(0, 1), (1, 2), (2, 3), (3, 5), (5, 9)])
    (1, 2)
    >>> tokens_of(Target("a dog", (2, 5)), [(0, 1), (1, 5)])
    (1, 2)
    """
    if isinstance(target, str):
        return 0, len(spans)
    start, stop = target.span
    covering = [k for k, (a, b) in enumerate(spans) if a < stop and b > start]
    if not covering:
        raise BadInput(f"no token of {_short(target.text)} covers {target.words!r}: the tokenizer leaves it out.")
    return 0 if target.joint or start == 0 else covering[0], covering[-1] + 1


def _same(word: str, text: str, spans: Sequence[Span]) -> list[Span]:
    """The spans that hold a word: as written or, if there is none, in any case."""
    exact = [span for span in spans if text[slice(*span)] == word.strip()]
    return exact or [span for span in spans if text[slice(*span)].casefold() == word.strip().casefold()]


def _nth(wanted: str, text: str, spans: Sequence[Span], others: Sequence[Span], occurrence: int) -> Target:
    if not spans:
        near = difflib.get_close_matches(wanted, dict.fromkeys(text[slice(*span)] for span in others), n=3, cutoff=0.5)
        hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise BadInput(f"{wanted!r} was not said; what was said is {_short(text)}.{hint}")
    if not 1 <= occurrence <= len(spans):
        times = "once" if len(spans) == 1 else f"{len(spans)} times"
        raise BadInput(f"{wanted!r} was said {times}, counted from 1; got occurrence {occurrence}.")
    return Target(text, spans[occurrence - 1])


def _at(number: int, spans: Sequence[Span], kind: str, text: str) -> Span:
    if number == 0 or abs(number) > len(spans):
        raise BadInput(f"{_short(text)} has {len(spans)} {kind}s, counted from 1, or from -1 backwards; got {number}.")
    return spans[number - 1 if number > 0 else number]


def _runs(text: str, length: int) -> list[Span]:
    """Every run of so many words."""
    spans = [match.span() for match in _WORDS.finditer(text)]
    return [(first[0], last[1]) for first, last in zip(spans, spans[length - 1 :], strict=False)]


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "...")
