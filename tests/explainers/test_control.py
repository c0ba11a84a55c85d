"""Controls: geometry of the target's box, and a truth made worse whose ends are exact."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from karat.datasets import grid
from karat.explainers.control import BoxOnly, Degraded, Geometry, Oracle, Random, SmoothNoise, Uniform
from karat.kernel.attribution import resize_maps
from karat.kernel.errors import BadInput
from karat.kernel.sample import Region, Sample
from karat.metrics import compass, corrected_mass, direction_error, relevance_mass
from karat.models import blackbox, load_model
from karat.probe import Session

H, W = 40, 60


def with_boxes(*boxes: tuple[int, int, int, int]) -> Session:
    regions = (Region("t", "target", boxes), Region("a", "anchor", ((1, 1, 5, 5),)))
    sample = Sample("s", np.zeros((H, W, 3), np.uint8), "where?", regions=regions)
    return Session(blackbox(lambda samples, answers: np.ones(len(samples))), [sample], ["left"])


boxes = st.tuples(st.integers(0, W - 9), st.integers(0, H - 9), st.integers(1, 9), st.integers(1, 9))


@given(boxes)
def test_box_only_is_the_box(box: tuple[int, int, int, int]) -> None:
    x, y, w, h = box
    [attribution] = BoxOnly()(with_boxes(box))
    assert attribution.visual is not None
    assert attribution.visual.sum() == w * h
    assert attribution.visual[y : y + h, x : x + w].all()


@given(boxes)
def test_geometry_is_the_centre_of_the_box(box: tuple[int, int, int, int]) -> None:
    x, y, w, h = box
    [attribution] = Geometry()(with_boxes(box))
    assert attribution.visual is not None
    rows, columns = np.nonzero(attribution.visual)
    assert rows.mean() + 0.5 == y + h / 2
    assert columns.mean() + 0.5 == x + w / 2


@given(boxes)
def test_the_compass_of_geometry_points_at_the_target(box: tuple[int, int, int, int]) -> None:
    x, y, w, h = box
    target = np.array([[x + w / 2, y + h / 2]])
    reference = np.array([[20.25, 15.25]])
    if np.abs(target - reference).max() < 4:  # the middle pixels of an even box are then seen at some angle
        return
    [attribution] = Geometry()(with_boxes(box))
    assert attribution.visual is not None
    error = direction_error(compass(attribution.visual[None], reference, target), reference, target)
    assert error[0] <= 22.5 + 10


def test_a_box_at_the_border_and_no_box() -> None:
    [attribution] = Geometry()(with_boxes((W - 2, H - 2, 30, 30)))
    assert attribution.visual is not None
    assert attribution.visual[H - 1, W - 1] == attribution.visual.sum() == 1
    for control in (BoxOnly(), Geometry()):
        with pytest.raises(BadInput, match="role 'target' and a box; sample s has none"):
            control(with_boxes())


# ---- the truth made worse


pytest.importorskip("torch")


@pytest.fixture(scope="module")
def session() -> Session:
    return Session(load_model("gridprog.pure"), grid.generate("D2_M_F0_d0.3", 16, seed=4), seed=7)


def _maps(session: Session, explainer: object) -> np.ndarray:
    return np.stack([resize_maps(a.visual[None], 384, 384)[0] for a in explainer(session)])  # type: ignore[operator]


@pytest.fixture(scope="module")
def truth(session: Session) -> np.ndarray:
    return _maps(session, Oracle()) > 0


def test_no_noise_is_the_oracle_and_all_noise_is_random(session: Session) -> None:
    shares = [m / m.sum(axis=(1, 2), keepdims=True) for m in (_maps(session, Oracle()), _maps(session, Random()))]
    np.testing.assert_allclose(_maps(session, Degraded("noise", 0.0)), shares[0], atol=1e-12)
    np.testing.assert_allclose(_maps(session, Degraded("noise", 1.0)), shares[1], atol=1e-12)
    for how in ("swap", "shift", "blur"):
        np.testing.assert_allclose(_maps(session, Degraded(how, 0.0)) > 0, shares[0] > 0)


def test_mass_on_the_truth_falls_by_the_share_of_noise(session: Session, truth: np.ndarray) -> None:
    noise = relevance_mass(_maps(session, Random()), truth)
    for level in (0.3, 0.7):
        mass = relevance_mass(_maps(session, Degraded("noise", level)), truth)
        np.testing.assert_allclose(mass, 1 - level + level * noise, atol=1e-9)


@pytest.mark.parametrize("how", ["noise", "swap", "blur"])
def test_each_rung_is_worse_on_average(session: Session, truth: np.ndarray, how: str) -> None:
    levels = [corrected_mass(_maps(session, Degraded(how, level)), truth).mean() for level in (0.0, 0.3, 0.6, 0.9)]
    assert levels[0] == pytest.approx(1.0)
    assert levels == sorted(levels, reverse=True)


def test_swaps_keep_every_value(session: Session) -> None:
    whole, mixed = Degraded("swap", 0.0)(session), Degraded("swap", 0.8)(session)
    for before, after in zip(whole, mixed, strict=True):
        np.testing.assert_array_equal(np.sort(before.visual.ravel()), np.sort(after.visual.ravel()))
        np.testing.assert_array_equal(np.sort(before.words), np.sort(after.words))


def test_wrong_words_keep_the_objects(session: Session) -> None:
    for right, wrong in zip(Oracle()(session), Degraded("words")(session), strict=True):
        np.testing.assert_array_equal(right.visual, wrong.visual)
        np.testing.assert_array_equal(right.words + wrong.words, 1.0)


def test_the_other_twins_truth_is_its_oracle(session: Session) -> None:
    twin = Session(load_model("gridprog.spur"), session.samples, seed=7)
    for theirs, ours in zip(Oracle()(twin), Degraded("other_twin")(session), strict=True):
        np.testing.assert_array_equal(theirs.visual, ours.visual)
    blind = Session(load_model("gridprog.image_only"), session.samples)
    with pytest.raises(BadInput, match="other_twin needs a model that"):
        Degraded("other_twin")(blind)


def test_flat_maps_and_noise_are_as_fine_as_the_maps_they_stand_beside(session: Session) -> None:
    assert {a.visual.shape for a in (*Uniform()(session), *Random(cells=None)(session))} == {session.layout.grid}
    assert {a.visual.shape for a in Random()(session)} == {(12, 12)}
    assert {a.visual.shape for a in (*Uniform()(with_boxes()), *Random(cells=None)(with_boxes()))} == {(12, 12)}


def test_smooth_noise_is_smooth_and_favours_no_place() -> None:
    samples = [Sample(str(i), np.zeros((H, W, 3), np.uint8), "a b c") for i in range(400)]
    session = Session(blackbox(lambda samples, answers: np.ones(len(samples))), samples, ["left"] * 400)
    maps = np.array([a.visual for a in SmoothNoise(cells=12)(session)])
    rough = np.array([a.visual for a in Random()(session)])
    neighbours = [np.corrcoef(m[:, :, :-1].ravel(), m[:, :, 1:].ravel())[0, 1] for m in (maps, rough)]
    assert neighbours[0] > 0.5
    assert abs(neighbours[1]) < 0.05
    edge = np.ones((12, 12), dtype=bool)
    edge[1:-1, 1:-1] = False
    assert maps[:, edge].mean() == pytest.approx(maps[:, ~edge].mean(), rel=0.05)
    first = SmoothNoise()(session.only(7))[0]
    assert np.array_equal(first.visual, SmoothNoise()(session)[7].visual)  # whatever the batch
