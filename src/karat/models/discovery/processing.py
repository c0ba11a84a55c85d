"""`Processing`: a processor's own call on one image and one question, taken apart: tokens, tables by token, images.

Nothing of what a processor does is written again here. What it hands to its tokenizer and to its image processor is
recorded while it runs, so that the question is found in the prompt, and images can be processed once more as tensors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from karat.kernel.errors import BadInput
from karat.kernel.typing import Image
from karat.models.prompt import MARK, PLAIN, Encoded, Prompt, words_in

if TYPE_CHECKING:
    from torch import Tensor

_TOKENS = "input_ids"
_MASK = "attention_mask"
_NOT_ASKED = ("labels", "offset_mapping", "special_tokens_mask")  # of training, and of tokenizers


@dataclass(frozen=True, eq=False)
class Prepared:
    """One sample as its processor makes it. `tables` have a value per token, (1, L, ...); `images` are whatever else
    the model takes: one row, or several (patches, tiles), per sample."""

    tokens: tuple[int, ...]
    tables: Mapping[str, Tensor]
    images: Mapping[str, Tensor]


@dataclass(eq=False)
class _Recorder:
    """Stands for a part of a processor while it runs, and keeps what it was called with."""

    part: Any
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = field(default_factory=list)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls.append((args, kwargs))
        return self.part(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.part, name)

    def __len__(self) -> int:
        return len(self.part)


@dataclass(frozen=True, eq=False)
class Processing:
    """`suffix` is an instruction that follows every question and is no part of it; `bare`: the question is the whole
    text, without a template."""

    processor: Any
    suffix: str = ""
    bare: bool = False

    @property
    def tokenizer(self) -> Any:
        return self.processor.tokenizer

    def chat(self, question: str, said: str = "") -> str:
        """The text that the processor is given; `said` is the beginning of an answer."""
        text = question + self.suffix
        if self._has_template and not self.bare:
            content = [{"type": "image"}, {"type": "text", "text": text}]
            chat = str(
                self.processor.apply_chat_template([{"role": "user", "content": content}], add_generation_prompt=True)
            )
        elif (token := self.image_token) and not self.bare and not self._writes_images:
            chat = PLAIN.format(image=token, question=text)
        else:
            chat = text
        gap = " " if said and chat and not chat[-1].isspace() else ""
        return chat + gap + said

    @property
    def image_token(self) -> str | None:
        """What a prompt writes for an image; None where images stand in no prompt."""
        token = getattr(self.processor, "image_token", None) or getattr(self.tokenizer, "image_token", None)
        return None if token is None else str(token)

    def one(self, image: Image, question: str) -> Prepared:
        return self.taken_apart(self.call([image], [self.chat(question)]))

    def call(self, images: Sequence[Any], texts: Sequence[str]) -> dict[str, Any]:
        """What the processor makes of images and texts."""
        from PIL import Image as Pillow

        images = [Pillow.fromarray(image) if isinstance(image, np.ndarray) else image for image in images]
        try:
            made = self.processor(images=images, text=list(texts), return_tensors="pt")
        except (ValueError, TypeError, RuntimeError, LookupError, AttributeError, StopIteration) as error:
            raise BadInput(
                f"{type(self.processor).__name__} cannot process an image and the text {texts[0]!r}: "
                f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
            ) from error
        return dict(made)

    @staticmethod
    def taken_apart(made: Mapping[str, Any]) -> Prepared:
        import torch

        tokens = made.get(_TOKENS)
        if not isinstance(tokens, torch.Tensor) or tokens.ndim != 2:
            raise BadInput(f"the processor gives no table of {_TOKENS}; it gives {', '.join(made)}.")
        length = tokens.shape[1]
        tables: dict[str, Tensor] = {}
        images: dict[str, Tensor] = {}
        for name, value in made.items():
            if name in (_TOKENS, _MASK, *_NOT_ASKED) or value is None:
                continue
            tensor = value if isinstance(value, torch.Tensor) else torch.as_tensor(np.asarray(value))
            by_token = tensor.ndim >= 2 and tensor.shape[0] == 1 and tensor.shape[1] == length and "pixel" not in name
            (tables if by_token else images)[name] = tensor
        return Prepared(tuple(tokens[0].tolist()), tables, images)

    def prompt(self, image: Image) -> Prompt | None:
        """The prompt around the question for images of one size; None where the tokenizer is not given one text."""
        with self.recorded("tokenizer") as recorder:
            self.call([image], [self.chat(MARK)])
        for args, kwargs in recorder.calls:
            text = args[0] if args else kwargs.get("text")
            text = text[0] if isinstance(text, list) and len(text) == 1 else text
            if isinstance(text, str) and text.count(MARK) == 1:
                before, _, after = text.partition(MARK)
                return Prompt(self.tokenizer, before, after, bool(kwargs.get("add_special_tokens", True)))
        return None

    def encode(self, prompt: Prompt | None, tokens: Sequence[int], question: str, image: Image) -> Encoded:
        """Where the question stands in `tokens`, which the processor made of it: by the characters that tokens cover,
        or, where these do not tell, by what changes when the question is another."""
        if prompt is not None:
            encoded = prompt.encode(question)
            if [*encoded.before, *encoded.question, *encoded.after] == list(tokens):
                return encoded
        return self._by_replacement(tokens, question, image)

    def _by_replacement(self, tokens: Sequence[int], question: str, image: Image) -> Encoded:
        others = [self.one(image, other).tokens for other in _replacements(question)]
        start = min(_shared(tokens, other) for other in others)
        stop = min(_shared(tokens[::-1], other[::-1]) for other in others)
        inside = tokens[start : max(start, len(tokens) - stop)]
        for text, lead in ((question, 0), (" " + question, 1)):
            alone = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
            numbers = alone["input_ids"]
            for shift in range(max(0, start - 2), start + 3):
                if numbers and list(tokens[shift : shift + len(numbers)]) == numbers:
                    spans = [(max(a - lead, 0), max(b - lead, 0)) for a, b in alone["offset_mapping"]]
                    stop = shift + len(numbers)
                    words = words_in(question, spans)
                    return Encoded(tuple(tokens[:shift]), tuple(numbers), tuple(tokens[stop:]), words)
        raise BadInput(
            f"probe 'where the question stands': {question!r} was not found in the processor's prompt; another "
            f"question changes {len(inside)} of its {len(tokens)} tokens ({self.tokenizer.decode(inside)[:80]!r}). The "
            "chat template must show the question once, as it is."
        )

    @contextmanager
    def recorded(self, part: str) -> Iterator[_Recorder]:
        """What the processor calls its part `part` with, for the while."""
        original = getattr(self.processor, part)
        recorder = _Recorder(original)
        setattr(self.processor, part, recorder)
        try:
            yield recorder
        finally:
            setattr(self.processor, part, original)

    @cached_property
    def _writes_images(self) -> bool:
        """Whether the processor itself puts image tokens before a text that holds none (BLIP-2, Florence-2)."""
        try:
            made = self.call([np.zeros((64, 64, 3), np.uint8)], ["?"])
        except BadInput:
            return False
        return self.tokenizer.convert_tokens_to_ids(self.image_token) in made[_TOKENS][0]

    @cached_property
    def _has_template(self) -> bool:
        held = getattr(self.processor, "chat_template", None) or getattr(self.tokenizer, "chat_template", None)
        return bool(held)


def _replacements(question: str) -> tuple[str, str]:
    """Two other questions, none of whose ends is the question's."""
    words = question.split() or ["what"]
    return " ".join(["Zebra", *words[1:-1], "quickly"]), " ".join(["0", *words[1:-1], "9"])


def _shared(one: Sequence[int], other: Sequence[int]) -> int:
    """Length of the shared beginning."""
    return next((k for k, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
