"""Protocol synergy on models whose F_syn has a closed form, and on everything that can go wrong with a sample."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synergy_worlds import PLAIN, Finds, Shares, White, told, white

from karat.kernel.attribution import Attribution
from karat.kernel.row import Failure, NotApplicable, Score
from karat.metrics import deletion, insertion
from karat.probe.players import VisualPlayers, grid_labels
from karat.probe.session import Session
from karat.protocols.synergy import Synergy
from karat.protocols.synergy.explanation import patch_scores, question_words, ranking

STEPS = np.linspace(0, 1, 11)
CLOSED = {"product": np.mean(STEPS**2), "either": -np.mean(STEPS**2), "sum": 0.0}


def noise(session: Session, seed: int = 0) -> list[Attribution]:
    rng = np.random.default_rng(seed)
    return [Attribution(rng.random((2, 5)), rng.random(len(s.words)) if s.words else None) for s in session.samples]


@pytest.mark.parametrize("rule", CLOSED)
def test_closed_forms_come_through_the_whole_protocol(rule: str) -> None:
    session = Session(Shares(rule), White().load(0, 3))
    found = PLAIN.score(session, noise(session))
    np.testing.assert_allclose(found["f_syn"].values, CLOSED[rule], atol=1e-12)


def test_the_trapezoid_is_there_on_request() -> None:
    session = Session(Shares("product"), White().load(0, 1))
    found = replace(PLAIN, quadrature="trapezoid").score(session, noise(session))
    assert found["f_syn"].values[0] == pytest.approx(np.trapezoid(STEPS**2, STEPS), abs=1e-12)


def test_redundancy_fools_the_unimodal_scores_and_turns_f_syn_over() -> None:
    """fsyn2026 section 3.2: whoever is right and whoever is wrong gets deletion 1 and insertion 1."""
    session = Session(_Either(), White().load(0, 2))
    right, wrong = ((PLAIN.score(session, Finds(skill)(session))) for skill in (1.0, -1.0))
    for found in (right, wrong):
        for modality in ("visual", "text"):
            np.testing.assert_array_equal(found[f"deletion_{modality}"].values, 1.0)
            np.testing.assert_array_equal(found[f"insertion_{modality}"].values, 1.0)
            np.testing.assert_array_equal(found[f"srg_{modality}"].values, 0.0)
    assert (right["f_syn"].values < wrong["f_syn"].values).all()  # finding what is redundant costs


class _Either(Shares):
    """Any kept pixel of the left half, or any "key", suffices."""

    def value(self, sample) -> float:
        return float(sample.image[:, :5].any() or "key" in (sample.text or ""))


def test_unimodal_scores_are_those_of_the_metrics() -> None:
    session = Session(Shares("keys"), White().load(0, 2))
    attributions = Finds(0.5)(session)
    found = PLAIN.score(session, attributions)
    for i in range(2):
        game = PLAIN._game(session, i)
        for modality in ("visual", "text"):
            order = ranking(session, i, game, attributions[i], modality).order
            came, went = insertion(game, order, modality=modality), deletion(game, order, modality=modality)
            assert found[f"insertion_{modality}"].values[i] == pytest.approx(came.value, abs=1e-12)
            assert found[f"srg_{modality}"].values[i] == pytest.approx(came.value - went.value, abs=1e-12)
            curves = found[f"srg_{modality}"].details
            np.testing.assert_allclose(curves["insertion"][i], came.values, atol=1e-12)
            np.testing.assert_allclose(curves["deletion"][i], went.values, atol=1e-12)


def test_details_are_the_curves_that_f_syn_is_made_of() -> None:
    session = Session(Shares("keys"), White().load(0, 2))
    found = PLAIN.score(session, Finds(0.5)(session))["f_syn"]
    curves = found.details
    whole, nothing = curves["del_img"][:, :1], curves["ins_img"][:, :1]
    np.testing.assert_allclose(curves["syn_del"], curves["del_joint"] - curves["del_img"] - curves["del_txt"] + whole)
    np.testing.assert_allclose(curves["syn_ins"], curves["ins_joint"] - curves["ins_img"] - curves["ins_txt"] + nothing)
    np.testing.assert_allclose(found.values, (curves["syn_del"] + curves["syn_ins"]).mean(axis=1) / 2)


def test_no_more_passes_than_promised_and_none_twice() -> None:
    session = Session(Shares("product"), White().load(0, 1))
    PLAIN.score(session, noise(session))
    assert session.cost.passes.made == 76 <= PLAIN.passes
    PLAIN.score(session, noise(session))
    assert session.cost.passes.made == 76


@pytest.mark.parametrize(("words", "more"), [(4, 0), (7, 0), (20, 0), (25, 5), (33, 1)])
def test_steps_of_half_a_word_cost_a_pass_more(words: int, more: int) -> None:
    """Deletion rounds halves down, F_syn up: what they do not share is counted, coalition by coalition."""
    session = Session(Shares("product", words=words), [white("a", " ".join(["key"] * words))])
    PLAIN.score(session, [Attribution(np.random.default_rng(0).random((2, 5)), np.arange(float(words)))])
    up = [int(k * words / 10 + 0.5) for k in range(11)]
    down = [words - count for count in reversed(up)]
    first, last = (lambda k, n: frozenset(range(k))), (lambda k, n: frozenset(range(n - k, n)))
    asked = {(last(10 - k, 10), last(words - up[k], words)) for k in range(11)}
    asked |= {(last(10 - k, 10), first(words, words)) for k in range(11)}
    asked |= {(first(10, 10), last(words - up[k], words)) for k in range(11)}
    asked |= {(first(k, 10), first(up[k], words)) for k in range(11)}
    asked |= {(first(k, 10), first(0, words)) for k in range(11)} | {(first(0, 10), first(n, words)) for n in up}
    asked |= {(first(k, 10), first(words, words)) for k in range(11)} | {(first(10, 10), first(n, words)) for n in up}
    before = len(asked)
    asked |= {(first(10, 10), last(words - n, words)) for n in down}
    assert (session.cost.passes.made, len(asked) - before) == (len(asked), more)
    assert len(asked) <= PLAIN.passes == 86 <= replace(PLAIN, rounding="floor").passes


def test_rows_do_not_depend_on_their_company() -> None:
    samples = White().load(0, 4)
    together = Session(Shares("keys"), samples)
    flat = [Attribution(np.ones((1, 1)), np.ones(10)) for _ in samples]  # every feature ties
    joint = PLAIN.score(together, flat)["f_syn"].values
    alone = [PLAIN.score(Session(Shares("keys"), [s]), flat[:1])["f_syn"].values[0] for s in samples]
    np.testing.assert_array_equal(joint, alone)
    other = PLAIN.score(Session(Shares("keys"), samples, seed=1), flat)["f_syn"].values
    assert (joint != other).any()  # ties are broken by the seed


def test_a_model_that_says_nan_fails_its_own_sample_only() -> None:
    session = Session(Shares("nan"), White().load(0, 3))
    found = PLAIN.score(session, noise(session))
    for outcomes in found.values():
        assert isinstance(outcomes[1], Failure)
        assert "NaN" in outcomes[1].reason
        assert isinstance(outcomes[0], Score)
        assert isinstance(outcomes[2], Score)


def test_an_answer_that_is_no_choice_fails() -> None:
    session = Session(Shares(says="hard to say"), [white("a"), replace(white("b"), choices=("yes", "no"))])
    found = PLAIN.score(session, noise(session))
    assert isinstance(found["f_syn"][0], Score)
    assert found["f_syn"][1] == Failure("answer: 'hard to say' names none of yes, no")


def test_without_words_the_image_is_still_scored() -> None:
    session = Session(Shares(), [white("a", text=""), white("b")])
    found = PLAIN.score(session, [Attribution(np.eye(5), np.ones(10)), Attribution(np.eye(5))])
    assert found["f_syn"][0] == Failure("text: the question has no word to perturb")
    assert isinstance(found["f_syn"][1], NotApplicable)
    assert isinstance(found["srg_text"][1], NotApplicable)
    assert isinstance(found["srg_visual"][0], Score)
    assert isinstance(found["srg_visual"][1], Score)


def test_an_image_smaller_than_its_patches_fails() -> None:
    session = Session(Shares(), [white("a", size=(1, 1)), white("b")])
    found = PLAIN.score(session, noise(session))
    assert isinstance(found["f_syn"][0], Failure)
    assert "does not fit" in found["f_syn"][0].reason
    assert isinstance(found["f_syn"][1], Score)


@pytest.mark.parametrize(
    ("attribution", "says"),
    [
        (Attribution(np.full((2, 5), np.nan), np.ones(10)), "map: 10 of 10 values are NaN"),
        (Attribution(np.ones((2, 5)), np.zeros(10)), "words: all zero"),
        (Attribution(np.ones((2, 5)), np.ones(3)), "words: 3 scores for the 10 words"),
    ],
)
def test_explanations_that_say_nothing_fail_with_their_reason(attribution: Attribution, says: str) -> None:
    session = Session(Shares(), White().load(0, 1))
    outcome = PLAIN.score(session, [attribution])["f_syn"][0]
    assert isinstance(outcome, Failure)
    assert says in outcome.reason


def test_instructions_are_never_perturbed() -> None:
    sample = told("a", WORDS := "key lock key", "Answer with one letter")
    assert question_words(sample) == [0, 1, 2]
    session = Session(_Reads(), [sample])
    PLAIN.score(session, [Attribution(np.ones((1, 1)), np.arange(7.0))])
    assert all(text.endswith("Answer with one letter") for text in _Reads.read)
    assert "Answer with one letter" in _Reads.read
    assert any(WORDS in text for text in _Reads.read)


class _Reads(Shares):
    read: set[str] = set()  # noqa: RUF012  a record of the test

    def value(self, sample) -> float:
        self.read.add((sample.text or "").strip())
        return 0.5


def test_calibration_of_a_product_is_exact_and_counted() -> None:
    session = Session(Shares("product"), White().load(0, 2))
    protocol = replace(PLAIN, calibrate=1.0)
    found = protocol.score(session, noise(session))
    np.testing.assert_allclose(found["sii"].values, np.mean(STEPS**2), atol=1e-12)
    np.testing.assert_allclose(found["sii"].details["sii"], np.tile(STEPS**2, (2, 1)), atol=1e-12)
    passes = np.column_stack([found["sii"].details[name] for name in ("f_syn_passes", "sii_passes")])
    assert (passes[:, 0] == 58).all()
    assert ((passes[:, 1] > 1000) & (passes[:, 1] <= 9 * 256 + 4)).all()
    assert session.cost.seconds.keys() >= {"f_syn", "sii"}


def test_calibrated_samples_are_drawn_by_their_id() -> None:
    samples = White(n=40).load(0, 40)
    protocol = replace(PLAIN, calibrate=0.4, steps=3)
    session = Session(Shares("product"), samples)
    drawn = np.isfinite(protocol.score(session, noise(session))["sii"].values)
    assert 8 <= drawn.sum() <= 24
    later = Session(Shares("product"), samples[30:])
    np.testing.assert_array_equal(np.isfinite(protocol.score(later, noise(later))["sii"].values), drawn[30:])
    reasons = set(protocol.score(session, noise(session))["sii"].not_applicable.values())
    assert reasons == {"not among the samples drawn for calibration"}


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([1, 2, 3, 6]), st.sampled_from([1, 2, 4]))
def test_a_patch_scores_the_mean_of_its_pixels(seed: int, rows: int, columns: int) -> None:
    """Slow twin: the map at twelve times its size, averaged pixel by pixel over what the model sees."""
    rng = np.random.default_rng(seed)
    shown = rng.random((4, 3))
    top, left = rng.integers(0, 12, 2)
    height, width = (
        int(rng.integers(1, 48 // 12 - top // 12 + 1)) * 12,
        int(rng.integers(1, 36 // 12 - left // 12 + 1)) * 12,
    )
    height, width = min(height, 48 - top), min(width, 36 - left)
    height, width = max(height // rows, 1) * rows, max(width // columns, 1) * columns
    if top + height > 48 or left + width > 36:
        return
    frame = (top / 48, left / 36, (top + height) / 48, (left + width) / 36)
    pixels = np.kron(shown, np.ones((12, 12)))[top : top + height, left : left + width]
    labels = grid_labels(height, width, rows, columns)
    slow = [pixels[labels == k].mean() for k in range(rows * columns)]
    fast = patch_scores(shown, VisualPlayers(rows * columns, grid=(rows, columns)), frame, (48, 36))
    np.testing.assert_allclose(fast, slow, atol=1e-12)


def test_labelled_players_score_the_mean_of_their_pixels() -> None:
    labels = np.array([[0, 0, 1], [-1, 1, 1]])
    shown = np.array([[1.0, 3.0, 5.0], [100.0, 7.0, 9.0]])
    np.testing.assert_allclose(patch_scores(shown, VisualPlayers(2, labels=labels), (0, 0, 1, 1), (2, 3)), [2.0, 7.0])


def test_defaults_are_those_of_the_paper() -> None:
    protocol = Synergy()
    assert (protocol.steps, protocol.absence, protocol.radius, protocol.background) == (11, "blur", 30.0, 6)
    assert [card.name for card in protocol.scores][:3] == ["f_syn", "srg_visual", "srg_text"]
