"""The nine explainers of fsyn2026 on real vision-language architectures, random and tiny."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tiny_vlms

from karat.kernel.attribution import Attribution
from karat.kernel.registry import build
from karat.kernel.row import Failure, Score
from karat.kernel.target import Target
from karat.models import vlm
from karat.probe.session import Session
from karat.protocols.synergy import Synergy
from karat.protocols.synergy.explanation import question_players, token_scores

NINE = {
    "control/random": {},
    "gradient/input_x_gradient": {},
    "gradient/integrated_gradients": {"steps": 2},
    "cam/gradcam": {"layer": "decoder.last"},
    "attention/rollout": {},
    "attention/grad_rollout": {},
    "relevance/attnlrp": {},
    "vlm/llava_cam": {"copies": 2, "layer": 0},
    "vlm/tam": {},
}


@pytest.mark.parametrize("kind", ["llava", "qwen2_5_vl", "internvl"])
def test_nine_explainers_get_a_score_or_a_reason(kind: str) -> None:
    model = vlm(*tiny_vlms.make(kind))
    samples = tiny_vlms.samples(kind, 1)
    session = Session(model, samples, targets=["yes"])
    protocol = Synergy(steps=3)
    whole = model.score(samples, ["yes"])
    scored = 0
    for name, parameters in NINE.items():
        found = protocol.score(session, build("explainer", name, parameters)(session))["f_syn"]
        outcome = found[0]
        if isinstance(outcome, Score):
            scored += 1
            assert -2 <= outcome.value <= 2
            # with nothing deleted the value is the joint probability of the answer's tokens (fsyn2026 Eq. 12)
            assert found.details["del_joint"][0, 0] == pytest.approx(float(whole[0]), abs=1e-5)
        else:  # random weights: a rectified map may be empty
            assert isinstance(outcome, Failure)
            assert "all zero" in outcome.reason
    assert scored >= 7


def test_the_choice_is_explained_in_its_context(monkeypatch: pytest.MonkeyPatch) -> None:
    model = vlm(*tiny_vlms.make("llava"))
    monkeypatch.setattr(type(model), "answer", lambda self, samples: ["(A) left, since", "who knows"])
    samples = [replace(sample, choices=("A", "B")) for sample in tiny_vlms.samples("llava", 2)]
    session = Session(model, samples)
    assert session.targets == (Target("(A) left, since", (1, 2)), "who knows")
    assert session.answers == ("A", "who knows")
    found = Synergy(steps=3).score(session, build("explainer", "control/random", {})(session))["f_syn"]
    # with nothing deleted the value is P(A | "("), not P("(") · P(A | "(")
    [given], [joint] = (model.score(samples[:1], [t]) for t in (session.targets[0], "(A"))
    assert found.details["del_joint"][0, 0] == pytest.approx(given, abs=1e-6)
    assert given > 2 * joint
    assert found[1] == Failure("answer: 'who knows' names none of A, B")


def test_token_players_are_the_tokens_of_the_question() -> None:
    model = vlm(*tiny_vlms.make("llava"))
    [sample] = tiny_vlms.samples("llava", 1)
    session = Session(model, [sample], targets=["yes"])
    spans = session.inputs.words[0]
    count = sum(stop - start for start, stop in spans)
    assert count > len(spans)  # a word of several tokens, or the test says nothing
    [given] = build("explainer", "gradient/input_x_gradient", {})(session)
    assert given.tokens is not None
    starts = np.cumsum([0, *(stop - start for start, stop in spans)])[:-1]
    np.testing.assert_allclose(np.add.reduceat(given.tokens, starts), given.words, rtol=1e-5)
    protocol = Synergy(steps=3, text="tokens")
    found = protocol.score(session, [given])["f_syn"]
    assert isinstance(found[0], Score)
    # the slow way: the first half of the tokens with the whole image
    players = question_players(session, 0, "tokens")
    assert players is not None
    assert len(players.groups) == count
    np.testing.assert_array_equal(token_scores(session, 0, given), given.tokens)
    best = np.argsort(-given.tokens)[: int(count / 2 + 0.5)]
    tokens = session.inputs.tokens.clone()
    absent = np.setdiff1d(np.arange(count), best)
    tokens[0, [players.groups[t][0] for t in absent]] = model.neutral_token
    masked = replace(session.inputs, tokens=tokens)
    whole_image = float(model.log_probability(masked, ["yes"]).exp())
    curve = protocol.score(session, [given])["srg_text"].details["insertion"][0]
    assert curve[1] == pytest.approx(whole_image, rel=1e-4)


def test_a_method_that_scores_words_gives_each_token_its_word() -> None:
    session = Session(vlm(*tiny_vlms.make("llava")), tiny_vlms.samples("llava", 1), targets=["yes"])
    spans = session.inputs.words[0]
    by_word = Attribution(np.ones((2, 2)), np.arange(1.0, len(spans) + 1))
    wanted = [j + 1 for j, (start, stop) in enumerate(spans) for _ in range(start, stop)]
    assert token_scores(session, 0, by_word).tolist() == wanted
