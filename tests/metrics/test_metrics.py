"""What holds for every metric on maps and masks: the table below is the list; add a metric and it is tested."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from functools import partial
from typing import Any

import numpy as np
import pytest
from bounds import outside

from karat.kernel.constraints import parameter_types
from karat.kernel.errors import BadInput
from karat.kernel.registry import build, registered
from karat.kernel.row import Failure, NotApplicable, Score
from karat.metrics import arrays, outcomes
from karat.metrics.localization import CorrectedMass, OtsuIoU, RelevanceMass, Spuriousity
from karat.metrics.ranking import Hit, PointingGame, RelevanceRank, WeightedIoU
from tests.metrics.scenes import blobs, generic

MASK_METRICS = [
    RelevanceMass(),
    CorrectedMass(),
    Spuriousity(),
    Spuriousity(0.1, "hard"),
    OtsuIoU(),
    Hit(),
    Hit(top=5),
    PointingGame(),
    PointingGame(2.0),
    RelevanceRank(),
]
METRICS: list[Any] = [*MASK_METRICS, WeightedIoU(ks=(5, 3, 1), weights=(1, 2, 3))]
REGISTERED = registered("metric")
BOUNDS = [
    (metric, parameter, value, bound)
    for metric, cls in sorted(REGISTERED.items())
    for parameter, hint in parameter_types(cls).items()
    for value, bound in outside(hint)
]
DIFFERENTIABLE = [RelevanceMass(), CorrectedMass(), Spuriousity(), Spuriousity(threshold=0.2)]


def name(metric: Any) -> str:
    return repr(metric)


def truth_for(metric: Any, maps: Any, masks: Any) -> Any:
    """A mask for most; for a metric that compares rankings, the map's own with noise."""
    return maps + np.random.default_rng(7).normal(size=maps.shape) if isinstance(metric, WeightedIoU) else masks


