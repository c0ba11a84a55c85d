"""`Client`: asks an OpenAI-compatible server, patiently. It waits where the server asks for it, tries again what was
lost on the way, stops at a ceiling, and keeps the key out of every message."""

from __future__ import annotations

import email.utils
import http.client
import json
import os
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from karat.kernel.errors import BadInput, Unavailable
from karat.models.served_memory import Remembered, content

_AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})  # it may do better in a moment
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 60.0  # seconds


class Declined(BadInput):
    """The server does not take such a question (another may be)."""


@dataclass(eq=False)
class Client:
    """`key` is the name of the environment variable that holds the key, or nothing. At most `concurrency` questions
    are on the way at once. `most_requests` and `most_tokens` count what is remembered, too."""

    url: str
    key: str = ""
    concurrency: int = 8
    timeout: float = 120.0
    retries: int = 8
    most_requests: int | None = None
    most_tokens: int | None = None
    memory: Remembered | None = None
    sleep: Any = time.sleep
    requests: int = field(default=0, init=False)
    tokens: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        parts = urllib.parse.urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise BadInput("served: `url` is where the server's API begins, e.g. http://localhost:8000/v1.")
        if parts.username or parts.password or parts.query:
            raise BadInput("served: a key belongs into an environment variable (name it with `key`), not into the URL.")
        if self.key and not os.environ.get(self.key):
            raise BadInput(f"served: the environment has no {self.key}, in which the server's key was to be.")
        if self.memory is not None:
            self.requests, self.tokens = self.memory.spent()
        self._lock = threading.Lock()

    def ask_all(self, path: str, questions: Sequence[dict[str, Any]]) -> list[Any]:
        """The answers to many questions, in their order; equal ones are asked once."""
        names = [content({"url": self.url, "path": path, "question": question}) for question in questions]
        distinct = dict(zip(names, questions, strict=True))
        with ThreadPoolExecutor(self.concurrency) as pool:
            futures = {name: pool.submit(self._ask, name, path, question) for name, question in distinct.items()}
            try:
                answers = {name: future.result() for name, future in futures.items()}
            except BaseException:
                for future in futures.values():  # what is on the way is heard and remembered; the rest is not begun
                    future.cancel()
                raise
        return [answers[name] for name in names]

    def _ask(self, name: str, path: str, question: dict[str, Any]) -> Any:
        if self.memory is not None and (known := self.memory.get(name)) is not None:
            return known
        answer = self._patiently(path, question)
        usage = answer.get("usage") if isinstance(answer, dict) else None
        tokens = int(usage.get("total_tokens") or 0) if isinstance(usage, Mapping) else 0
        with self._lock:
            self.tokens += tokens
        if self.memory is not None:
            self.memory.put(name, answer, tokens)
        return answer

    def _patiently(self, path: str, question: dict[str, Any]) -> Any:
        reason = ""
        for attempt in range(self.retries + 1):
            self._count()
            wait = min(_LONGEST_WAIT, _FIRST_WAIT * 2**attempt)
            try:
                return self._post(path, question)
            except urllib.error.HTTPError as error:
                text = self._clean(f"{error.code} {error.reason}: {_body(error)}")
                if error.code in (401, 403):
                    raise BadInput(
                        f"{self.url} lets nobody in without its key ({text}): put it into an environment variable and "
                        "name that with `key`."
                    ) from None
                if error.code not in _AGAIN:
                    raise Declined(f"{self.url} does not take the question: {text}") from None
                reason, wait = text, _retry_after(error.headers.get("Retry-After")) or wait
            except (OSError, http.client.HTTPException, ValueError) as error:  # gone, late, or half an answer
                reason = self._clean(f"{type(error).__name__}: {error}")
            if attempt < self.retries:
                self.sleep(wait)
        raise Unavailable(
            f"{self.url} did not answer {self.retries + 1} times ({reason}). What it has answered is remembered: see "
            "to the server, then run again to go on."
        )

    def _count(self) -> None:
        with self._lock:
            for spent, most, what in (
                (self.requests, self.most_requests, "requests"),
                (self.tokens, self.most_tokens, "tokens"),
            ):
                if most is not None and spent >= most:
                    raise Unavailable(
                        f"the ceiling of {most:,} {what} to {self.url} is reached. All answers are remembered: raise "
                        f"max_{what} and run again to go on."
                    )
            self.requests += 1

    def _post(self, path: str, question: dict[str, Any]) -> Any:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self.key:
            headers["Authorization"] = f"Bearer {os.environ[self.key]}"
        request = urllib.request.Request(
            self.url.rstrip("/") + path, json.dumps(question).encode(), headers, method="POST"
        )
        with urllib.request.urlopen(request, timeout=self.timeout) as reply:
            answer = json.loads(reply.read())
        if not isinstance(answer, dict) or not answer.get("choices"):
            raise ValueError(f"the answer has no choices: {str(answer)[:200]}")
        return answer

    def _clean(self, text: str) -> str:
        """A server may repeat a key in its complaint."""
        secret = os.environ.get(self.key, "") if self.key else ""
        text = " ".join(text.split())
        return (text.replace(secret, "***") if secret else text)[:300]


def _body(error: urllib.error.HTTPError) -> str:
    try:
        return error.read(2000).decode(errors="replace")
    except (OSError, http.client.HTTPException):
        return ""


def _retry_after(header: str | None) -> float | None:
    """Seconds that a server asks to wait: it says their number, or a date."""
    if header is None:
        return None
    if header.strip().isdecimal():
        return float(header)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(header).timestamp() - time.time())
    except ValueError:
        return None
