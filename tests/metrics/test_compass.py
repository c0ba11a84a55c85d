"""The compass beside its slow twin; directions, ties, scales, and every case without an answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from karat.kernel.errors import BadInput
from karat.kernel.row import Failure
from karat.metrics import compass, compass_problem, direction_error, excess
from karat.metrics.compass import DirectionError
from tests.metrics.scenes import generic
from tests.twins import compass as twin


def scene(n: int = 10, h: int = 8, w: int = 8, seed: int = 0) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    return generic(n, h, w, seed)[0], rng.uniform(0, (w, h), (n, 2)), rng.uniform(0, (w, h), (n, 2))


@pytest.mark.parametrize("sectors", [3, 4, 8, 16])
@pytest.mark.parametrize("sigma", [0.3, 1.2])
def test_equals_its_twin(sectors: int, sigma: float) -> None:
    maps, a, b = scene(h=7, w=9)
    shares = compass(maps, a, b, sectors, sigma)
    expected = [twin.compass(*one, sectors, sigma) for one in zip(maps, a, b, strict=True)]
    np.testing.assert_allclose(shares, expected, rtol=1e-9, atol=1e-15)
    errors = [twin.direction_error(*one) for one in zip(shares, a, b, strict=True)]
    np.testing.assert_allclose(direction_error(shares, a, b), errors)


@pytest.mark.parametrize("sectors", [4, 7, 8, 16])
def test_sectors_that_begin_at_0_degrees_equal_their_twin(sectors: int) -> None:
    rng = np.random.default_rng(sectors)
    maps, a, b = rng.random((5, 7, 9)), rng.uniform(1, 6, (5, 2)), rng.uniform(1, 6, (5, 2))
    shares = compass(maps, a, b, sectors, origin="edge")
    for i in range(5):
        np.testing.assert_allclose(shares[i], twin.compass(maps[i], a[i], b[i], sectors, 1.2, 180 / sectors))
    tensor = compass(torch.from_numpy(maps), a, b, sectors, origin="edge")
    np.testing.assert_allclose(tensor.numpy(), shares)
    spot = np.zeros((1, 5, 5))
    spot[0, 2, 4] = 1.0  # straight to the right: on the border, so in the sector counter-clockwise of it
    one = compass(spot, (2.5, 2.5), (4.5, 2.5), sectors, origin="edge")
    assert one[0].argmax() == 0
    assert direction_error(one, (2.5, 2.5), (4.5, 2.5), origin="edge")[0] == pytest.approx(180 / sectors)


def test_directions_are_as_the_eye_sees_them() -> None:
    reference = (2.5, 2.5)
    places = {0: (2, 4), 1: (0, 4), 2: (0, 2), 3: (0, 0), 4: (2, 0), 5: (4, 0), 6: (4, 2), 7: (4, 4)}
    for sector, (row, column) in places.items():
        maps = np.zeros((1, 5, 5))
        maps[0, row, column] = 1.0
        shares = compass(maps, reference, (column + 0.5, row + 0.5))
        assert shares[0, sector] == 1.0
        assert direction_error(shares, reference, (column + 0.5, row + 0.5)) == pytest.approx(0.0, abs=1e-12)
        assert direction_error(shares, (column + 0.5, row + 0.5), reference) == pytest.approx(180.0)


@given(st.integers(0, 500), st.sampled_from([4, 8, 12, 28]), st.booleans())
def test_a_quarter_turn_of_the_scene_turns_the_compass(seed: int, sectors: int, on_cells: bool) -> None:
    maps, a, b = scene(3, seed=seed)
    if on_cells:  # with 4 or 28 sectors, cells then lie exactly on borders
        a, b = np.floor(a) + 0.5, np.floor(b) + np.array([0.5, 0.0])
    turned = np.rot90(maps, axes=(1, 2))  # counter-clockwise: (x, y) goes to (y, 8 - x)

    def turn(p: Any) -> Any:
        return np.stack([p[:, 1], 8 - p[:, 0]], -1)

    shares = compass(maps, a, b, sectors)
    after = compass(turned, turn(a), turn(b), sectors)
    np.testing.assert_allclose(after, np.roll(shares, sectors // 4, axis=1), rtol=1e-9, atol=1e-12)
    errors = direction_error(shares, a, b)
    np.testing.assert_allclose(direction_error(after, turn(a), turn(b)), errors, atol=1e-9)


@given(st.integers(0, 500), st.sampled_from([1e-200, 0.5, 1e200]))
def test_is_a_distribution_whatever_the_scale(seed: int, scale: float) -> None:
    maps, a, b = scene(3, seed=seed)
    shares = compass(maps, a, b)
    np.testing.assert_allclose(shares.sum(-1), 1.0)
    assert (shares >= 0).all()
    np.testing.assert_allclose(compass(maps * scale, a, b), shares, rtol=1e-9, atol=1e-15)


def test_far_evidence_does_not_underflow() -> None:
    maps = np.zeros((1, 100, 100))
    maps[0, 0, 99], maps[0, 99, 0] = 1.0, 1.0
    shares = compass(maps, (10.5, 89.5), (10.5, 89.4))  # the target is a tenth of a cell away
    assert shares[0, 5] == 1.0  # the near corner, below left, outweighs the far one beyond measure
    assert np.isclose(compass(maps, (10.5, 89.5), (10.5, 89.4), sigma=float("inf"))[0, [1, 5]], 0.5).all()


def test_every_degenerate_case_is_nan_with_its_reason() -> None:
    maps = np.zeros((6, 3, 3))
    maps[1, 1, 1] = 1.0
    maps[2, 0, 0], maps[3, 0, 0], maps[4, 0, 0] = -1.0, 1.0, np.nan
    maps[5, 0, 0] = 1.0
    a = np.full((6, 2), 1.5)
    b = np.array([[2.5, 1.5]] * 3 + [[1.5, 1.5]] + [[2.5, 1.5]] * 2)
    reasons = [
        "map is all zero",
        "all evidence lies on the reference",
        "map has no positive evidence",
        "reference and target coincide",
        "map has NaN or inf",
        None,
    ]
    assert compass_problem(maps, a, b) == reasons
    shares = compass(maps, a, b)
    assert np.isnan(shares).all(-1).tolist() == [True] * 5 + [False]
    metric = DirectionError()
    values = metric(maps, a, b)
    assert np.isnan(values).tolist() == [True] * 5 + [False]
    assert values[5] == 135.0
    assert metric.problems(maps, a, b) == [Failure(reason) if reason else None for reason in reasons]


@given(st.integers(0, 500))
def test_a_reason_for_every_nan(seed: int) -> None:
    rng = np.random.default_rng(seed)
    maps = rng.choice([-1.0, 0.0, 0.0, 0.0, 1.0], (8, 2, 2))
    a, b = rng.choice([0.5, 1.5], (8, 2)), rng.choice([0.5, 1.5], (8, 2))
    missing = np.isnan(compass(maps, a, b)).any(-1).tolist()
    assert [reason is not None for reason in compass_problem(maps, a, b)] == missing


def test_ties_share_and_a_uniform_compass_scores_90() -> None:
    a, b = (0.0, 0.0), (1.0, 0.0)
    assert direction_error(np.full((1, 8), 1 / 8), a, b) == 90.0
    assert direction_error(np.array([[0.4, 0.4 + 1e-16, 0.0, 0.2]]), a, b) == 45.0


def test_circular_mean_lies_between_sectors() -> None:
    shares = np.array([[0.5, 0.5, 0.0, 0.0], [0.5, 0.0, 0.5, 0.0], [np.nan] * 4])
    errors = direction_error(shares, (0.0, 0.0), (1.0, -1.0), estimator="mean")
    np.testing.assert_allclose(errors, [0.0, np.nan, np.nan], atol=1e-12)


def test_eight_sectors_miss_a_random_direction_by_eleven_degrees() -> None:
    angle = np.random.default_rng(0).uniform(0, 2 * np.pi, 20_000)
    b = np.stack([np.cos(angle), -np.sin(angle)], -1)
    nearest = np.eye(8)[np.round(angle / (np.pi / 4)).astype(int) % 8]
    errors = direction_error(nearest, (0.0, 0.0), b)
    assert errors.max() <= 22.5 + 1e-9
    assert errors.mean() == pytest.approx(11.25, abs=0.15)  # FACTS: the floor of a peak readout


def test_parameters_out_of_range_say_so() -> None:
    maps, a, b = scene(2)
    with pytest.raises(BadInput, match=r"\(2, 2\) or \(2,\); got \(3,\)"):
        compass(maps, np.zeros(3), b)
    with pytest.raises(BadInput, match="NaN or inf"):
        compass(maps, a * np.nan, b)
    with pytest.raises(BadInput, match="sectors"):
        compass(maps, a, b, sectors=1)
    with pytest.raises(BadInput, match="sigma"):
        compass(maps, a, b, sigma=0.0)
    with pytest.raises(BadInput, match="'peak' or 'mean'"):
        direction_error(compass(maps, a, b), a, b, estimator="median")  # type: ignore[arg-type]
    with pytest.raises(BadInput, match=r"\(n, sectors\)"):
        direction_error(np.zeros(8), a, b)


@pytest.mark.parametrize("aspect", [0.5, 1.6])
def test_flat_cells_are_read_as_the_picture_is(aspect: float) -> None:
    """A map with cells `aspect` as high as wide is the same as its square twin with rows repeated."""
    rng = np.random.default_rng(0)
    tall = 5
    maps = rng.random((4, 6, 8))
    a, b = rng.uniform(0.3, (7.7, 5.7), (2, 4, 2))
    fine = np.repeat(np.repeat(maps, tall, axis=1), tall, axis=2) / tall**2  # the same picture, 25 times as many cells
    coarse = compass(fine, a * tall, b * tall, aspect=aspect)
    stretched = np.array([1.0, aspect])
    expected = [
        twin.compass_of_cells(one * stretched, other * stretched, picture, (1.0 / tall, aspect / tall), 8, 1.2)
        for picture, one, other in zip(fine, a, b, strict=True)
    ]
    np.testing.assert_allclose(coarse, expected, rtol=1e-9, atol=1e-15)
    step = (b - a) * stretched
    true = np.degrees(np.arctan2(-step[:, 1], step[:, 0]))
    peaks = coarse.argmax(1) * 45.0
    errors = direction_error(coarse, a, b, aspect=aspect)
    np.testing.assert_allclose(errors, np.abs((peaks - true + 180) % 360 - 180))


def test_a_flat_map_has_no_excess_anywhere() -> None:
    _, a, b = scene(20)
    scores = excess(np.full((20, 8, 8), 0.3), a, b)
    assert (scores == 0).all()
    np.testing.assert_allclose(direction_error(scores, a, b), 90.0)


def test_excess_is_above_zero_where_the_evidence_is() -> None:
    maps = np.ones((1, 9, 9))
    maps[0, 4, 8] = 3.0
    scores = excess(maps, (4.5, 4.5), (8.5, 4.5))
    assert scores.argmax() == 0
    assert (scores[0, 1:] < 0).all()


def test_ignored_cells_are_neither_evidence_nor_picture() -> None:
    maps = np.ones((1, 9, 9))
    maps[0, 3:6, 3:6] = 50.0  # all on the reference
    ignore = np.zeros((1, 9, 9), bool)
    ignore[0, 3:6, 3:6] = True
    assert np.abs(excess(maps, (4.7, 4.4), (8.5, 4.5), ignore=ignore)).max() < 1e-9
    assert np.abs(excess(maps, (4.7, 4.4), (8.5, 4.5))).max() > 1


def test_aspects_must_be_positive() -> None:
    maps, a, b = scene(2)
    with pytest.raises(BadInput, match="height over its width"):
        compass(maps, a, b, aspect=0.0)


def test_tensors_give_the_same_compass_and_its_gradient() -> None:
    torch: Any = pytest.importorskip("torch")
    data = generic(5, 6, 7)[0]
    data[1] = 0
    a, b = np.random.default_rng(0).uniform(0, 6, (2, 5, 2))
    expected = compass(data, a, b)
    maps = torch.tensor(data, requires_grad=True)
    shares = compass(maps, torch.tensor(a), b)
    np.testing.assert_allclose(shares.detach().numpy(), expected, rtol=1e-13)
    errors = direction_error(shares, a, torch.tensor(b))
    assert isinstance(errors, torch.Tensor)
    np.testing.assert_allclose(errors.numpy(), direction_error(expected, a, b))
    (shares[:, 0].nansum() + shares[:, 3].nansum()).backward()
    assert torch.isfinite(maps.grad).all()
    assert maps.grad[0].any()
    good = torch.tensor(data[2:], requires_grad=True)
    assert torch.autograd.gradcheck(lambda m: compass(m, a[2:], b[2:]), (good,))
