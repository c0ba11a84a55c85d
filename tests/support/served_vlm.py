"""A real HTTP server on loopback that serves a vision-language model as vLLM does, as llama.cpp does, or badly."""

from __future__ import annotations

import base64
import io
import json
import math
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import numpy as np
from PIL import Image

from karat.kernel.card import Card
from karat.kernel.sample import Sample
from karat.kernel.target import Target
from karat.models import load_model
from karat.models.served import ServedRecipe
from karat.models.vlm_adapter import VLM


@dataclass
class ServedVLM:
    """`shape` is vllm, llama.cpp or mute (no log-probabilities). `faults` are taken one for each request: a status, or
    "half", "late" (longer than a client waits), "drop". `questions` are those that were answered."""

    model: VLM
    shape: str = "vllm"
    key: str = ""
    port: int = 0
    faults: deque[Any] = field(default_factory=deque)
    questions: list[dict[str, Any]] = field(default_factory=list)
    requests: int = 0
    at_once: int = 0
    most_at_once: int = 0

    def __enter__(self) -> ServedVLM:
        self.lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer._handle(self)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def _handle(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers["Content-Length"]))
        with self.lock:
            self.requests += 1
            fault = self.faults.popleft() if self.faults else None
        self._reply(request, json.loads(body), fault)

    def _reply(self, request: BaseHTTPRequestHandler, question: dict[str, Any], fault: Any) -> None:
        if self.key and request.headers.get("Authorization") != f"Bearer {self.key}":
            return _send(request, 401, {"error": f"wrong key {request.headers.get('Authorization')}"})
        if isinstance(fault, int):
            headers = {"Retry-After": "7"} if fault == 429 else {}
            return _send(
                request, fault, {"error": "busy, said to " + str(request.headers.get("Authorization"))}, headers
            )
        if fault == "late":
            time.sleep(1.0)
        if fault == "drop":
            return request.connection.close()
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        with self.lock:  # one model, one thread
            answer = self._answer(question)
            self.at_once -= 1
            if fault is None:
                self.questions.append(question)
        text = json.dumps(answer).encode()
        request.send_response(200)
        request.send_header("Content-Length", str(len(text)))
        request.end_headers()
        request.wfile.write(text[: len(text) // 2] if fault == "half" else text)
        return None

    def _answer(self, question: dict[str, Any]) -> dict[str, Any]:
        image, text = question["messages"][0]["content"]
        decoded = Image.open(io.BytesIO(base64.b64decode(image["image_url"]["url"].partition(",")[2])))
        sample = Sample("served", np.array(decoded.convert("RGB")), text["text"])
        spoken = question["messages"][1]["content"] if len(question["messages"]) > 1 else ""
        usage = {"usage": {"total_tokens": 50}}
        if "prompt_logprobs" in question and self.shape == "vllm":
            return {
                **usage,
                "choices": [{"message": {"content": "."}}],
                "prompt_logprobs": self._prompt(sample, spoken),
            }
        if question.get("top_logprobs") and self.shape == "llama.cpp":
            likeliest = self._next(sample, spoken)[: question["top_logprobs"]]
            content = [{"token": likeliest[0][0], "logprob": likeliest[0][1],
                        "top_logprobs": [{"token": t, "logprob": p} for t, p in likeliest]}]  # fmt: skip
            return {**usage, "choices": [{"message": {"content": likeliest[0][0]}, "logprobs": {"content": content}}]}
        return {**usage, "choices": [{"message": {"content": self.model.answer([sample])[0]}}]}

    def _prompt(self, sample: Sample, spoken: str) -> list[Any]:
        """Of the template, numbers that nobody reads; of what was said, its own."""
        places: list[Any] = [None, {"7": {"logprob": -3.5, "rank": 9, "decoded_token": ":"}}]
        for number, span in zip(self.model.target_tokens(spoken).numbers, self.model.token_spans(spoken), strict=True):
            logprob = math.log(float(self.model.score([sample], [Target(spoken, span)])[0]))
            word = self.model.processor.tokenizer.decode([number])
            places.append({str(number): {"logprob": logprob, "rank": 1, "decoded_token": " " + word}})
        return places

    def _next(self, sample: Sample, spoken: str) -> list[tuple[str, float]]:
        import torch

        numbers = list(self.model.target_tokens(spoken).numbers) if spoken else []
        with torch.no_grad():
            row = torch.tensor([[*numbers, self.model.neutral_token]])
            states = self.model._decoder.states(self.model.encode([sample]), row)[:, -1:]
            table = self.model._decoder.logits(states)[0, 0].log_softmax(-1)
        best = table.topk(min(40, len(table)))
        words = [self.model.processor.tokenizer.decode([n]) for n in best.indices.tolist()]
        return [(" " + word, float(value)) for word, value in zip(words, best.values, strict=True)]


def _send(
    request: BaseHTTPRequestHandler, status: int, answer: dict[str, Any], headers: dict[str, str] | None = None
) -> None:
    text = json.dumps(answer).encode()
    request.send_response(status)
    for name, value in (headers or {}).items():
        request.send_header(name, value)
    request.send_header("Content-Length", str(len(text)))
    request.end_headers()
    request.wfile.write(text)


@dataclass(frozen=True)
class LocalAsks:
    """gridvlm as a model that is asked and not looked into, with the grid of the server's."""

    card: ClassVar[Card] = Card("tests/local_asks", "gridvlm, asked only", "model", extra="vlm")
    label: ClassVar[str] = "gridvlm"
    facts: ClassVar[dict[str, Any]] = {"family": "gridvlm"}
    capabilities: ClassVar[frozenset[str]] = ServedRecipe().capabilities
    revision: ClassVar[str] = "1"

    def load(self) -> _Asked:
        return _Asked(load_model("gridvlm.pure"))


@dataclass(frozen=True)
class _Asked:
    inner: Any
    name: str = "gridvlm"
    capabilities: frozenset[str] = ServedRecipe().capabilities
    mechanism: str | None = None
    grid: tuple[int, int] = (3, 3)

    def answer(self, samples: Any) -> list[str]:
        return list(self.inner.answer(samples))

    def score(self, samples: Any, targets: Any) -> Any:
        return self.inner.score(samples, targets)
