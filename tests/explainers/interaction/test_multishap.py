"""MultiSHAP and its relatives: exact on small games, convergent on larger ones, zero for sums, planted pairs found."""

from __future__ import annotations

import numpy as np
import pytest
import shapiq
from asking_worlds import additive, entangled, planted, shades, white, world
from hypothesis import given, settings
from hypothesis import strategies as st

from karat.explainers.interaction import FaithShap, MultiShap, WeightedBanzhaf
from karat.explainers.interaction.faithful import banzhaf_pairs, faith_shap
from karat.explainers.interaction.multishap import released
from karat.explainers.interaction.pair_regression import least_pairs, pair_regression
from karat.explainers.interaction.reducing import reduced, synergy_share
from karat.explainers.interaction.switching import switched
from karat.kernel.errors import BadInput
from karat.probe import Absence, Estimate, Evaluator, Game, Session, interaction_matrix
from karat.probe.exact import coalitions, shapley_interactions, shapley_values

PAIR_METHODS = [MultiShap, FaithShap, WeightedBanzhaf]


def table(n: int, seed: int = 0) -> np.ndarray:
    """A squashed sum with pairs: interactions of every order."""
    rng = np.random.default_rng(seed)
    keep = coalitions(n)
    strong = rng.normal(size=n) * np.where(np.arange(n) < 4, 2.0, 0.3)
    score = keep @ strong - 1 + 1.5 * keep[:, 0] * keep[:, n - 1] - 2 * keep[:, 2] * keep[:, n - 2]
    return np.asarray(1 / (1 + np.exp(-score)))


def game_of(values: np.ndarray, n_visual: int) -> Game:
    n = len(values).bit_length() - 1
    powers = 1 << np.arange(n)
    return Game(lambda v, t: values[np.concatenate([v, t], axis=1) @ powers], n_visual, n - n_visual)


def asked(game: Game, budget: int, seed: int) -> Estimate:
    evaluator = Evaluator.of(game, budget=budget)
    rows, columns = range(game.n_visual), range(game.n_visual, game.n)
    question = pair_regression(game.n, rows, columns, budget, np.random.default_rng(seed))
    [found] = evaluator.run([(0, question)])
    assert found.passes == evaluator.passes.made <= budget
    return found


