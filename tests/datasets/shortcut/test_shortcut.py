import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from karat.datasets.shortcut import Shortcut, difference, planted, preset
from karat.kernel.errors import KaratError


def noise(n, height=32, width=32, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (n, height, width, 3), dtype=np.uint8)


def slow_twin(rule: Shortcut, image, c):
    """Pixel by pixel, weight by weight."""
    half, out = rule.kernel // 2, image.copy()
    left, top, _, _ = rule.box(c)
    weights = rule.kernels[c] / rule.kernels[c].sum()

    def mirrored(k, size):
        k = -k if k < 0 else k
        return 2 * (size - 1) - k if k >= size else k

    for y in range(top, top + rule.patch):
        for x in range(left, left + rule.patch):
            for channel in range(3):
                total = 0.0
                for i in range(rule.kernel):
                    for j in range(rule.kernel):
                        row, column = mirrored(y + i - half, rule.height), mirrored(x + j - half, rule.width)
                        total += weights[i, j] * float(image[row, column, channel])
                out[y, x, channel] = int(np.rint(total))
    return out


def test_each_filter_has_one_weight_of_one_and_the_rest_up_to_alpha():
    rule = Shortcut(10, 32, 32, alpha=0.1)
    flat = rule.kernels.reshape(10, 25)
    assert ((flat == 1.0).sum(axis=1) == 1).all()
    rest = np.sort(flat, axis=1)[:, :-1]
    assert (rest >= 0).all()
    assert (rest <= 0.1).all()
    assert len({row.tobytes() for row in flat}) == 10


@given(st.integers(0, 9), st.integers(0, 50))
@settings(max_examples=8, deadline=None)
def test_apply_is_the_slow_twin_and_changes_nothing_else(c, seed):
    rule = Shortcut(10, 32, 32, seed=seed)
    [image] = noise(1, seed=seed)
    [changed] = rule.apply(image[None], [c])
    np.testing.assert_array_equal(changed, slow_twin(rule, image, c))
    np.testing.assert_array_equal(changed[~rule.mask(c)], image[~rule.mask(c)])


def test_a_filter_larger_than_the_patch_reads_across_the_edge_of_the_image():
    rule = preset("imagenet", 5, 40, 40, shared=1)
    [image] = noise(1, 40, 40)
    for c in range(5):
        np.testing.assert_array_equal(rule.apply(image[None], [c])[0], slow_twin(rule, image, c))


@pytest.mark.parametrize(
    ("name", "classes", "side", "places", "pixels"),
    [("cifar10", 10, 32, 10, 25), ("cifar100", 100, 32, 20, 25), ("imagenet", 1000, 224, 200, 64)],
)
def test_presets_are_the_papers_and_places_do_not_overlap(name, classes, side, places, pixels):
    rule = preset(name, classes, side, side)
    masks = {tuple(rule.corners[c]): rule.mask(c) for c in range(classes)}
    assert len(masks) == places
    total = sum(mask.astype(int) for mask in masks.values())
    assert total.max() == 1
    assert total.sum() == places * pixels
    assert rule.kernel**2 == {"cifar10": 25, "cifar100": 25, "imagenet": 225}[name]


def test_scales_keep_brightness_or_say_what_they_do():
    bright = np.full((1, 32, 32, 3), 200, dtype=np.uint8)
    same, cut, peak = (Shortcut(10, 32, 32, scale=s).apply(bright, [0]) for s in ("sum", "clip", "max"))
    inside = Shortcut(10, 32, 32).mask(0)
    assert (same == 200).all()
    assert (cut[0][inside] == 255).all()
    assert (peak[0][inside] == 255).all()
    dim = np.full((1, 32, 32, 3), 20, dtype=np.uint8)
    weight = Shortcut(10, 32, 32).kernels[0].sum()
    assert (Shortcut(10, 32, 32, scale="max").apply(dim, [0])[0][inside] == round(20 * weight)).all()


def test_seeds_decide_everything():
    again, other = Shortcut(10, 32, 32, seed=3), Shortcut(10, 32, 32, seed=4)
    first = Shortcut(10, 32, 32, seed=3)
    np.testing.assert_array_equal(first.kernels, again.kernels)
    assert not np.array_equal(first.kernels, other.kernels)
    assert not np.array_equal(first.corners, other.corners)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"classes": 1}, "two classes"),
        ({"kernel": 4}, "odd"),
        ({"alpha": 2.0}, "alpha"),
        ({"patch": 20}, "do not fit"),
        ({"patch": 0}, "do not fit"),
    ],
)
def test_impossible_shortcuts_are_refused(changes, message):
    with pytest.raises(KaratError, match=message):
        Shortcut(**{"classes": 10, "height": 32, "width": 32, **changes})


def test_bad_images_and_classes_are_refused():
    rule = Shortcut(10, 32, 32)
    with pytest.raises(KaratError, match="made for"):
        rule.apply(noise(1, 16, 16), [0])
    with pytest.raises(KaratError, match="classes 0 to 9"):
        rule.apply(noise(1), [10])
    with pytest.raises(KaratError, match="preset"):
        preset("cifar", 10, 32, 32)
    with pytest.raises(KaratError, match="blur"):
        preset("cifar10", 10, 32, 32, blur=1)


def test_samples_know_their_twin_their_patch_and_their_class():
    rule = Shortcut(3, 32, 32)
    images = noise(3)
    samples = planted(images, [2, 0, 1], ("a", "b", "c"), rule)
    assert [sample.answer for sample in samples] == ["c", "a", "b"]
    for i, (sample, c) in enumerate(zip(samples, (2, 0, 1), strict=True)):
        np.testing.assert_array_equal(sample.mask("shortcut"), rule.mask(c))
        np.testing.assert_array_equal(sample.twin, images[i])
        np.testing.assert_array_equal(sample.cleaned.image, images[i])
        changed = (sample.image != images[i]).any(-1)
        assert sample.meta["changed"] == changed.sum() > 0
        assert not (changed & ~rule.mask(c)).any()
        np.testing.assert_array_equal(sample.truth("takes_shortcut").visual, rule.mask(c))


def test_difference_is_grey_where_nothing_changed():
    rule = Shortcut(3, 32, 32)
    [image] = noise(1)
    [changed] = rule.apply(image[None], [1])
    shown = difference(image, changed)
    assert (shown[~rule.mask(1)] == 128).all()
    assert (shown[rule.mask(1)] != 128).any()


def test_a_contact_sheet_has_clean_perturbed_and_change_below_each_other(tmp_path):
    from PIL import Image

    from karat.datasets.shortcut.sheet import GAP, contact_sheet

    samples = planted(noise(2), [0, 1], ("a", "b"), Shortcut(2, 32, 32))
    path = contact_sheet(samples, tmp_path / "deep" / "sheet.png", side=32)
    shown = np.asarray(Image.open(path).convert("RGB"))
    assert shown.shape == (3 * (32 + GAP), 2 * (32 + GAP), 3)
    np.testing.assert_array_equal(shown[:32, :32], samples[0].twin)
    second = 32 + GAP
    np.testing.assert_array_equal(shown[second : second + 32, second : second + 32], samples[1].image)
    with pytest.raises(KaratError, match="at least one"):
        contact_sheet([], path)
