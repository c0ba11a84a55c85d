"""How a server is asked for log-probabilities, and how its reply is read: three ways, tried in this order.

prompt_logprobs: the answer is given as what the assistant has begun to say, and the server tells the log-probability
of every token of the prompt (vLLM, SGLang). echo: the same, but the reply repeats what was given, with its
log-probabilities. top_logprobs: the server tells the likeliest tokens at the next place, and the answer is followed
token by token (llama.cpp, and closed servers).
"""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from karat.kernel.errors import BadInput
from karat.kernel.sample import Sample

How = Literal["prompt_logprobs", "echo", "top_logprobs"]
CHAT = "/chat/completions"
TOP = 20  # the most that OpenAI's servers tell


class NoLogProbabilities(BadInput):
    """A reply without what was asked for."""


@dataclass(frozen=True)
class Token:
    """A token of an answer, as it is written, and its log-probability given all before it."""

    text: str
    logprob: float


def messages(sample: Sample, suffix: str, begun: str | None = None) -> list[dict[str, Any]]:
    """The chat: an image and a question, and what the assistant has begun to say."""
    content: list[dict[str, Any]] = [{"type": "image_url", "image_url": {"url": data_url(sample)}}]
    content.append({"type": "text", "text": (sample.text or "") + suffix})
    chat: list[dict[str, Any]] = [{"role": "user", "content": content}]
    return chat if begun is None else [*chat, {"role": "assistant", "content": begun}]


def data_url(sample: Sample) -> str:
    """The image as it is, without loss."""
    from PIL import Image as Pillow

    file = io.BytesIO()
    Pillow.fromarray(sample.image).save(file, format="PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def spoken_question(model: str, how: How, sample: Sample, suffix: str, text: str) -> dict[str, Any]:
    """The question about a text that the assistant is made to say: its tokens' log-probabilities."""
    request: dict[str, Any] = {"model": model, "messages": messages(sample, suffix, text), "temperature": 0}
    request |= {"add_generation_prompt": False, "continue_final_message": True, "max_tokens": 1}
    return request | ({"prompt_logprobs": 0} if how == "prompt_logprobs" else {"echo": True, "logprobs": True})


def spoken_tokens(how: How, reply: Mapping[str, Any], text: str) -> tuple[Token, ...]:
    """The tokens of `text` in the reply; an error where it does not have them."""
    if how == "prompt_logprobs":
        return _last(_prompt_tokens(reply), text)
    return _first(_content(reply), text)


def next_question(model: str, sample: Sample, suffix: str, begun: str) -> dict[str, Any]:
    """The question about the token that follows what the assistant has begun to say."""
    request: dict[str, Any] = {"model": model, "messages": messages(sample, suffix, begun or None), "temperature": 0}
    if begun:
        request |= {"add_generation_prompt": False, "continue_final_message": True}
    return request | {"max_tokens": 1, "logprobs": True, "top_logprobs": TOP}


def likeliest(reply: Mapping[str, Any]) -> list[Token]:
    """The likeliest next tokens, the first first."""
    content = _content(reply)
    listed = content[0].get("top_logprobs") if content else None
    if not isinstance(listed, Sequence) or not listed:
        raise NoLogProbabilities("the reply has no top_logprobs")
    return [Token(str(each["token"]), float(each["logprob"])) for each in listed]


def said(reply: Mapping[str, Any]) -> str:
    """What the server said."""
    try:
        return str(reply["choices"][0]["message"]["content"] or "").strip()
    except (KeyError, IndexError, TypeError):
        raise BadInput(f"the server's reply has no choices with a message: {str(reply)[:200]}") from None


def _prompt_tokens(reply: Mapping[str, Any]) -> list[Token]:
    listed = reply.get("prompt_logprobs")
    if listed is None and reply.get("choices"):
        listed = reply["choices"][0].get("prompt_logprobs")
    if not isinstance(listed, Sequence) or not listed:
        raise NoLogProbabilities("the reply has no prompt_logprobs")
    tokens = []
    for place in listed:  # the token itself is the first of each place; the very first has nothing before it
        entry = next(iter(place.values())) if place else None
        text = "" if entry is None else str(entry.get("decoded_token") or "")
        tokens.append(Token(text, 0.0 if entry is None else float(entry["logprob"])))
    return tokens


def _content(reply: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    choices = reply.get("choices") or [{}]
    content = (choices[0].get("logprobs") or {}).get("content")
    if not isinstance(content, Sequence) or not content:
        raise NoLogProbabilities("the reply has no logprobs")
    return list(content)


def _last(tokens: Sequence[Token], text: str) -> tuple[Token, ...]:
    """The last tokens that spell a text, whatever white space comes before it."""
    spelt = ""
    for k in range(len(tokens) - 1, -1, -1):
        spelt = tokens[k].text + spelt
        if spelt.strip() == text.strip():
            return tuple(tokens[k:])
        if len(spelt.strip()) > len(text.strip()):
            break
    raise NoLogProbabilities(f"the prompt does not end with {text!r}, but with {spelt!r}")


def _first(content: Sequence[Mapping[str, Any]], text: str) -> tuple[Token, ...]:
    """The first tokens that spell a text."""
    spelt, tokens = "", []
    for each in content:
        tokens.append(Token(str(each["token"]), float(each["logprob"])))
        spelt += tokens[-1].text
        if spelt.strip() == text.strip():
            return tuple(tokens)
    raise NoLogProbabilities(f"the reply does not repeat {text!r}, but {spelt!r}")
