"""The nine explainers of fsyn2026 on real vision-language architectures, random and tiny."""

from __future__ import annotations

from dataclasses import replace

import pytest
import tiny_vlms

from karat.kernel.registry import build
from karat.kernel.row import Failure, Score
from karat.kernel.target import Target
from karat.models import vlm
from karat.probe.session import Session
from karat.protocols.synergy import Synergy

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
