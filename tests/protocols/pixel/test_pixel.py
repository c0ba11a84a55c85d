import numpy as np
import pytest
from planted_worlds import SIDE, patch_reader, planted_sample

from karat.explainers.control_planted import PlantedShapley, PlantedSingleDeletion
from karat.kernel.attribution import Attribution
from karat.kernel.row import Failure, NotApplicable
from karat.probe.session import Session
from karat.probe.trials import Effort
from karat.protocols.pixel import Deletion, Pixel
from karat.protocols.pixel.protocol import close_up
from karat.protocols.pixel.scores import first_in_patch

SMALL = Pixel(effort=Effort(budget=512), ks=(9, 5, 1), weights=(1, 2, 3))


def needs_five(white):
    """Yes for sure from five white pixels on; the first pixel counts twice."""
    weight = np.array([2, *[1] * 8])
    return np.where(white @ weight >= 5, 0.98, 0.02)


def session_of(value=needs_five, n=1):
    return Session(patch_reader(value), [planted_sample(f"s{k}") for k in range(n)])


def ordered(order):
    """A map that ranks these pixels of the patch first, in this order, all others after."""
    visual = np.zeros((SIDE, SIDE))
    places = np.flatnonzero(planted_sample().mask("shortcut"))
    for rank, pixel in enumerate(order):
        visual.flat[places[pixel]] = 1.0 - rank / 100
    return Attribution(visual=visual)


def test_the_truth_scores_one_on_hit_and_weighted_iou():
    session = session_of(n=2)
    scores = SMALL.score(session, PlantedShapley(SMALL.effort)(session))
    assert scores["hit"].values.tolist() == [1, 1]
    np.testing.assert_allclose(scores["weighted_iou"].values, 1, rtol=1e-12)
    assert list(scores) == [card.name for card in SMALL.scores]


def test_deletion_and_addition_curves_of_a_known_order():
    session = session_of()
    scores = SMALL.score(session, [ordered(range(9))])
    # 10 weights in all. Deleting 0, 1, 2, ... leaves 8, 7, 6, 5, 4: right up to four pixels deleted.
    np.testing.assert_array_equal(scores["deletion"].details["accuracy"][0], [1] * 5 + [0] * 5)
    # Adding gives 2, 3, 4, 5: right from four pixels on.
    np.testing.assert_array_equal(scores["addition"].details["accuracy"][0], [0] * 4 + [1] * 6)
    assert scores["deletion"].values[0] == pytest.approx(4.5 / 9)
    assert scores["addition"].values[0] == pytest.approx(5.5 / 9)


def test_a_map_that_misses_the_patch_deletes_and_adds_nothing():
    session = session_of()
    visual = np.zeros((SIDE, SIDE))
    visual[-3:] = 1 + np.arange(3 * SIDE).reshape(3, SIDE)
    scores = SMALL.score(session, [Attribution(visual=visual)])
    assert scores["deletion"].values[0] == 1.0
    assert scores["addition"].values[0] == 0.0
    assert scores["hit"].values[0] == 0.0
    assert scores["weighted_iou"].values[0] == 0.0


def test_images_that_the_shortcut_does_not_decide_have_no_truth():
    session = session_of(lambda white: np.where(white.all(1), 0.8, 0.1))
    scores = SMALL.score(session, [ordered(range(9))])
    assert isinstance(scores["hit"][0], NotApplicable)
    assert "Eq. 1" in scores["hit"][0].reason
    assert scores["dominant"].values.tolist() == [0.0]
    facts = scores["dominant"].details
    names = ("clean", "perturbed", "clean_right", "perturbed_right")
    np.testing.assert_allclose([facts[name][0] for name in names], [0.1, 0.8, 0, 1])
    lower = Pixel(threshold=0.5, effort=Effort(budget=512), ks=(1,), weights=(1,), related=False)
    again = lower.score(session, [ordered(range(9))])
    assert again["dominant"].values.tolist() == [1.0]
    assert again["hit"].values.tolist() == [1.0]
    assert "ids" not in again


def test_broken_maps_fail_alone_and_missing_ones_are_not_applicable():
    session = session_of(n=3)
    broken = np.full((SIDE, SIDE), np.nan)
    scores = SMALL.score(session, [Attribution(visual=broken), Attribution(scalar=1.0), ordered(range(9))])
    for name in ("hit", "weighted_iou", "deletion", "addition", "ids", "sds"):
        assert isinstance(scores[name][0], Failure)
        assert "NaN" in scores[name][0].reason
        assert isinstance(scores[name][1], NotApplicable)
        # no single cell turns this rule's answer, so there is nothing for SDS to correlate with
        assert np.isfinite(scores[name].values[2]) == (name != "sds")
    assert np.isfinite(scores["dominant"].values).all()


def test_what_the_truth_was_is_kept():
    session = session_of()
    kept = SMALL.score(session, [ordered(range(9))])["weighted_iou"].details
    phi, error = kept["shapley"][0], kept["standard_error"][0]
    facts = [kept[name][0] for name in ("error", "spread", "trials", "passes", "gap", "repeat")]
    assert phi.sum() == pytest.approx(0.96)
    assert phi[0] > phi[1] == pytest.approx(phi[8])
    assert not error.any()
    np.testing.assert_allclose(facts, [0, 0, 1, 512, 0, 1], atol=1e-9)


