"""The exact scores of a model without faults, against a slow twin and against a network that makes no mistake."""

from __future__ import annotations

import numpy as np
import pytest

from karat.datasets.grid import execute, generate, generate_batch
from karat.datasets.grid.executor import Asked, parse
from karat.explainers.cross_pairs import BLOCK
from karat.explainers.modality import Emap, InterShap, Pid, intershap
from karat.models import load_model
from karat.probe import Session
from karat.protocols.grid.analysis import tidy
from karat.protocols.grid.exact_reference import (
    ExactReference,
    crossed_answers,
    exact_reference,
    four_values,
    known_answers,
)
from tests.protocols.grid.made import made, noise


@pytest.mark.parametrize("bucket", ["D1_A_F0_d0.3", "D2_M_F0_d0.7", "D3_CMP_F0_d0.3", "D2_SO_F1_d0.3"])
def test_the_table_is_every_question_about_every_image(bucket: str) -> None:
    batch = generate_batch(bucket, range(4))
    table = crossed_answers(batch)
    words = {-1: "(none)", 10_000: "yes", 10_001: "no"}
    for i, cells in enumerate(batch.grid):
        for j, question in enumerate(batch.questions):
            assert words.get(int(table[i, j]), str(table[i, j])) == execute(question, cells, batch.world)


def test_the_dividend_is_its_definition() -> None:
    """1 - v(image) - v(question) + v(nothing), chance by chance, in plain loops."""
    batch = generate_batch("D1_M_F0_d0.7", range(5))
    asked = [Asked([parse(text, batch.world)], batch.world) for text in batch.questions]
    said = [[int(asked[j].execute(batch.cells[i : i + 1])[0]) for j in range(5)] for i in range(5)]
    total = 0.0
    for i in range(5):
        own = said[i][i]
        nothing = sum(said[j][j] == own for j in range(5)) / 5

        def chance(answer: int, own: int = own, guess: float = nothing) -> float:
            return guess if answer == -1 else float(answer == own)

        image = sum(chance(said[i][j]) for j in range(5)) / 5
        question = sum(chance(said[j][i]) for j in range(5)) / 5
        total += 1 - image - question + nothing
    assert any(-1 in row for row in said)
    assert any(-1 not in (said[i][j], said[j][i]) for i in range(5) for j in range(i))
    assert exact_reference(batch).dividend == pytest.approx(total / 5)
    crossed = [said[i][j] != -1 for i in range(5) for j in range(5) if i != j]
    assert exact_reference(batch).answerable == pytest.approx(sum(crossed) / 20)


def test_where_nothing_can_be_answered_the_spread_of_answers_is_all_there_is() -> None:
    """Every crossing is a guess: the dividend is one less the chance of guessing right, whatever the depth."""
    table = np.full((40, 40), -1)
    np.fill_diagonal(table, np.arange(40) % 4)
    exact = ExactReference(table)
    assert exact.answerable == 0
    assert exact.dividend == pytest.approx((1 - 0.25) * (1 - 2 / 40))
    assert exact.pid == pytest.approx(1, abs=0.08)


@pytest.mark.parametrize(
    ("model", "bucket"),
    [
        ("gridprog.pure", "D1_A_F0_d0.3"), ("gridprog.pure", "D1_A_F1_d0.7"), ("gridprog.spur", "D1_A_F0_d0.3"),
        ("gridprog.spur", "D2_M_F0_d0.3"), ("gridprog.spur", "D1_SO_F0_d0.7"), ("gridprog.spur", "D3_CMP_F0_d0.3"),
    ],
)  # fmt: skip
def test_a_network_that_makes_no_mistake_has_the_exact_scores(model: str, bucket: str) -> None:
    """Where every question has an answer about every image, nothing is left to the network's taste."""
    batch = generate_batch(bucket, range(8))
    exact = exact_reference(batch, "reasons" if model.endswith("pure") else "matches_words")
    assert exact.answerable == 1
    session = Session(load_model(model), generate(bucket, 8))
    assert InterShap()(session)[0].notes[BLOCK] == pytest.approx(exact.intershap, abs=0.015)
    if np.isin(exact.table, np.diag(exact.table)).all():  # PID chooses among these; others are left to the network
        assert Pid()(session)[0].notes[BLOCK] == pytest.approx(exact.pid, abs=0.015)
    assert Emap(value="probability")(session)[0].notes[BLOCK] == pytest.approx(exact.emap, abs=0.015)


def test_a_word_matcher_ignores_relations() -> None:
    """On spur samples both mechanisms answer alike; on pure ones of relational buckets they do not."""
    spur, pure = (generate_batch("D2_M_F0_d0.3", range(6), mode=mode) for mode in ("spur", "pure"))
    own = [np.diag(crossed_answers(spur, mechanism)) for mechanism in ("reasons", "matches_words")]
    assert (own[0] == own[1]).all()
    own = [np.diag(crossed_answers(pure, mechanism)) for mechanism in ("reasons", "matches_words")]
    assert (own[0] != own[1]).all()


def test_each_method_has_its_own_number() -> None:
    batch = generate_batch("D1_M_F1_d0.7", range(6))
    found = exact_reference(batch)
    assert found.of("modality/intershap") == found.intershap
    assert found.of("modality/harsanyi") is None
    assert found.intershap == pytest.approx(intershap(four_values(crossed_answers(batch))).overall)
    assert 0 <= found.emap <= 1
    assert 0 <= found.pid <= 1


def test_answers_come_back_from_the_rows_alone() -> None:
    rows = tidy(made({"x": {"mass": noise()}}, n=3))
    known = known_answers(rows)
    once = rows.drop_duplicates(["model", "sample"]).set_index("sample")
    pure, spur = once[once["twin"] == "pure"], once[once["twin"] == "spur"]
    assert (known.loc[pure.index, "truth"] == pure["answer"]).all()
    assert (known.loc[spur.index, "shortcut"] == spur["answer"]).all()


def test_a_set_of_one_has_nobody_to_be_crossed_with() -> None:
    alone = exact_reference(generate_batch("D1_M_F0_d0.3", [0]))
    assert np.isnan(alone.emap)
    assert np.isnan(alone.intershap)
    assert alone.pid == 0.0  # one answer, no information