@pytest.mark.parametrize("n", range(4, 13))
def test_with_all_coalitions_the_regression_is_the_exact_index(n: int) -> None:
    values = np.random.default_rng(n).normal(size=2**n)  # no structure whatever
    truth = shapley_interactions(values)[: n // 2, n // 2 :]
    found = asked(game_of(values, n // 2), 2**n, seed=0)
    np.testing.assert_allclose(found.values, truth, atol=1e-8)
    assert found.standard_error.max() < 1e-8


@pytest.mark.parametrize(("n", "n_visual", "budget"), [(11, 6, 600), (13, 9, 1200)])
def test_sampled_it_converges_and_its_error_bars_cover(n: int, n_visual: int, budget: int) -> None:
    values = table(n)
    truth, game = shapley_interactions(values)[:n_visual, n_visual:], game_of(values, n_visual)
    runs = [asked(game, budget, seed) for seed in range(40)]
    z = np.stack([(run.values - truth) / run.standard_error for run in runs])
    assert 0.90 < (np.abs(z) < 1.96).mean() < 0.99
    more = [asked(game, 3 * budget, seed) for seed in range(10)] if 3 * budget < 2**n else [asked(game, 2**n, 0)]
    error, less = (np.mean([((run.values - truth) ** 2).mean() for run in some]) for some in (runs, more))
    assert less < error / 2.5


@pytest.mark.parametrize(("budget", "contexts"), [(200, 4), (600, 14), (1500, 35)])
def test_switching_is_right_on_average_and_its_error_bars_cover(budget: int, contexts: int) -> None:
    values = table(11)
    truth, game = shapley_interactions(values)[:6, 6:], game_of(values, 6)
    runs = []
    for seed in range(150):
        evaluator = Evaluator.of(game, budget=budget)
        [found] = evaluator.run([(0, switched(6, 5, budget, np.random.default_rng(seed)))])
        assert evaluator.passes.made <= found.passes <= budget
        assert found.passes >= contexts * 42 or budget > 16 * 42
        runs.append(found)
    z = np.stack([(run.values - truth) / run.standard_error for run in runs])
    assert 0.88 < (np.abs(z) < 1.96).mean() <= 0.99
    mean, spread = (
        (np.stack([run.values for run in runs]) - truth).mean(axis=0),
        np.std([r.values for r in runs], axis=0),
    )
    assert (np.abs(mean) / (spread / np.sqrt(150))).max() < 4.5


def test_a_quadratic_game_needs_few_coalitions() -> None:
    """36 patches and 12 words: 432 pairs from 2,000 coalitions."""
    rng = np.random.default_rng(0)
    across, main = rng.normal(size=(36, 12)), rng.normal(size=48)

    def value(visual: np.ndarray, text: np.ndarray) -> np.ndarray:
        joint = np.concatenate([visual, text], axis=1)
        return joint @ main + np.einsum("mi,ij,mj->m", visual, across, text)

    found = asked(Game(value, 36, 12), 2000, seed=1)
    np.testing.assert_allclose(found.values, across, atol=1e-6)


@given(r=st.integers(1, 6), c=st.integers(1, 5), extra=st.integers(0, 100), seed=st.integers(0, 1000))
@settings(max_examples=25, deadline=None)
def test_sums_of_the_two_sides_have_no_interaction(r: int, c: int, extra: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    inside, w = rng.normal(size=(r, r)), rng.normal(size=c)
    game = Game(lambda v, t: np.tanh(np.einsum("mi,ij,mj->m", v, inside, v)) + np.cos(t @ w), r, c)
    budget = max(least_pairs(r + c, r, c) + extra, 4)
    if 2 ** (r + c) <= budget:
        np.testing.assert_allclose(asked(game, 2 ** (r + c), seed).values, 0, atol=1e-9)
    else:
        found = asked(game, budget, seed)
        assert (np.abs(found.values) <= 6 * found.standard_error + 1e-9).mean() > 0.9


def test_too_small_a_budget_is_said() -> None:
    with pytest.raises(BadInput, match="need a budget of 1686"):
        asked(Game(lambda v, t: v[:, 0] * 1.0, 36, 12), 1000, 0)


@pytest.mark.parametrize("method", PAIR_METHODS)
def test_an_additive_model_has_no_interaction(method: type[MultiShap]) -> None:
    model, _ = world(additive)
    [found] = method(visual=(2, 2), absence="black", budget=128)(Session(model, [white()], ["yes"]))
    close = 1e-6 if method is FaithShap else 1e-12  # shapiq gives the two ends a large finite weight
    np.testing.assert_allclose(found.pairs, 0, atol=close)
    [sampled] = method(visual=(4, 4), absence="black", budget=1000)(Session(model, [white()], ["yes"]))
    np.testing.assert_allclose(sampled.pairs, 0, atol=1e-6)


@pytest.mark.parametrize("method", PAIR_METHODS)
def test_a_planted_pair_is_found(method: type[MultiShap]) -> None:
    model, seen = world(planted)
    [found] = method(visual=(4, 4), absence="black", budget=1000)(Session(model, [white()], ["yes"]))
    expected = np.zeros((16, 3))
    expected[5, 2] = 0.4
    np.testing.assert_allclose(found.pairs, expected, atol=1e-6)
    np.testing.assert_allclose(found.visual.ravel(), expected.mean(axis=1), atol=1e-6)
    np.testing.assert_allclose(found.words, expected.mean(axis=0), atol=1e-6)
    assert found.scalar == pytest.approx(1, abs=1e-3)
    assert found.standard_error.shape == (16, 3)
    assert len(set(seen.seen)) <= found.passes <= 1000


def test_both_estimators_find_it() -> None:
    model, _ = world(planted)
    session = Session(model, [white()], ["yes"])
    for estimator in ("switching", "regression"):
        [found] = MultiShap(visual=(4, 4), absence="black", budget=600, estimator=estimator)(session)
        assert found.pairs[5, 2] == pytest.approx(0.4, abs=1e-6)
        assert np.abs(np.delete(found.pairs.ravel(), 5 * 3 + 2)).max() < 1e-6
        assert found.passes <= 600
    with pytest.raises(BadInput, match="need a budget of 272"):
        MultiShap(visual=(4, 4), absence="black", budget=100)(session)


def test_multishap_is_the_exact_index_on_small_games() -> None:
    model, seen = world(entangled)
    session = Session(model, shades(2), ["yes"] * 2)
    found = MultiShap(visual=(3, 3), absence="black")(session)
    for i in range(2):
        game = session.game(i, visual=(3, 3), absence=Absence("black", "delete"))
        truth = interaction_matrix(Game(game.function, game.n_visual, game.n_text), method="exact").values
        np.testing.assert_allclose(found[i].pairs, truth, atol=1e-12)
    assert found[0].passes == 2**12
    assert len(set(seen.seen)) <= 2**12 + 2**10


def test_released_joins_patch_k_and_word_k() -> None:
    """Its expectation: the index of the merged game, and on the diagonal minus the Shapley value of number k."""
    values = table(7, seed=3)
    game = game_of(values, 4)  # 4 patches, 3 words: numbers 0 to 3
    keep = coalitions(4)
    merged = game.value(keep, keep[:, :3])
    truth = shapley_interactions(merged)[:, :3].copy()
    truth[np.arange(3), np.arange(3)] = -shapley_values(merged)[:3]
    evaluator = Evaluator.of(game)
    [found] = evaluator.run([(0, released(4, 3, 200_000, np.random.default_rng(0)))])
    assert found.passes <= 200_000
    np.testing.assert_allclose(found.values, truth, atol=5 * found.standard_error.max())
    assert found.standard_error.max() < 0.01
    assert not np.allclose(found.values, shapley_interactions(values)[:4, 4:], atol=0.05)


def test_faith_shap_and_banzhaf_equal_shapiqs_exact_values() -> None:
    values = table(8, seed=2)
    game, powers = game_of(values, 5), 1 << np.arange(8)
    computer = shapiq.ExactComputer(lambda keep: values[np.atleast_2d(keep).astype(bool) @ powers], n_players=8)
    faithful, banzhaf = computer("FSII", order=2), computer("BII", order=2)
    ours = faith_shap(game, 256, np.random.default_rng(0))
    [weighted] = Evaluator.of(game).run([(0, banzhaf_pairs(game, 256, 0.5, np.random.default_rng(0)))])
    for i in range(5):
        for j in range(5, 8):
            assert ours.values[i, j - 5] == pytest.approx(faithful[(i, j)], abs=1e-6)
            assert weighted.values[i, j - 5] == pytest.approx(banzhaf[(i, j)], abs=1e-10)


@pytest.mark.parametrize("share", [0.3, 0.8])
def test_weighted_banzhaf_equals_its_definition(share: float) -> None:
    values = table(7, seed=4)
    game = game_of(values, 4)
    [exact] = Evaluator.of(game).run([(0, banzhaf_pairs(game, 128, share, np.random.default_rng(0)))])
    rest = coalitions(5)
    for i in range(4):
        for j in range(4, 7):
            others = [k for k in range(7) if k not in (i, j)]
            total = 0.0
            for row in rest:
                base = sum(1 << k for k, kept in zip(others, row, strict=True) if kept)
                delta = values[base | 1 << i | 1 << j] - values[base | 1 << i] - values[base | 1 << j] + values[base]
                total += share ** row.sum() * (1 - share) ** (5 - row.sum()) * delta
            assert exact.values[i, j - 4] == pytest.approx(total, abs=1e-10)
    runs = [
        Evaluator.of(game).run([(0, banzhaf_pairs(game, 100, share, np.random.default_rng(seed)))])[0]
        for seed in range(60)
    ]
    z = np.stack([(run.values - exact.values) / run.standard_error for run in runs])
    assert 0.90 < (np.abs(z) < 1.96).mean() <= 0.99


def test_rules_of_reduction() -> None:
    indices = np.array([[1.0, -3.0], [2.0, 0.0]])
    assert reduced(indices, 1, "mean").tolist() == [-1.0, 1.0]
    assert reduced(indices, 1, "positive").tolist() == [0.5, 1.0]
    assert reduced(indices, 0, "absolute").tolist() == [1.5, 1.5]
    assert synergy_share(indices) == 0.5
    assert synergy_share(np.zeros((2, 2))) == 0.0


def test_a_question_is_needed() -> None:
    from karat.kernel.sample import Sample

    model, _ = world(additive)
    with pytest.raises(BadInput, match="lacks one"):
        MultiShap(visual=(2, 2))(Session(model, [Sample("mute", white().image)], ["yes"]))
