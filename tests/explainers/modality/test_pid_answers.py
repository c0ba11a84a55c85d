"""PID of a model's answers, on models whose synergy is known."""

from __future__ import annotations

import numpy as np
import pytest
from asking_worlds import shades, truth_table, world, xor

from karat.explainers.crossing import BLOCK
from karat.explainers.modality import Emap, Pid, pid_of_answers, synergy_share
from karat.probe import Session


def test_an_xor_is_all_synergy() -> None:
    model, _ = world(xor)
    session = Session(model, truth_table())
    found = Pid()(session)
    assert [a.scalar for a in found] == pytest.approx([1.0] * 4, abs=1e-4)
    assert found[0].notes[BLOCK] == pytest.approx(1.0, abs=1e-4)


def test_one_modality_alone_has_none() -> None:
    for answers in (np.array([["a"] * 3, ["b"] * 3, ["b"] * 3]), np.array([["a", "b", "c"]] * 3)):
        assert synergy_share(pid_of_answers(answers)) == pytest.approx(0, abs=1e-4)
    assert synergy_share(pid_of_answers([["a", "a"], ["a", "a"]])) == 0


def test_what_emap_has_asked_is_free() -> None:
    model, seen = world(xor)
    session = Session(model, shades(5), ["yes", "no", "yes", "no", "yes"])
    Emap()(session)
    before = len(seen.seen)
    Pid()(session)
    assert len(seen.seen) == before
