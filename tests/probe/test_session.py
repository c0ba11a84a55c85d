"""What explainers share through a session."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn

from karat.kernel.errors import BadInput, CapabilityMissing
from karat.kernel.sample import Sample
from karat.models.blackbox import blackbox
from karat.models.classifier import Classifier, classifier
from karat.models.preprocessing import Preprocessing
from karat.models.torch_model import TorchModel
from karat.probe import Request, Session
from karat.probe.request import PIXELS


@pytest.fixture
def model() -> Classifier:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return classifier(module, Preprocessing((8, 8)), labels=["cat", "dog", "cow", "owl"])


@pytest.fixture
def samples() -> list[Sample]:
    rng = np.random.default_rng(0)
    return [Sample(f"s{i}", rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)) for i in range(3)]


@dataclass(frozen=True)
class Announced:
    """An explainer that says in advance what it traces."""

    layer: str

    def traces(self, model: TorchModel, /) -> Request:
        return Request(gradients=frozenset({model.layers.get(self.layer, self.layer)}))


def count_forwards(model: Classifier) -> list[int]:
    runs: list[int] = []
    model.module.register_forward_hook(lambda *_: runs.append(1))
    return runs


def test_asked_twice_the_model_runs_once(model: Classifier, samples: list[Sample]) -> None:
    session = Session(model, samples, ["cat", "dog", "cow"])
    last = model.layers["vision.last"]  # looked for once a model, by a pass of its own
    runs = count_forwards(model)
    first = session.trace(["vision.last", PIXELS])
    assert session.trace([PIXELS], {"gradients"}) is first
    assert session.trace([last], {"activations"}) is first  # the role's own name
    assert len(runs) == 1
    assert (session.cost.traces, session.cost.backwards, session.cost.shared) == (1, 1, 2)
    assert session.trace(["0"], {"activations"}) is not first
    assert len(runs) == 2


def test_announced_needs_make_the_first_trace_enough(model: Classifier, samples: list[Sample]) -> None:
    session = Session(model, samples, ["cat", "dog", "cow"])
    session.expect([Announced("vision.last"), Announced(PIXELS), Announced("0"), object()])
    runs = count_forwards(model)
    for layer in ("0", "vision.last", PIXELS):
        session.trace([layer], {"gradients"})
    assert len(runs) == session.cost.traces == session.cost.backwards == 1


def test_other_targets_have_their_own_trace(model: Classifier, samples: list[Sample]) -> None:
    session = Session(model, samples, ["cat", "dog", "cow"])
    own, other = session.trace([PIXELS]), session.trace([PIXELS], targets=["owl"] * 3)
    assert not torch.equal(own.gradients[PIXELS], other.gradients[PIXELS])
    assert session.trace([PIXELS], targets=["owl"] * 3) is other


def test_targets_are_the_models_own_answers(model: Classifier, samples: list[Sample]) -> None:
    runs = count_forwards(model)
    session = Session(model, samples)
    assert runs == []
    assert session.targets == tuple(model.answer(samples))
    with pytest.raises(BadInput, match="got 1 for 3"):
        Session(model, samples, ["cat"])


def test_only_keeps_targets_and_streams(model: Classifier, samples: list[Sample]) -> None:
    session = Session(model, samples, ["cat", "dog", "cow"], seed=5)
    part = session.only(2, 0)
    assert part.targets == ("cow", "cat")
    assert part.rng(0, "rise").random() == session.rng(2, "rise").random()
    assert part.rng(0, "rise").random() != session.rng(2, "lime").random()
    assert session.rng(0, "rise").random() != Session(model, samples, seed=6).rng(0, "rise").random()


def test_a_black_box_cannot_be_looked_into(samples: list[Sample]) -> None:
    session = Session(blackbox(lambda images, texts: ["yes"] * len(images), name="oracle"), samples)
    with pytest.raises(CapabilityMissing, match="'oracle' offers scores"):
        session.trace([PIXELS])
    with pytest.raises(BadInput, match=r"give the grid as visual=\(rows, columns\)"):
        session.game(0)


def test_closing_lets_go(model: Classifier, samples: list[Sample]) -> None:
    session = Session(model, samples, ["cat", "dog", "cow"])
    trace = session.trace([PIXELS])
    game = session.game(0, visual=(2, 2))
    game.value(np.ones((1, 4), bool))
    session.close()
    assert len(trace.gradients) == 0
    assert session.trace([PIXELS]) is not trace
    assert session.game(0, visual=(2, 2)) is not game


def test_memo_makes_a_thing_once_a_session_and_close_lets_go(model: Classifier, samples: list[Sample]) -> None:
    session = Session(model, samples)
    made: list[int] = []

    def make() -> list[int]:
        made.append(1)
        return made

    assert session.memo(("test", 3), make) is session.memo(("test", 3), make)
    assert session.memo(("test", 4), make) is made
    assert len(made) == 2  # keys are apart
    session.only(0).memo(("test", 3), make)
    assert len(made) == 3  # and so are sessions
    session.close()
    session.memo(("test", 3), make)
    assert len(made) == 4


def test_after_closing_a_session_asks_again(model: Classifier, samples: list[Sample]) -> None:
    session = Session(model, samples, ["cat", "dog", "cow"])
    keep = np.ones((1, 4), dtype=bool)
    value = session.game(0, visual=(2, 2)).value(keep)
    session.close()
    assert session.game(0, visual=(2, 2)).value(keep) == value
    assert session.cost.passes.made == 2


def test_targets_may_be_chosen_when_they_are_needed(model: Classifier, samples: list[Sample]) -> None:
    calls: list[Session] = []

    def choose(session: Session) -> list[str]:
        calls.append(session)
        return session.memo("test/choice", lambda: ["cat", "dog", "cow"])

    session = Session(model, samples, choose)
    assert calls == []
    assert session.targets == session.answers == ("cat", "dog", "cow")
    assert session.only(1).targets == ("dog",)
    assert calls == [session]
    with pytest.raises(BadInput, match="got 1 for 3 samples"):
        _ = Session(model, samples, lambda _: ["cat"]).targets
