"""What is read off one explanation: straying models, numbers instead of maps, blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from karat.datasets.grid import generate
from karat.explainers.cross_pairs import BLOCK
from karat.kernel.attribution import Attribution
from karat.kernel.row import NotApplicable, Score
from karat.kernel.sample import Sample
from karat.probe.session import Session
from karat.protocols.grid import Grid
from karat.protocols.grid.readings import mechanism_answer


@dataclass(frozen=True)
class Says:
    """A model that says what it is told to."""

    mechanism: str | None
    said: tuple[str, ...]
    name: str = "says"
    capabilities: frozenset[str] = frozenset({"scores", "text"})

    def answer(self, samples: Sequence[Sample]) -> list[str]:
        return list(self.said[: len(samples)])

    def score(self, samples: Sequence[Sample], answers: Sequence[str]) -> np.ndarray:
        return np.ones(len(samples))


def oracle(sample: Sample, mechanism: str) -> Attribution:
    truth = sample.truth(mechanism)
    return Attribution(truth.visual.astype(float), np.array(truth.words, dtype=float))


def test_own_truth_counts_only_where_the_model_follows_its_mechanism() -> None:
    samples = generate("D2_M_F0_d0.3", 3, cell=8)
    shortcut = [s.certificate.heuristics["bag_of_words"] for s in samples]
    for mechanism, column in (("reasons", [s.answer for s in samples]), ("matches_words", shortcut)):
        assert [mechanism_answer(s, mechanism) for s in samples] == column
        model = Says(mechanism, (column[0], "99", column[2]))
        found = Grid().score(Session(model, samples), [oracle(s, mechanism) for s in samples])
        for metric in ("own_mass", "own_words"):
            assert found[metric][0] == found[metric][2] == Score(pytest.approx(1.0))
            assert isinstance(found[metric][1], NotApplicable)
            assert "strayed from its mechanism: it said 99" in found[metric][1].reason
        assert isinstance(found["mass"][1], Score)  # the paper's truth does not ask


def test_a_model_of_unknown_mechanism_has_no_own_truth() -> None:
    [sample] = generate("D1_M_F0_d0.3", 1, cell=8)
    found = Grid().score(Session(Says(None, ("1",)), [sample]), [oracle(sample, "reasons")])
    assert found["own_mass"][0] == NotApplicable("the sample has no truth for this")
    assert found["mass"][0] == Score(pytest.approx(1.0))
    assert found["distractor_iou"][0] == Score(0.0)


def test_numbers_and_blocks() -> None:
    samples = [*generate("D1_M_F0_d0.3", 4, cell=8), *generate("D2_M_F0_d0.3", 2, cell=8)]
    notes = [{BLOCK: 0.7}, {}, {BLOCK: float("nan")}, {BLOCK: 0.2}, {}, {}]
    given = [Attribution(scalar=float(i), notes=note) for i, note in enumerate(notes)]
    given[5] = Attribution(scalar=float("nan"))
    model = Says(None, tuple("123456"))
    found = Grid().score(Session(model, samples), given)
    assert [found["interaction"][i] for i in range(5)] == [Score(float(i)) for i in range(5)]
    assert "not defined" in found["interaction"][5].reason
    block = found["block_interaction"]
    assert block[0] == Score(0.7)
    assert "not the first sample" in block[1].reason
    assert "not defined" in block[2].reason
    assert "mixes buckets" in block[3].reason  # from sample 3 to 5, over two buckets
    told = [Attribution(scalar=0.0, notes={BLOCK: float("nan")}, reasons={BLOCK: "one answer"}), *given[1:2]]
    assert Grid().score(Session(model, samples[:2]), told)["block_interaction"][0] == NotApplicable("one answer")
    plain = Grid().score(Session(model, samples[:1]), [Attribution(np.ones((2, 2)))])
    assert plain["block_interaction"][0] == NotApplicable("the method has no blocks")
    assert plain["interaction"][0] == NotApplicable("the method gives no number")
    assert plain["own_words"][0] == NotApplicable("the method defines no words")
