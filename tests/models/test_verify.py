"""Behavioural proof: right claims hold, wrong claims fail, and it takes any model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from karat.datasets.grid import generate_batch
from karat.kernel.empty import EMPTY
from karat.kernel.errors import BadInput
from karat.kernel.proportion import share
from karat.kernel.sample import Sample
from karat.kernel.typing import Values
from karat.models.claims import Check
from karat.models.counterfactual import CHANGES, changed, verdicts
from karat.models.gridprog import GridProg
from karat.models.verify import Verification, verify
from karat.models.weights.absence import broken_states, kept_answers, write_record

NAMES = ("D1_A_F0_d0.3", "D1_SO_F1_d0.7", "D2_M_F0_d0.7", "D3_M_F1_d0.3", "D2_CMP_F0_d0.7", "D1_REL_F0_d0.3")


class Constant:
    """Says one thing. Claims what it is told to claim."""

    def __init__(self, says: str, mechanism: str | None) -> None:
        self.name, self.mechanism, self.capabilities = "constant", mechanism, frozenset({"scores"})
        self.says = says

    def answer(self, samples: Sequence[Sample]) -> list[str]:
        return [self.says] * len(samples)

    def score(self, samples: Sequence[Sample], answers: Sequence[str]) -> Values:
        return np.array([float(answer == self.says) for answer in answers])


def check(variant: str, claim: str | None = None) -> Verification:
    return verify(GridProg(variant).load(), 16, claim=claim, n_changed=8, n_hidden=2, names=NAMES)


@pytest.mark.parametrize("variant", ["pure", "spur", "image_only", "text_only"])
def test_a_compiled_twin_proves_its_claim(variant: str) -> None:
    found = check(variant)
    assert found.ok, found.verdict
    assert "holds" in found.verdict


@pytest.mark.parametrize(
    ("variant", "claim", "refuted_by"),
    [
        ("spur", "reasons", "relations turned"),
        ("pure", "matches_words", "relations turned"),
        ("image_only", "reasons", "target swapped"),
        ("text_only", "matches_words", "targets removed"),
        ("image_only", "text_only", "filler removed"),
        ("text_only", "image_only", "header swapped"),
        ("dose(0.5)", "reasons", "right on pure"),
    ],
)
def test_a_false_claim_is_refuted(variant: str, claim: str, refuted_by: str) -> None:
    found = check(variant, claim)
    assert not found.ok
    assert any(check.says.startswith(refuted_by) and check.refuted for check in found.checks)
    assert "fails" in found.verdict


@pytest.mark.parametrize("claim", ["reasons", "matches_words", "image_only", "text_only"])
def test_a_model_that_says_one_thing_is_nothing(claim: str) -> None:
    assert not verify(Constant("yes", claim), 8, n_changed=4, n_hidden=1, names=NAMES).ok


def test_every_change_tells_something_and_is_what_it_says() -> None:
    for name in NAMES:
        batch = generate_batch(name, range(16), 5)
        before = verdicts(batch)
        assert before.truth.tolist() == batch.answers
        for change in CHANGES:
            rows, after = changed(batch, change, 5)
            assert len(rows) == len(after)
            if not len(rows):
                continue
            new = verdicts(after)
            assert (new.truth != "(none)").all()
            if change in ("relations turned", "targets removed"):
                assert (new.truth != before.truth[rows]).all()
            if change == "relations turned":
                assert (new.shortcut == before.shortcut[rows]).all()
            if change == "adversarial removed":
                assert (new.truth == before.truth[rows]).all()
                assert (new.shortcut != before.shortcut[rows]).all()
            if change in ("target swapped", "header swapped"):
                assert (after.cells == batch.cells[rows]).all()
                assert (new.truth != before.truth[rows]).all()
            if change == "filler removed":
                assert (new.truth == before.truth[rows]).all()
                assert ((after.cells == 0).sum(axis=1) > (batch.cells[rows] == 0).sum(axis=1)).all()


def test_rows_count_what_was_asked_and_progress_is_told() -> None:
    told: list[tuple[int, int]] = []
    found = verify(
        GridProg("pure").load(),
        6,
        n_changed=3,
        n_hidden=3,
        names=NAMES[:2],
        progress=lambda done, of: told.append((done, of)),
    )
    assert told == [(1, 2), (2, 2)]
    asked = [row for row in found.rows if row.test == "as asked"]
    assert [(row.bucket, row.mode, row.n) for row in asked] == [
        (name, mode, 6) for name in NAMES[:2] for mode in ("pure", "spur")
    ]
    assert all(row.n <= 3 for row in found.rows if row.test != "as asked")


def test_what_cannot_be_proved_is_said() -> None:
    with pytest.raises(BadInput, match="no behavioural test"):
        verify(Constant("1", None))
    with pytest.raises(BadInput, match="needs samples"):
        verify(GridProg("pure").load(), 0)


def test_hidden_means_empty_to_the_compiled_twins() -> None:
    """gridprog is the reference: in every empty state it keeps its answers, and answers to what is left."""
    for variant in ("pure", "spur"):
        found = verify(GridProg(variant).load(), 2, n_changed=2, n_hidden=6, names=("D2_M_F0_d0.7", "D1_SO_F1_d0.7"))
        assert {state: share.value for state, share in found.kept().items()} == dict.fromkeys(EMPTY, 1.0)
        measure = "truth" if variant == "pure" else "shortcut"
        left = [row for row in found.rows if row.test in ("targets hidden", "anchors hidden")]
        assert {row.test for row in left} == {"targets hidden", *(["anchors hidden"] if variant == "pure" else [])}
        assert all(getattr(row, measure) == 1.0 for row in left)
        assert any(row.unchanged < 1 for row in left)


class Grey:
    """Reasons as gridprog does, unless it sees grey: then it says 'no'."""

    mechanism, capabilities, name = "reasons", frozenset({"scores"}), "grey"

    def __init__(self) -> None:
        self.inner = GridProg("pure").load()

    def answer(self, samples: Sequence[Sample]) -> list[str]:
        grey = [(sample.image == 128).all(axis=2).any() for sample in samples]
        return ["no" if one else said for one, said in zip(grey, self.inner.answer(samples), strict=True)]

    def score(self, samples: Sequence[Sample], answers: Sequence[str]) -> Values:
        return self.inner.score(samples, answers)


def test_a_state_that_breaks_a_model_is_recorded_with_its_reason(tmp_path: Path) -> None:
    found = verify(Grey(), 2, n_changed=2, n_hidden=8, names=("D2_M_F0_d0.7",))
    refuted = {check.says for check in found.checks if check.refuted}
    assert any("in grey" in says for says in refuted)
    assert not any("in white" in says for says in refuted)
    path = write_record(tmp_path / "absence.json", "gridnet.pure", "abc", found, 5)
    write_record(path, "gridnet.spur", "def", found, 5)
    assert set(broken_states("gridnet.pure", "abc", path)) == {"grey"}
    assert "keeps 0.0%" in broken_states("gridnet.pure", "abc", path)["grey"]
    assert broken_states("gridnet.pure", "other weights", path) == {}
    assert kept_answers("gridnet.spur", "def", path)["white"].value == 1.0


@pytest.mark.parametrize(
    ("hits", "n", "low", "high", "verdict"),
    [
        (400, 400, 0.97, 1.0, "yes"),
        (399, 400, 0.97, 1.0, "yes"),
        (19, 20, 0.97, 1.0, "open"),  # one error in twenty does not fail a twin
        (382, 400, 0.95, 1.0, "open"),  # 95.5 % of 400 do not prove 95 %
        (370, 400, 0.97, 1.0, "NO"),
        (16, 16, 1.0, 1.0, "yes"),
        (15, 16, 1.0, 1.0, "NO"),
        (0, 16, 0.0, 0.0, "yes"),
        (500, 1000, 0.42, 0.58, "yes"),
        (620, 1000, 0.42, 0.58, "NO"),
    ],
)
def test_a_check_holds_fails_or_is_open_by_its_interval(
    hits: int, n: int, low: float, high: float, verdict: str
) -> None:
    assert Check("", share([True] * hits + [False] * (n - hits)), low, high).verdict == verdict
