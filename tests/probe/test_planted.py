import gc
import weakref

import numpy as np
import pytest
from planted_worlds import patch_reader, planted_sample

from karat.kernel.errors import KaratError
from karat.kernel.sample import Sample
from karat.probe.exact import coalitions, shapley_values
from karat.probe.games import Estimate
from karat.probe.planted import Effort, Truth, planted
from karat.probe.session import Session

WEIGHTS = np.linspace(0.02, 0.18, 9)  # sum 0.9


def additive(white):
    return white @ WEIGHTS


def test_shapley_values_of_an_additive_rule_are_its_weights_and_exact_on_small_patches():
    session = Session(patch_reader(additive), [planted_sample()])
    [truth] = planted(session).shapley([0], Effort(budget=512)).values()
    assert truth.method == "exact"
    assert truth.passes == 512
    np.testing.assert_allclose(truth.values, WEIGHTS, atol=1e-12)
    assert truth.error == truth.spread == 0.0


def test_pixels_that_are_needed_together_share_evenly():
    session = Session(patch_reader(lambda white: white[:, [0, 4, 8]].all(1).astype(float)), [planted_sample()])
    [truth] = planted(session).shapley([0], Effort(budget=512)).values()
    expected = np.zeros(9)
    expected[[0, 4, 8]] = 1 / 3
    np.testing.assert_allclose(truth.values, expected, atol=1e-12)
    [single] = planted(session).single_deletion([0]).values()
    np.testing.assert_allclose(single, expected * 3, atol=1e-12)  # each alone seems to be worth everything


def test_single_deletion_is_blind_to_pixels_that_stand_in_for_each_other():
    session = Session(patch_reader(lambda white: white[:, [0, 4]].any(1).astype(float)), [planted_sample()])
    known = planted(session)
    assert not known.single_deletion([0])[0].any()
    truth = known.shapley([0], Effort(budget=512))[0]
    np.testing.assert_allclose(truth.values[[0, 4]], 0.5)


@pytest.mark.parametrize("method", ["regression", "permutation", "stratified", "kernelshap"])
def test_estimates_lie_within_three_standard_errors_of_exact_values_on_sixteen_pixels(method):
    rng = np.random.default_rng(5)
    weight, pairs = rng.normal(0.4, 0.6, 16), rng.normal(0, 0.25, (16, 16))

    def value(white):
        seen = white.astype(float)
        return 1 / (1 + np.exp(3 - seen @ weight - ((seen @ pairs) * seen).sum(1)))

    samples = [planted_sample(f"s{k}", side=4) for k in range(3)]
    session = Session(patch_reader(value, side=4), samples)
    known = planted(session)
    exact = shapley_values(value(coalitions(16)))
    found = known.shapley([0, 1, 2], Effort(method, budget=300, trials=4, error=0.0))
    away = np.array([(truth.values - exact) / truth.standard_error for truth in found.values()])
    # 48 normal deviates: one beyond three is a chance of 12 %, two of 1 %
    assert (np.abs(away) > 3).sum() <= 1
    assert np.abs(away).mean() > 0.2  # error bars that are far too wide would pass the line above
    for truth in found.values():
        assert len(truth.trials) == 4
        assert truth.passes <= 4 * 300
        gain = value(np.ones((1, 16)))[0] - value(np.zeros((1, 16)))[0]
        assert truth.values.sum() == pytest.approx(gain, abs=1e-9)
        assert 0.3 * truth.error < truth.spread < 3 * truth.error


def test_trials_stop_when_the_error_is_small_enough_but_are_two_at_least():
    def value(white):
        return 0.9 * (white.mean(1) > 0.5)

    session = Session(patch_reader(value, side=4), [planted_sample(side=4)])
    known = planted(session)
    easy = known.shapley([0], Effort(budget=200, trials=6, error=1.0))[0]
    hard = known.shapley([0], Effort(budget=200, trials=6, error=1e-9))[0]
    assert (len(easy.trials), len(hard.trials)) == (2, 3)  # 200 + 100; 200 + 800 + 200
    assert easy.passes <= 300  # a whole first trial, half a second one
    assert 1100 < hard.passes <= 1200
    assert hard.error < easy.error
    np.testing.assert_array_equal(easy.trials[0], hard.trials[0])  # the same stream


def test_trials_count_by_their_error():
    exact = Estimate(np.array([0.5, 0.5]), np.zeros(2), 4, "exact")
    alone = Truth.mean([exact])
    assert (alone.error, alone.spread, alone.passes) == (0, 0, 4)
    good, poor = (Estimate(np.full(2, v), np.full(2, e), 10, "x") for v, e in ((1.0, 0.1), (4.0, 0.2)))
    both = Truth.mean([good, poor])
    np.testing.assert_allclose(both.weights, [0.8, 0.2])
    np.testing.assert_allclose(both.values, 1.6)
    np.testing.assert_allclose(both.standard_error, np.sqrt(1 / (1 / 0.01 + 1 / 0.04)))
    assert both.spread == pytest.approx(np.sqrt(0.8 * 0.36 + 0.2 * 5.76))


def test_answers_are_asked_for_once():
    session = Session(patch_reader(additive), [planted_sample()])
    known = planted(session)
    known.shapley([0], Effort(budget=512))
    made = session.cost.passes.made
    assert made == 512
    known.shapley([0], Effort(budget=512))
    known.single_deletion([0])
    assert session.cost.passes.made == made


def test_right_says_whether_the_class_still_wins():
    session = Session(patch_reader(lambda white: white.mean(1)), [planted_sample()])
    keep = np.arange(9)[None, :] < np.array([0, 4, 5, 9])[:, None]
    [right] = planted(session).right([(0, keep)])
    assert right.tolist() == [False, False, True, True]


def test_dominance_is_equation_one():
    def value(white):
        return np.where(white.all(1), 0.97, np.where(white.any(1), 0.5, 0.05))

    session = Session(patch_reader(value), [planted_sample()])
    answers = planted(session).answers
    assert answers.clean[0] == pytest.approx(0.05)
    assert answers.perturbed[0] == pytest.approx(0.97)
    assert answers.dominant(0.9).tolist() == [True]
    assert answers.dominant(0.93).tolist() == [False]  # the gain is 0.92
    high = Session(patch_reader(lambda white: np.where(white.all(1), 0.99, 0.6)), [planted_sample()])
    assert planted(high).answers.dominant(0.1).tolist() == [False]  # without the shortcut the class wins already


def test_maps_are_zero_outside_the_patch():
    session = Session(patch_reader(additive), [planted_sample()])
    found = planted(session).on_image(0, WEIGHTS)
    mask = session.samples[0].mask("shortcut")
    np.testing.assert_array_equal(found[mask], WEIGHTS)
    assert not found[~mask].any()


def test_a_session_is_not_kept_alive_by_what_is_known_about_it():
    session = Session(patch_reader(additive), [planted_sample()])
    known = planted(session)
    known.shapley([0], Effort(budget=512))
    gone = weakref.ref(session)
    del session
    gc.collect()
    assert gone() is None
    with pytest.raises(KaratError, match="session"):
        known.single_deletion([0])


def test_samples_without_a_clean_twin_are_refused():
    session = Session(patch_reader(additive), [Sample("a", np.zeros((12, 12, 3), np.uint8), answer="yes")])
    with pytest.raises(KaratError, match="clean twin"):
        planted(session).shapley([0], Effort())
