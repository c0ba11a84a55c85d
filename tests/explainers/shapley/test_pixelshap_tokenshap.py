"""PixelSHAP and TokenSHAP: as released, and with Shapley weights."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from asking_worlds import cells, white
from hypothesis import given
from hypothesis import strategies as st

from karat.explainers.shapley import PixelShapTokenShap
from karat.explainers.shapley.pixelshap_tokenshap import cosine, released
from karat.kernel.sample import Region
from karat.models.blackbox import BlackBox, blackbox
from karat.probe import Evaluator, Game, Session


def talker() -> BlackBox:
    """Answers in words: "two" if cells 0 and 5 are both bright, "one" if either; "nothing" unless asked "red"."""

    def say(images: np.ndarray, texts: list[str | None]) -> list[str]:
        bright = cells(images)[:, [0, 5]] > 0.5
        return [
            ["none", "one cell", "two cells"][int(row.sum())] if "red" in (text or "") else "nothing"
            for row, text in zip(bright, texts, strict=True)
        ]

    return blackbox(say, name="talker")


def test_shapley_values_of_the_likeness_of_answers() -> None:
    [found] = PixelShapTokenShap(visual=(4, 4), budget=800)(Session(talker(), [white()]))
    flat = found.visual.ravel()
    # two players: v(none) = 0, v(one) = cos("one cell", "two cells") = 0, v(both) = 1
    assert flat[[0, 5]] == pytest.approx([0.5, 0.5], abs=0.1)
    assert np.abs(np.delete(flat, [0, 5])).max() < 0.1
    np.testing.assert_allclose(found.words, [0, 0, 1], atol=1e-12)
    assert found.passes <= 800


def test_objects_are_players() -> None:
    sample = replace(
        white(), regions=(Region("a", "target", boxes=((0, 0, 4, 4),)), Region("b", "target", boxes=((4, 4, 4, 4),)))
    )
    [found] = PixelShapTokenShap(visual="objects", budget=64)(Session(talker(), [sample]))
    assert found.visual[0, 0] == found.visual[4, 4] == pytest.approx(0.5)
    assert found.visual[0, 8] == pytest.approx(0)


def test_as_released_equals_its_slow_twin() -> None:
    values = np.random.default_rng(3).random(2**5)
    powers = 1 << np.arange(5)
    game = Game(lambda visual, text: values[visual @ powers], 5)
    asked: list[np.ndarray] = []
    [found] = Evaluator.of(
        Game(lambda visual, text: (asked.append(visual.copy()), game.value(visual, text))[1], 5), budget=14
    ).run([(0, released(5, 14, np.random.default_rng(0)))])
    rows = np.concatenate(asked)
    assert found.passes == len(rows) == 14
    shares = []
    for i in range(5):
        present = [values[row @ powers] for row in rows if row[i]]
        absent = [values[row @ powers] for row in rows if not row[i]]
        shares.append(np.mean(present) - np.mean(absent))
    shifted = np.array(shares) - min(shares)
    np.testing.assert_allclose(found.values, shifted / shifted.sum(), atol=1e-12)
    for i in range(5):  # every leave-one-out is among them
        assert any((row == (np.arange(5) != i)).all() for row in rows)


def test_released_scores_are_shares() -> None:
    explainer = PixelShapTokenShap(visual=(2, 2), budget=20, variant="released")
    [found] = explainer(Session(talker(), [white()]))
    assert found.visual.min() == 0
    assert found.visual.sum() == pytest.approx(1)
    assert not found.signed


def test_probability_shares_the_sessions_answers() -> None:
    from asking_worlds import entangled, world

    model, seen = world(entangled)
    session = Session(model, [white()], ["yes"])
    explainer = PixelShapTokenShap(visual=(2, 2), budget=40, compare="probability")
    explainer(session)
    before = len(seen.seen)
    explainer(session)
    assert len(seen.seen) == before


@given(st.lists(st.sampled_from(["a", "b", "c"]), max_size=6), st.lists(st.sampled_from(["a", "b", "c"]), max_size=6))
def test_cosine_of_word_counts(left: list[str], right: list[str]) -> None:
    found = cosine(" ".join(left), " ".join(right))
    counts = [np.array([side.count(word) for word in "abc"], dtype=float) for side in (left, right)]
    size = np.linalg.norm(counts[0]) * np.linalg.norm(counts[1])
    expected = counts[0] @ counts[1] / size if size else float(left == right == [])
    assert found == pytest.approx(expected)