def test_single_deletion_has_nothing_to_say_where_no_pixel_alone_turns_the_answer():
    session = session_of()
    single = PlantedSingleDeletion()(session)
    assert not single[0].visual.any()
    assert isinstance(SMALL.score(session, single)["weighted_iou"][0], Failure)


def test_first_in_patch_counts_only_the_patch():
    mask = np.zeros((2, 3), dtype=bool)
    mask[0, :2] = True
    found = first_in_patch(np.array([[3.0, 1.0, 5.0], [2.0, 0.0, 4.0]]), mask, np.random.default_rng(0))
    assert found.tolist() == [[False, False], [False, False], [False, False]]
    found = first_in_patch(np.array([[9.0, 8.0, 5.0], [2.0, 0.0, 4.0]]), mask, np.random.default_rng(0))
    assert found.tolist() == [[False, False], [True, False], [True, True]]


def test_close_ups_keep_their_size_at_the_edge():
    mask = np.zeros((12, 12), dtype=bool)
    mask[:3, :3] = True
    corner = close_up(np.arange(144.0).reshape(12, 12), mask)
    assert corner.shape == (9, 9)
    assert corner[0, 0] == 0
    mask = np.zeros((12, 12), dtype=bool)
    mask[9:, 9:] = True
    assert close_up(np.arange(144.0).reshape(12, 12), mask)[-1, -1] == 1.0


def whole_image(images, texts):
    """Linear in the red of the 4×4 cells, so that every deletion is known."""
    weight = np.linspace(0, 0.9, 16).reshape(4, 4)
    cells = images[..., 0].reshape(len(images), 4, 3, 4, 3).mean((2, 4)) / 255
    yes = 0.05 + 0.9 * (cells * weight).sum((1, 2)) / weight.sum()
    return np.stack([yes, 1 - yes], axis=1)


def related_session():
    from karat.models.blackbox import blackbox

    sample = planted_sample()
    white = np.full((SIDE, SIDE, 3), 255, dtype=np.uint8)
    bright = type(sample)(**{**sample.__dict__, "image": white})
    return Session(blackbox(whole_image, answers=["yes", "no"], text=False), [bright])


def test_single_deletion_score_is_one_for_the_weights_and_minus_one_for_their_opposite():
    weight = np.repeat(np.repeat(np.linspace(0, 0.9, 16).reshape(4, 4), 3, 0), 3, 1)
    for visual, expected in ((weight, 1.0), (-weight, -1.0)):
        scores = Deletion().score(related_session(), [Attribution(visual=visual)])
        assert scores["sds"].values[0] == pytest.approx(expected)
    flat = Deletion().score(related_session(), [Attribution(visual=np.ones((4, 4)))])
    assert isinstance(flat["sds"][0], NotApplicable)


def test_incremental_deletion_keeps_what_the_map_ranks_high():
    weight = np.repeat(np.repeat(np.linspace(0, 0.9, 16).reshape(4, 4), 3, 0), 3, 1)
    good, bad = (
        Deletion().score(related_session(), [Attribution(visual=v)])["ids"].values[0] for v in (weight, -weight)
    )
    assert good > bad + 0.1
    # By hand: grey (128) pixels still give half; the least important pixels go first.
    share = np.floor(np.arange(32) / 32 * 144)
    order = np.sort(weight.ravel())
    left = np.array([(order.sum() - order[: int(k)].sum() * (1 - 128 / 255)) / order.sum() for k in share])
    assert good == pytest.approx((0.05 + 0.9 * left).mean(), abs=1e-6)


def test_part_deletion_on_the_grid_ranks_objects_by_what_their_removal_does():
    from karat.kernel.sample import Region, Sample
    from karat.models.blackbox import blackbox

    boxes = ((0, 0, 4, 4), (4, 4, 4, 4), (8, 0, 4, 4))
    image = np.full((12, 12, 3), 255, dtype=np.uint8)
    for x, y, w, h in boxes:
        image[y : y + h, x : x + w] = 0
    sample = Sample(
        "scene", image, answer="yes", regions=tuple(Region(f"o{k}", "x", (b,)) for k, b in enumerate(boxes))
    )

    def fn(images, texts):
        dark = np.stack([(images[:, y : y + h, x : x + w, 0] < 128).mean((1, 2)) for x, y, w, h in boxes], axis=1)
        yes = 0.1 + dark @ np.array([0.1, 0.5, 0.2])
        return np.stack([yes, 1 - yes], axis=1)

    session = Session(blackbox(fn, answers=["yes", "no"], text=False), [sample])
    visual = np.zeros((12, 12))
    visual[1, 1], visual[5, 5], visual[1, 9] = 1, 3, 2
    assert Deletion().score(session, [Attribution(visual=visual)])["sd"].values[0] == pytest.approx(1.0)
    visual[1, 1], visual[5, 5], visual[1, 9] = 3, 1, 2
    assert Deletion().score(session, [Attribution(visual=visual)])["sd"].values[0] == pytest.approx(0.0)
