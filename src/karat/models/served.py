"""`served`: a model behind an OpenAI-compatible server. It is asked, never looked into."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Ge, Gt

from karat.kernel.card import Card
from karat.kernel.errors import BadInput, Unavailable
from karat.kernel.identity import digest
from karat.kernel.registry import checked
from karat.kernel.sample import Sample
from karat.kernel.target import Target, TargetLike, tokens_of
from karat.kernel.typing import Scalar, Span, Values
from karat.models.served_answers import (
    CHAT,
    How,
    NoLogProbabilities,
    Token,
    likeliest,
    messages,
    next_question,
    said,
    spoken_question,
    spoken_tokens,
)
from karat.models.served_memory import Remembered, default_folder

if TYPE_CHECKING:
    from karat.models.served_client import Client

CAPABILITIES = frozenset({"scores", "autoregressive", "text"})
_WAYS: tuple[How, ...] = ("prompt_logprobs", "echo", "top_logprobs")
_NEGLIGIBLE = 1e-3  # an answer that is not among the likeliest counts as 0 where it could be no more than this
_LEAST = -745.0  # of a log-probability: exp of it is the smallest float above 0


@dataclass(frozen=True)
class ServedRecipe:
    """A model behind a server that speaks OpenAI's language: vLLM, SGLang, llama.cpp, closed ones.

    Attributes:
        url: Where the API begins, e.g. http://localhost:8000/v1.
        model: The name that the server knows it by.
        how: How log-probabilities are asked for; by default the first way that the server knows.
        grid: Rows and columns that an image is cut into, where an explainer hides patches.
        options: If given, the answer is the most probable of these, instead of what the server says.
        suffix: An instruction that follows every question and is no part of it.
        max_new_tokens: At most so many tokens are decoded for an answer.
        version: Raise it when the server has other weights under the same name.
        key: The environment variable that holds the server's key; none if empty.
        concurrency: Questions that are on the way at once.
        timeout: Seconds to wait for an answer.
        retries: Times that a question is tried again, with longer and longer waits.
        max_requests: A ceiling that ends the run; remembered answers count.
        max_tokens: The same, for tokens as the server counts them.
        memory: The folder in which answers are remembered by content; by default in the user's cache.
    """

    card: ClassVar[Card] = Card(
        name="served", summary="a model behind an OpenAI-compatible server (vLLM, SGLang, llama.cpp)", kind="model"
    )
    url: str = ""
    model: str = ""
    how: Literal["auto", "prompt_logprobs", "echo", "top_logprobs"] = "auto"
    grid: tuple[Annotated[int, Ge(1)], Annotated[int, Ge(1)]] = (8, 8)
    options: tuple[str, ...] = ()
    suffix: str = ""
    max_new_tokens: Annotated[int, Ge(1)] = 8
    version: str = "1"
    key: str = field(default="", metadata={"identity": False})
    concurrency: Annotated[int, Ge(1)] = field(default=8, metadata={"identity": False})
    timeout: Annotated[float, Gt(0)] = field(default=120.0, metadata={"identity": False})
    retries: Annotated[int, Ge(0)] = field(default=8, metadata={"identity": False})
    max_requests: Annotated[int, Ge(1)] | None = field(default=None, metadata={"identity": False})
    max_tokens: Annotated[int, Ge(1)] | None = field(default=None, metadata={"identity": False})
    memory: str | None = field(default=None, metadata={"identity": False})
    device: ClassVar[str] = "server"  # one worker: it is the server that computes

    @property
    def label(self) -> str:
        return Path(self.model).name or "served"

    @property
    def facts(self) -> dict[str, Scalar]:
        return {"family": "served", "model": self.model, "version": self.version}

    @property
    def capabilities(self) -> frozenset[str]:
        return CAPABILITIES

    @property
    def revision(self) -> str:
        return f"1:{self.version}"

    def load(self) -> Served:
        if not self.model:
            raise BadInput("served: give `model`, the name that the server knows it by.")
        folder = default_folder() if self.memory is None else Path(self.memory)
        from karat.models.served_client import Client  # its network libraries take time that `karat ls` need not pay

        memory = Remembered(folder / f"{digest([self.url, self.model, self.version])}.sqlite")
        client = Client(
            self.url, self.key, self.concurrency, self.timeout, self.retries, self.max_requests, self.max_tokens, memory
        )
        return Served(client, self)


def served(
    url: str,
    model: str,
    *,
    how: Literal["auto", "prompt_logprobs", "echo", "top_logprobs"] = "auto",
    grid: tuple[int, int] = (8, 8),
    options: Sequence[str] = (),
    suffix: str = "",
    max_new_tokens: int = 8,
    version: str = "1",
    key: str = "",
    concurrency: int = 8,
    timeout: float = 120.0,
    retries: int = 8,
    max_requests: int | None = None,
    max_tokens: int | None = None,
    memory: str | None = None,
) -> Served:
    """A model behind an OpenAI-compatible server, for every explainer that only asks.

        model = served("http://localhost:8000/v1", model="Qwen/Qwen2.5-VL-72B-Instruct")
        karat.explain(model, "cup.jpg", "Is there a cup?", explainer="shapley/kernel_shap")

    Args:
        url: Where the API begins; the path of chat completions follows it.
        model: The name that the server knows it by.
        how, grid, options, suffix, max_new_tokens, version, key, concurrency, timeout, retries, max_requests,
            max_tokens, memory: as in `ServedRecipe`, whose fields a spec names.

    Returns:
        A model that answers, and tells the probability of any span of an answer.
    """
    given = {
        "url": url, "model": model, "how": how, "grid": grid, "options": tuple(options), "suffix": suffix,
        "max_new_tokens": max_new_tokens, "version": version, "key": key, "concurrency": concurrency,
        "timeout": timeout, "retries": retries, "max_requests": max_requests, "max_tokens": max_tokens,
        "memory": memory,
    }  # fmt: skip
    return checked(ServedRecipe, "served", given).load()


@dataclass(frozen=True, eq=False)
class Served:
    """A `Model` over a server. Made by `served`."""

    client: Client
    recipe: ServedRecipe
    mechanism: str | None = None

    @property
    def name(self) -> str:
        return self.recipe.label

    @property
    def capabilities(self) -> frozenset[str]:
        return CAPABILITIES

    @property
    def grid(self) -> tuple[int, int]:
        return self.recipe.grid

    @property
    def answers(self) -> tuple[str, ...]:
        return self.recipe.options

    def answer(self, samples: Sequence[Sample]) -> list[str]:
        """What the server says, greedily, at most `max_new_tokens`; or the best of `options`."""
        if options := self.recipe.options:
            table = np.stack([self.score(samples, [option] * len(samples)) for option in options], 1)
            return [options[k] for k in table.argmax(1)]
        questions = [
            {
                "model": self.recipe.model,
                "messages": messages(sample, self.recipe.suffix),
                "temperature": 0,
                "max_tokens": self.recipe.max_new_tokens,
            }
            for sample in samples
        ]
        return [said(reply) for reply in self.client.ask_all(CHAT, questions)]

    def score(self, samples: Sequence[Sample], targets: Sequence[TargetLike]) -> Values:
        if len(samples) != len(targets):
            raise BadInput(f"{self.name}: one answer per sample; got {len(targets)} for {len(samples)} samples.")
        if not samples:
            return np.zeros(0)
        values = self._log_probabilities(samples, targets)
        contrasts = [target.contrast if isinstance(target, Target) else None for target in targets]
        rows = [k for k, contrast in enumerate(contrasts) if contrast is not None]
        if rows:
            others = [targets[k].instead(str(contrasts[k])) for k in rows]  # type: ignore[union-attr]  # they have one
            for k, other in zip(rows, self._log_probabilities([samples[k] for k in rows], others), strict=True):
                values[k] = -math.log1p(math.exp(min(700.0, other - values[k])))
        return np.exp(np.array(values, dtype=np.float64))

    def _log_probabilities(self, samples: Sequence[Sample], targets: Sequence[TargetLike]) -> list[float]:
        texts = [target if isinstance(target, str) else target.text[: target.span[1]] for target in targets]
        rows = self._tokens(samples, texts)
        values = []
        for target, text, tokens in zip(targets, texts, rows, strict=True):
            first, stop = tokens_of(target, _spans(tokens, text))
            values.append(max(_LEAST, sum(token.logprob for token in tokens[first:stop])))
        return values

    def _tokens(self, samples: Sequence[Sample], texts: Sequence[str]) -> list[tuple[Token, ...]]:
        """The tokens of each text that the server is made to say about each sample."""
        if self._how == "top_logprobs":
            return self._followed(samples, texts)
        recipe = self.recipe
        questions = [
            spoken_question(recipe.model, self._how, sample, recipe.suffix, text)
            for sample, text in zip(samples, texts, strict=True)
        ]
        replies = self.client.ask_all(CHAT, questions)
        return [spoken_tokens(self._how, reply, text) for reply, text in zip(replies, texts, strict=True)]

    def _followed(self, samples: Sequence[Sample], texts: Sequence[str]) -> list[tuple[Token, ...]]:
        """Token by token: at each place the longest of the likeliest tokens that the text goes on with."""
        rows: list[list[Token]] = [[] for _ in samples]
        open_rows = list(range(len(samples)))
        while open_rows:
            begun = ["".join(token.text for token in rows[k]) for k in open_rows]
            questions = [
                next_question(self.recipe.model, samples[k], self.recipe.suffix, text)
                for k, text in zip(open_rows, begun, strict=True)
            ]
            replies = self.client.ask_all(CHAT, questions)
            for k, text, reply in zip(list(open_rows), begun, replies, strict=True):
                rows[k].append(self._following(likeliest(reply), texts[k], text))
                if "".join(token.text for token in rows[k]).strip() == texts[k].strip():
                    open_rows.remove(k)
        return [tuple(row) for row in rows]

    def _following(self, tokens: Sequence[Token], text: str, begun: str) -> Token:
        rest = text.strip()[len(begun.strip()) :]
        wanted = rest if begun.strip() else rest.lstrip()
        able = [token for token in tokens if token.text.strip() and _goes_on(token.text, wanted, bool(begun.strip()))]
        if able:
            return max(able, key=lambda token: len(token.text))
        bound = math.exp(min(token.logprob for token in tokens))
        if bound > _NEGLIGIBLE:
            raise BadInput(
                f"{self.name}: {rest!r} is not among the {len(tokens)} likeliest tokens that the server tells of, and "
                f"could have a probability of up to {bound:.3g}: use a server with prompt_logprobs (vLLM, SGLang)."
            )
        return Token(rest, _LEAST)

    @cached_property
    def _how(self) -> How:
        """The first way that this server knows, found with one question each."""
        if self.recipe.how != "auto":
            return self.recipe.how
        from karat.models.served_client import Declined

        probe, reasons = Sample("probe", np.zeros((28, 28, 3), np.uint8), "Is this black?"), []
        for how in _WAYS:
            try:
                if how == "top_logprobs":
                    [reply] = self.client.ask_all(CHAT, [next_question(self.recipe.model, probe, "", "")])
                    likeliest(reply)
                else:
                    question = spoken_question(self.recipe.model, how, probe, "", "yes")
                    spoken_tokens(how, self.client.ask_all(CHAT, [question])[0], "yes")
            except Unavailable:
                raise
            except (Declined, NoLogProbabilities) as error:
                reasons.append(f"{how}: {error}")
            else:
                return how
        raise BadInput(
            f"{self.recipe.url} tells no log-probabilities, so no probability of an answer is known "
            f"({'; '.join(reasons)}). Serve the model with vLLM or SGLang (prompt_logprobs) or llama.cpp "
            "(top_logprobs), or wrap its plain answers with karat.models.blackbox()."
        )


def _goes_on(token: str, wanted: str, begun: bool) -> bool:
    """Whether a text may go on with a token; white space before an answer is free."""
    plain = token if begun else token.lstrip()
    return wanted.startswith(plain) or wanted == plain.rstrip()


def _spans(tokens: Sequence[Token], text: str) -> list[Span]:
    """The characters of the text that each token covers; white space before the text belongs to none."""
    spelt = "".join(token.text for token in tokens)
    lead = (len(spelt) - len(spelt.lstrip())) - (len(text) - len(text.lstrip()))
    spans, at = [], -lead
    for token in tokens:
        spans.append((max(at, 0), max(at + len(token.text), 0)))
        at += len(token.text)
    return spans
