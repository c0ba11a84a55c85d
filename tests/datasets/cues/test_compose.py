"""Laws of the composed picture: what overlaps, what stays, what survives another size."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage

from karat.datasets.cues import CUES, EMPTY, World, generate, hide, visible
from karat.datasets.cues.layout import MARGIN
from karat.datasets.cues.photographs import EMBEDDED, open_photographs
from karat.datasets.cues.shapes import OUTLINES
from karat.kernel.errors import KaratError

SAMPLES = generate(48, seed=3)


def differs(one, other):
    return (one.image != other.image).any(-1)


def test_the_same_bytes_however_it_is_asked():
    again, alone = generate(6, seed=3), generate(1, seed=3, start=5)[0]
    for one, other in zip(SAMPLES, again, strict=False):
        assert one.image.tobytes() == other.image.tobytes()
        assert (one.id, one.text, one.meta) == (other.id, other.text, other.meta)
    assert alone.image.tobytes() == SAMPLES[5].image.tobytes()
    assert generate(1, seed=4)[0].image.tobytes() != SAMPLES[0].image.tobytes()


def test_regions_are_those_of_the_cues_and_share_no_pixel():
    for sample in SAMPLES:
        roles = {region.role for region in sample.regions}
        assert roles == {"content", "frame", "sticker"} | ({"tag"} if sample.votes["tag"] is not None else set())
        total = sum(region.mask(*sample.size).astype(int) for region in sample.regions)
        assert total.max() == 1
        assert all(region.mask(*sample.size).any() for region in sample.regions)


@pytest.mark.parametrize("cue", ["tag", "frame", "sticker"])
def test_another_value_changes_the_pixels_of_its_region_and_no_other(cue):
    changed = 0
    for sample in SAMPLES[:12]:
        if sample.votes[cue] is None:
            continue
        turned = sample.turned(cue)
        moved = differs(sample, turned)
        assert moved.any()
        assert not (moved & ~sample.mask(cue)).any()
        np.testing.assert_array_equal(sample.mask(cue), turned.mask(cue))
        assert (turned.text, turned.votes[cue]) == (sample.text, not sample.votes[cue])
        absent = sample.with_cues(**{cue: None})
        assert not (differs(sample, absent) & ~sample.mask(cue)).any()
        assert not absent.mask(cue).any()
        changed += 1
    assert changed >= 8


def test_another_word_changes_the_text_alone_and_only_there():
    for sample in SAMPLES[:12]:
        turned = sample.turned("word")
        assert not differs(sample, turned).any()
        [span] = [phrase.span for phrase in sample.phrases if phrase.role == "word"]
        assert sample.text[slice(*span)].lower() == sample.meta["word"]
        assert sample.text[: span[0]] == turned.text[: span[0]]
        assert sum(sample.word_mask("word")) == 1
        bare = sample.with_cues(word=None)
        assert not any(phrase.role == "word" for phrase in bare.phrases)
        assert len(bare.words) < len(sample.words)
        assert bare.text[0].isupper()


def test_the_other_side_is_the_mirrored_photograph_below_everything_else():
    for sample in SAMPLES[:12]:
        turned = sample.turned("side")
        free = np.ones(sample.size, dtype=bool)
        for cue in ("tag", "frame", "sticker"):
            free &= ~sample.mask(cue)
        both = free & free[:, ::-1]
        np.testing.assert_array_equal(sample.image[both], turned.image[:, ::-1][both])
        for cue in ("tag", "frame", "sticker"):
            np.testing.assert_array_equal(sample.mask(cue), turned.mask(cue))
        assert sample.meta["photograph"] == turned.meta["photograph"]


def test_the_object_lies_clearly_in_the_half_that_side_says():
    """Read off the whole object, tag and sticker left out."""
    for sample in SAMPLES:
        bare = sample.with_cues(tag=None, sticker=None, frame=None)
        column = (np.nonzero(bare.mask("content"))[1].mean() + 0.5) / sample.size[1]
        # The window may cut a part of the object off, so its centre moves a little.
        assert (column < 0.5) == sample.votes["side"]
        assert abs(column - 0.5) > MARGIN / 4


def test_other_content_is_the_other_photograph_of_the_same_sample():
    for sample in SAMPLES[:8]:
        turned = sample.turned("content")
        assert turned.meta["photograph"] != sample.meta["photograph"]
        assert turned.meta["content"] != sample.meta["content"]
        assert turned.turned("content").image.tobytes() == sample.image.tobytes()
        for cue in ("tag", "frame", "sticker"):
            np.testing.assert_array_equal(sample.mask(cue), turned.mask(cue))
            inner = ndimage.binary_erosion(sample.mask(cue), iterations=2, border_value=1)  # its edge is soft
            np.testing.assert_array_equal(sample.image[inner], turned.image[inner])


@given(st.sampled_from(range(12)), st.sets(st.sampled_from(CUES)))
@settings(max_examples=20, deadline=None)
def test_turning_cues_twice_gives_the_sample_back(i, cues):
    sample = SAMPLES[i]
    again = sample.turned(*cues).turned(*cues)
    assert again.image.tobytes() == sample.image.tobytes()
    assert (again.text, again.votes) == (sample.text, sample.votes)


@pytest.mark.parametrize("state", EMPTY)
def test_hiding_changes_the_hidden_pixels_and_nothing_else(state):
    for sample in SAMPLES[:6]:
        for cue in ("content", "frame", "sticker"):
            gone = sample.without(cue, state=state)
            mask = sample.mask(cue)
            assert not (differs(sample, gone) & ~mask).any()
            np.testing.assert_array_equal(gone.image, hide(sample.image, mask, state))
            assert gone.votes[cue] is None
            assert gone.text == sample.text
        assert sample.without("side").votes["content"] is None  # one object carries both
        both = sample.without("frame", "word", state=state)
        assert both.votes["word"] is None
        assert both.text == sample.with_cues(word=None).text


def test_hidden_states_are_what_they_say():
    image = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    mask = np.eye(4, dtype=bool)
    for state, level in (("white", 255), ("grey", 128), ("black", 0)):
        assert (hide(image, mask, state)[mask] == level).all()
    np.testing.assert_array_equal(hide(image, mask, "mean")[0, 0], np.rint(image.mean((0, 1))))
    with pytest.raises(KaratError, match="absence state"):
        hide(image, mask, "noise")


def test_visible_shares_count_pixels_of_the_carrier():
    sample = SAMPLES[0]
    keep = np.zeros(sample.size, dtype=bool)
    keep[: sample.size[0] // 2] = True
    shares = visible(sample, keep)
    for cue, role in (("frame", "frame"), ("content", "content"), ("side", "content")):
        mask = sample.mask(role)
        assert shares[cue] == pytest.approx((mask & keep).sum() / mask.sum())
    assert shares["word"] == 1.0
    assert visible(sample, keep, [False] * len(sample.words))["word"] == 0.0


def test_truth_is_the_union_of_what_the_rule_uses():
    for sample in SAMPLES:
        tagged = sample.votes["tag"] is not None
        np.testing.assert_array_equal(sample.truth("frame").visual, sample.mask("frame"))
        np.testing.assert_array_equal(sample.truth("side").visual, sample.mask("content"))
        assert sample.truth("word").words == sample.word_mask("word")
        assert not sample.truth("word").visual.any()
        assert not any(sample.truth("frame").words)
        gate = sample.truth("content_unless_tag").visual
        np.testing.assert_array_equal(gate, sample.mask("tag" if tagged else "content"))
        assert (sample.truth("tag") is None) == (not tagged)
        assert (sample.expected("tag") is None) == (not tagged)
        assert sample.expected("content") == sample.answer == ("yes" if sample.meta["content"] == "cat" else "no")
        assert sample.expected("word") == ("yes" if sample.meta["word"] == "please" else "no")


@pytest.mark.parametrize("pixels", [96, 336])
def test_pictures_look_alike_at_every_size(pixels):
    """Resolution-free: regions cover the same share, and the picture is the small one enlarged."""
    from PIL import Image

    for sample, other in zip(SAMPLES[:4], generate(4, seed=3, world=World(pixels=pixels)), strict=True):
        assert other.size == (pixels, pixels)
        assert (other.text, other.votes) == (sample.text, sample.votes)
        for region in sample.regions:
            share = other.mask(region.role).mean()
            assert share == pytest.approx(sample.mask(region.role).mean(), abs=0.02)
        small = np.asarray(Image.fromarray(other.image).resize((48, 48), Image.Resampling.BOX), dtype=float)
        same = np.asarray(Image.fromarray(sample.image).resize((48, 48), Image.Resampling.BOX), dtype=float)
        assert np.abs(small - same).mean() < 6


def test_all_stickers_and_words_can_be_drawn_and_differ():
    shapes = {}
    for name in OUTLINES:
        other = next(shape for shape in OUTLINES if shape != name)
        [sample] = generate(1, seed=3, world=World(stickers=(name, other)))
        shapes[name] = sample.with_cues(sticker=name).image.tobytes()
    assert len(set(shapes.values())) == len(OUTLINES)
    [one] = generate(1, world=World(tags=("QUIZ", "JOB"), tag_height=0.13, untagged=False))
    assert differs(one, one.turned("tag")).any()


def test_contrast_fades_what_is_drawn():
    strong, weak = (generate(3, seed=3, world=World(contrast=c)) for c in (1.0, 0.2))
    for one, other in zip(strong, weak, strict=True):
        for cue in ("tag", "frame", "sticker"):
            if one.votes[cue] is None:
                continue
            mask = one.mask(cue)
            moved = [np.abs(s.image[mask].astype(int) - s.turned(cue).image[mask]).mean() for s in (one, other)]
            assert 0 < moved[1] < 0.4 * moved[0]


def test_covered_shares_of_the_object_stay_small():
    assert max(sample.meta["covered"] for sample in SAMPLES) < 0.5
    assert np.mean([sample.meta["covered"] for sample in SAMPLES]) < 0.25


def test_photographs_come_all_once_before_any_comes_twice():
    world = World()
    photographs = open_photographs(EMBEDDED, world.classes)
    assert (photographs.count(True), photographs.count(False)) == (24, 24)
    for samples in (generate(24, seed=s) for s in range(2)):
        assert len({sample.scene.yes.id for sample in samples}) == 24
        assert len({sample.scene.no.id for sample in samples}) == 24


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"classes": ("cat", "cat")}, "two values that differ"),
        ({"classes": ("cat", "Cat ")}, "two values that differ"),
        ({"tags": ("OAK", "")}, "two values that differ"),
        ({"tags": ("OAK", "E-M")}, "letters A to Z"),
        ({"frames": ("orange", "mauve")}, "mauve"),
        ({"stickers": ("star", "comet")}, "comet"),
        ({"words": ("please", "if you")}, "single words"),
        ({"pixels": 10}, "64 pixels"),
        ({"contrast": 0.0}, "contrast"),
        ({"tags": ("ABCDEFGH", "OAK"), "tag_height": 0.3}, "no room"),
    ],
)
def test_impossible_worlds_are_refused(changes, message):
    with pytest.raises(KaratError, match=message):
        World(**changes)


def test_changes_that_cannot_be_are_refused():
    sample = SAMPLES[0]
    with pytest.raises(KaratError, match="orange or teal"):
        sample.with_cues(frame="red")
    with pytest.raises(KaratError, match="cannot be left out"):
        sample.with_cues(content=None)
    with pytest.raises(KaratError, match="frame"):
        sample.with_cues(frme=True)
    with pytest.raises(KaratError, match="as it was generated"):
        sample.without("frame").turned("tag")
    with pytest.raises(KaratError, match="0 or more"):
        generate(-1)