@pytest.fixture
def batch() -> tuple[Any, Any]:
    maps, _ = generic(9, 12, 10)
    masks = np.zeros(maps.shape, dtype=bool)
    for i in range(9):
        masks[i, : 2 + i % 4, i // 3 : 4] = True
    return maps + masks, masks


@pytest.mark.parametrize("metric", METRICS, ids=name)
def test_one_float64_per_sample_within_the_declared_range(metric: Any, batch: Any) -> None:
    maps, masks = batch
    values = metric(maps, truth_for(metric, maps, masks))
    assert values.shape == (9,)
    assert values.dtype == np.float64
    low, high = metric.card.range
    assert ((values >= low) & (values <= high)).all()
    assert values.std() > 0 or isinstance(metric, Hit | PointingGame)


@pytest.mark.parametrize("metric", METRICS, ids=name)
def test_direction_prefers_the_truth_to_its_inverse(metric: Any, batch: Any) -> None:
    maps, masks = batch
    truth = truth_for(metric, maps, masks)
    good, bad = metric(truth * 1.0, truth), metric(1.5 - truth * 1.0, truth)
    assert (good > bad).all() if metric.card.direction == "higher" else (good < bad).all()


@pytest.mark.parametrize("metric", METRICS, ids=name)
def test_a_batch_is_the_samples_one_by_one_in_any_order(metric: Any, batch: Any, monkeypatch: Any) -> None:
    maps, masks = batch
    truth = truth_for(metric, maps, masks)
    values = metric(maps, truth)
    alone = np.concatenate([metric(maps[i : i + 1], truth[i : i + 1]) for i in range(9)])
    np.testing.assert_array_equal(values, alone)
    order = np.random.default_rng(0).permutation(9)
    np.testing.assert_array_equal(metric(maps[order], truth[order]), values[order])
    monkeypatch.setattr(arrays, "CELLS_PER_BLOCK", 250)  # blocks of two, the last of one
    np.testing.assert_array_equal(metric(maps, truth), values)


@pytest.mark.parametrize("metric", METRICS, ids=name)
def test_no_samples_no_values(metric: Any) -> None:
    assert metric(np.zeros((0, 4, 5)), np.zeros((0, 4, 5), dtype=bool)).shape == (0,)
    assert metric.problems(np.zeros((0, 4, 5)), np.zeros((0, 4, 5), dtype=bool)) == []


@pytest.mark.parametrize("metric", METRICS, ids=name)
def test_layout_and_dtype_do_not_matter(metric: Any, batch: Any) -> None:
    maps, masks = np.round(batch[0] * 8) / 8, batch[1]
    truth = truth_for(metric, maps, masks)
    values = metric(maps, truth)
    np.testing.assert_array_equal(metric(np.asfortranarray(maps), np.asfortranarray(truth)), values)
    np.testing.assert_array_equal(metric(maps.astype(np.float32), truth), values)
    np.testing.assert_array_equal(metric((maps * 8).astype(np.int64), truth), metric(maps * 8, truth))
    np.testing.assert_array_equal(metric(maps.tolist(), truth.tolist()), values)
    if isinstance(metric, WeightedIoU):
        return
    np.testing.assert_array_equal(metric(maps, masks.astype(np.uint8) * 255), values)
    np.testing.assert_array_equal(metric(maps, masks.astype(float)), values)


@pytest.mark.parametrize("metric", METRICS, ids=name)
@pytest.mark.parametrize("shape", [(4, 5), (2, 3, 4, 5), (5,), (2, 0, 5)])
def test_maps_of_another_rank_are_refused(metric: Any, shape: tuple[int, ...]) -> None:
    remedy = {2: r"maps\[None\]", 4: r"sum\(1\)"}.get(len(shape), str(shape[0]))
    with pytest.raises(BadInput, match=remedy) as caught:
        metric(np.ones(shape), np.ones(shape, dtype=bool))
    assert str(shape) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("metric", METRICS, ids=name)
@pytest.mark.parametrize(
    ("shape", "remedy"),
    [((2, 8, 8), r"resize_maps\(maps, 8, 8\)"), ((4, 4), "broadcast_to"), ((3, 4, 4), "one per map")],
)
def test_truth_of_another_shape_is_refused_with_both_shapes(metric: Any, shape: Any, remedy: str) -> None:
    with pytest.raises(BadInput, match=remedy) as caught:
        metric(np.ones((2, 4, 4)), np.ones(shape, dtype=bool))
    assert "(2, 4, 4)" in str(caught.value)
    assert str(shape) in str(caught.value)


@pytest.mark.parametrize("metric", METRICS, ids=name)
def test_missing_is_nan_with_a_reason_and_leaves_its_neighbours_alone(metric: Any, batch: Any) -> None:
    maps, masks = batch[0].copy(), batch[1].copy()
    clean = metric(maps, truth_for(metric, maps, masks))
    truth = truth_for(metric, maps, masks)
    maps[1], maps[2, 3, 3], maps[3, 0, 0], maps[4, 0, 1], truth[5] = 0, np.nan, np.inf, -np.inf, 0
    maps[6], truth[6] = 0, 0
    with np.errstate(all="raise"):
        values = metric(maps, truth)
    expected = clean.copy()
    expected[1:7] = np.nan
    np.testing.assert_array_equal(values, expected)
    empty = "truth is all zero" if isinstance(metric, WeightedIoU) else "truth mask is empty"
    broken = Failure("map has NaN or inf")
    problems = [None, Failure("map is all zero"), broken, broken, broken, NotApplicable(empty), NotApplicable(empty)]
    assert metric.problems(maps, truth) == [*problems, None, None]
    rows = list(outcomes(values, metric.problems(maps, truth)))
    assert rows[:7] == [Score(clean[0]), *problems[1:]]


@pytest.mark.parametrize(("metric", "parameter", "value", "bound"), BOUNDS)
def test_one_step_outside_a_declared_bound_is_refused(metric: str, parameter: str, value: Any, bound: str) -> None:
    for construct in (
        partial(build, "metric", metric, {parameter: value}),
        partial(REGISTERED[metric], **{parameter: value}),
    ):
        with pytest.raises(BadInput, match=parameter) as caught:
            construct()
        assert metric in str(caught.value)
        assert bound in str(caught.value)


def test_every_parameter_of_a_metric_has_a_bound() -> None:
    parameters = {(metric, field.name) for metric, cls in REGISTERED.items() for field in dataclasses.fields(cls)}
    assert parameters == {(metric, parameter) for metric, parameter, _, _ in BOUNDS}
    assert len(parameters) >= 8


def test_a_flat_map_is_not_a_problem() -> None:
    maps, masks = np.full((1, 4, 4), 0.5), generic(1, 4, 4)[1]
    for metric in METRICS:
        assert metric.problems(maps, masks) == [None]
        assert np.isfinite(metric(maps, masks)).all()


def test_metrics_leave_torch_unloaded() -> None:
    code = """if True:
        import sys
        import numpy as np
        from karat.metrics import compass, hit, relevance_mass
        ones = np.ones((1, 2, 2))
        hit(ones, ones), relevance_mass(ones, ones), compass(ones, (0, 0), (1, 1))
        print("torch" in sys.modules)"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


class TestTorch:
    torch = pytest.importorskip("torch")

    @pytest.mark.parametrize("metric", METRICS, ids=name)
    def test_tensors_give_the_same_values_as_tensors(self, metric: Any, batch: Any) -> None:
        torch = self.torch
        maps, masks = batch
        maps = maps.copy()
        maps[2], maps[3, 0, 0] = 0, np.nan
        truth = truth_for(metric, np.nan_to_num(maps), masks)
        expected = metric(maps, truth)
        values = metric(torch.tensor(maps), torch.tensor(truth))
        assert values.dtype == torch.float64
        np.testing.assert_allclose(values.numpy(), expected, rtol=1e-13, atol=1e-15)
        np.testing.assert_allclose(metric(torch.tensor(maps), truth).numpy(), values.numpy())  # truth from NumPy
        np.testing.assert_allclose(metric(maps, torch.tensor(truth)), values.numpy())
        single = metric(torch.tensor(maps).float(), torch.tensor(truth))
        assert single.dtype == torch.float32
        np.testing.assert_allclose(single.numpy(), expected, rtol=1e-4, atol=1e-5)
        assert metric(torch.tensor(maps).bfloat16(), torch.tensor(truth)).dtype == torch.float32

    @pytest.mark.parametrize("metric", DIFFERENTIABLE, ids=name)
    def test_gradients(self, metric: Any) -> None:
        torch = self.torch
        maps = torch.tensor(blobs(3, 4, 5), requires_grad=True)
        masks = torch.tensor(generic(3, 4, 5)[1])
        assert torch.autograd.gradcheck(lambda m: metric(m, masks), (maps,))

    @pytest.mark.parametrize("metric", DIFFERENTIABLE, ids=name)
    def test_a_broken_map_does_not_poison_the_gradient_of_the_others(self, metric: Any) -> None:
        torch = self.torch
        data = blobs(4, 8, 9)
        data[1], data[2, 1, 1] = 0, np.nan
        maps = torch.tensor(data, requires_grad=True)
        metric(maps, generic(4, 8, 9)[1]).nanmean().backward()
        assert torch.isfinite(maps.grad).all()
        assert not maps.grad[1:3].any()
        assert maps.grad[0].any()
        assert maps.grad[3].any()
