"""A model behind a server: `gridvlm`, over real HTTP on loopback, in the shapes of vLLM and of llama.cpp."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from served_vlm import ServedVLM

from karat.datasets.grid import generate
from karat.engine.explain import explain
from karat.engine.run import run
from karat.kernel.errors import BadInput, Unavailable
from karat.kernel.sample import Sample
from karat.kernel.spec import Spec
from karat.kernel.target import Target
from karat.models import load_model
from karat.models.served import Served, _spans, served
from karat.models.served_answers import Token, spoken_tokens
from karat.models.served_client import Client, _retry_after
from karat.models.vlm_adapter import VLM

SHAPES = ("vllm", "llama.cpp")


@pytest.fixture(scope="module")
def local() -> VLM:
    model = load_model("gridvlm.pure")
    assert isinstance(model, VLM)
    return model


@pytest.fixture(scope="module")
def samples() -> list[Sample]:
    return generate("D1_M_F0_d0.3", 3)


@pytest.fixture(params=SHAPES)
def server(request: pytest.FixtureRequest, local: VLM) -> Iterator[ServedVLM]:
    with ServedVLM(local, request.param) as running:
        yield running


def client_of(server: ServedVLM, tmp_path: Path, **more: Any) -> Served:
    model = served(server.url, "gridvlm", memory=str(tmp_path / "memory"), timeout=0.5, **more)
    model.client.sleep = lambda seconds: None
    return model


def test_answers_and_probabilities_are_those_of_the_local_model(
    server: ServedVLM, local: VLM, samples: list[Sample], tmp_path: Path
) -> None:
    model = client_of(server, tmp_path)
    answers = local.answer(samples)
    assert model.answer(samples) == answers
    assert model.capabilities == {"scores", "autoregressive", "text"}
    vocabulary = sorted({*answers, *(sample.answer for sample in samples if sample.answer)})
    two = " ".join(vocabulary[:2]) if len(vocabulary) > 1 else f"{vocabulary[0]} {vocabulary[0]}"
    targets: list[Any] = [
        answers[0],
        Target(answers[1], (0, len(answers[1])), contrast=vocabulary[-1]),
        Target(two, (two.index(" ") + 1, len(two))),
        Target(two, (two.index(" ") + 1, len(two)), joint=True),
        two,
    ]
    pictures = [samples[0], samples[1], samples[2], samples[2], samples[2]]
    expected = local.score(pictures, targets)
    tolerance = 1e-6 if server.shape == "vllm" else 1e-3  # what is not among the likeliest is 0, within a thousandth
    np.testing.assert_allclose(model.score(pictures, targets)[:2], expected[:2], atol=1e-6)
    np.testing.assert_allclose(model.score(pictures, targets), expected, atol=tolerance)


def test_what_was_answered_is_never_asked_again(server: ServedVLM, samples: list[Sample], tmp_path: Path) -> None:
    model = client_of(server, tmp_path)
    first = model.score([*samples, samples[0]], ["yes"] * 4)
    asked = server.requests
    assert len(server.questions) == len({json.dumps(question) for question in server.questions})  # nor twice at once
    again = client_of(server, tmp_path)  # another process
    np.testing.assert_array_equal(again.score([*samples, samples[0]], ["yes"] * 4), first)
    assert server.requests == asked


def test_faults_cost_time_and_no_row(server: ServedVLM, samples: list[Sample], tmp_path: Path) -> None:
    calm = client_of(server, tmp_path / "calm").score(samples, ["yes"] * 3)
    model = client_of(server, tmp_path / "stormy", concurrency=1)
    waits: list[float] = []
    model.client.sleep = waits.append
    _ = model._how
    server.questions.clear()
    server.faults = deque([429, 503, "half", "drop", "late", 500])
    np.testing.assert_array_equal(model.score(samples, ["yes"] * 3), calm)
    assert waits == [7.0, 1.0, 2.0, 4.0, 8.0, 16.0]  # as long as the server asked, then twice as long each time
    assert len(server.questions) == 3


def test_no_more_than_so_many_questions_are_on_the_way(
    server: ServedVLM, samples: list[Sample], tmp_path: Path
) -> None:
    many = generate("D1_M_F0_d0.3", 12, seed=5)
    client_of(server, tmp_path, concurrency=3).score(many, ["yes"] * 12)
    assert 1 <= server.most_at_once <= 3


def test_a_server_that_restarts_midway_is_asked_only_for_the_rest(
    server: ServedVLM, local: VLM, samples: list[Sample], tmp_path: Path
) -> None:
    model = client_of(server, tmp_path, concurrency=1, retries=1)
    first = model.score(samples[:1], ["yes"])
    server.server.shutdown()
    server.server.server_close()
    with pytest.raises(Unavailable, match=r"did not answer 2 times .* What it has answered is remembered"):
        model.score(samples, ["yes"] * 3)
    with ServedVLM(local, server.shape, port=server.port) as again:
        values = model.score(samples, ["yes"] * 3)
        assert values[0] == first[0]
        assert len(again.questions) == 2  # the two that were missing
    with server:  # for the fixture to end
        pass


def test_a_ceiling_stops_cleanly_and_more_goes_on(server: ServedVLM, samples: list[Sample], tmp_path: Path) -> None:
    model = client_of(server, tmp_path, concurrency=1)
    model.score(samples[:1], ["yes"])
    spent = model.client.requests
    assert model.client.tokens == 50 * len(server.questions)
    capped = client_of(server, tmp_path, concurrency=1, max_requests=len(server.questions) + 1)
    with pytest.raises(Unavailable, match=r"the ceiling of \d requests .* raise max_requests"):
        capped.score(samples, ["yes"] * 3)
    assert server.requests == spent + 1
    tokens = client_of(server, tmp_path, max_tokens=50)
    with pytest.raises(Unavailable, match=r"the ceiling of 50 tokens .* raise max_tokens"):
        tokens.score(samples, ["yes"] * 3)
    client_of(server, tmp_path).score(samples, ["yes"] * 3)
    assert server.requests == spent + 2  # the one that was missing


def test_a_server_without_log_probabilities_is_refused(local: VLM, samples: list[Sample], tmp_path: Path) -> None:
    with ServedVLM(local, "mute") as server, pytest.raises(BadInput, match=r"tells no log-probabilities.*blackbox"):
        client_of(server, tmp_path).score(samples, ["yes"] * 3)


def test_keys_are_in_no_message_row_or_file(
    local: VLM, samples: list[Sample], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "sk-very-secret-0123"
    monkeypatch.setenv("SERVED_KEY", secret)
    with ServedVLM(local, key=secret) as server:
        model = client_of(server, tmp_path, key="SERVED_KEY", retries=1)
        assert model.score(samples[:1], ["yes"]).shape == (1,)
        server.faults = deque([503, 503])
        with pytest.raises(Unavailable) as lasting:
            model.score(samples[1:2], ["yes"])
        server.faults = deque([400])
        with pytest.raises(BadInput) as declined:
            model.score(samples[2:], ["yes"])
        server.key = "another"
        with pytest.raises(BadInput, match="lets nobody in") as shut:
            model.score(samples[2:], ["yes"])
    for error in (lasting, declined, shut):
        assert secret not in str(error.value)
        assert "***" in str(error.value)
    assert secret not in repr(model) + repr(model.recipe)
    assert not any(secret.encode() in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    with pytest.raises(BadInput, match="the environment has no NO_SUCH_KEY"):
        served("http://127.0.0.1:1/v1", "m", key="NO_SUCH_KEY", memory=str(tmp_path))
    with pytest.raises(BadInput, match="a key belongs into an environment variable") as written:
        Client(f"http://me:{secret}@127.0.0.1/v1")
    assert secret not in str(written.value)


@pytest.mark.parametrize("shape", SHAPES)
def test_rows_are_those_of_the_local_model(shape: str, local: VLM, tmp_path: Path) -> None:
    """F_syn and explainers that ask, through the engine's own processes."""
    spec = {
        "protocol": {"name": "synergy", "steps": 3},
        "datasets": [{"name": "grid", "buckets": ["D1_M_F0_d0.3"], "per_bucket": 1}],
        "explainers": ["perturbation/occlusion", {"name": "shapley/permutation", "budget": 40}],
    }

    def rows(model: Any, folder: str, workers: int) -> pd.DataFrame:
        scores = run(Spec.parse({**spec, "models": [model]}), tmp_path / folder, workers=workers).scores()
        return scores.sort_values(["explainer", "metric", "sample"]).reset_index(drop=True)

    here = rows("served_vlm:LocalAsks", "here", 0)
    with ServedVLM(local, shape) as server:
        recipe = {"name": "served", "url": server.url, "model": "gridvlm", "grid": [3, 3]}
        there = rows({**recipe, "memory": str(tmp_path / "memory")}, "there", 1)
        asked = server.requests
        rows({**recipe, "memory": str(tmp_path / "memory")}, "again", 0)
        assert server.requests == asked
    assert (there.status == here.status).all()
    assert (here.status == "score").sum() > 0
    tolerance = 1e-6
    np.testing.assert_allclose(
        there.value.to_numpy(dtype=float), here.value.to_numpy(dtype=float), atol=tolerance, equal_nan=True
    )


def test_a_picture_is_explained_through_the_server(server: ServedVLM, samples: list[Sample], tmp_path: Path) -> None:
    model = client_of(server, tmp_path, grid=(4, 4))
    explanation = explain(model, samples[0], explainer="perturbation/occlusion")
    assert explanation is not None


@pytest.mark.parametrize(
    ("text", "tokens", "spans"),
    [
        ("yes", [" yes"], [(0, 3)]),
        ("(B) cup", [" (", "B", ")", " cup"], [(0, 1), (1, 2), (2, 3), (3, 7)]),
        ("yes", ["\n", "yes"], [(0, 0), (0, 3)]),
    ],
)
def test_which_characters_a_token_covers(text: str, tokens: list[str], spans: list[tuple[int, int]]) -> None:
    assert _spans([Token(token, 0.0) for token in tokens], text) == spans


def test_an_echo_is_read_up_to_the_end_of_what_was_given() -> None:
    content = [{"token": " y", "logprob": -1.0}, {"token": "es", "logprob": -0.5}, {"token": ".", "logprob": -0.1}]
    reply = {"choices": [{"logprobs": {"content": content}}]}
    assert spoken_tokens("echo", reply, "yes") == (Token(" y", -1.0), Token("es", -0.5))
    with pytest.raises(BadInput, match="does not repeat 'no'"):
        spoken_tokens("echo", reply, "no")


def test_the_time_to_wait_is_a_number_or_a_date() -> None:
    assert _retry_after("12") == 12.0
    assert _retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0.0
    assert _retry_after("soon") is None
