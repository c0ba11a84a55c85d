"""Absent states of images and texts."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageFilter

from karat.explainers.perturbation.occlusion import LeaveOneOut, Occlusion
from karat.explainers.perturbation.rise import Rise
from karat.explainers.shapley import KernelShap, PixelShapTokenShap
from karat.kernel.errors import BadInput
from karat.kernel.roles import Explainer
from karat.kernel.sample import Sample
from karat.models.blackbox import blackbox
from karat.probe import Session
from karat.probe.absence import Absence


def sample() -> Sample:
    image = np.random.default_rng(0).integers(0, 256, (12, 12, 3), dtype=np.uint8)
    return Sample("s", image, "How many red circles, if any?")


def test_absent_images() -> None:
    picture = sample()
    blurred = np.asarray(Image.fromarray(picture.image).filter(ImageFilter.GaussianBlur(30)))
    assert np.array_equal(Absence().image_of(picture), blurred)
    assert np.array_equal(Absence(radius=0.0).image_of(picture), picture.image)
    assert (Absence("black").image_of(picture) == 0).all()
    assert (Absence("grey").image_of(picture) == 128).all()
    assert (Absence("white").image_of(picture) == 255).all()
    mean = Absence("mean").image_of(picture)
    assert mean.std(axis=(0, 1)).max() == 0
    assert np.abs(mean.mean((0, 1)) - picture.image.mean((0, 1))).max() <= 0.5
    noise = Absence("noise").image_of(picture)
    assert np.array_equal(noise, Absence("noise").image_of(picture))
    assert not np.array_equal(noise, Absence("noise", seed=1).image_of(picture))
    clean = np.zeros_like(picture.image)
    assert Absence("given", image=clean).image_of(picture) is clean


def test_words_are_deleted_with_their_gap() -> None:
    absence = Absence(text="delete")
    assert absence.text_of(sample(), frozenset()) == "How many red circles, if any?"
    assert absence.text_of(sample(), frozenset({0, 4})) == "many red circles if any?"
    assert absence.text_of(sample(), frozenset(range(8))) == ""
    assert Absence(text="given", words=("x",) * 8).text_of(sample(), frozenset({2, 7})) == "How many x circles, if anyx"


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: Absence(visual="pink"), "one of blur, black"),
        (lambda: Absence(text="given"), "goes with `words`"),
        (
            lambda: Absence(visual="given", image=np.zeros((3, 3, 3), np.uint8)).image_of(sample()),
            "absent image has shape",
        ),
    ],
)
def test_bad_absent_states(build: object, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        build()  # type: ignore[operator]


# ---- cells of other images


def greys(n: int = 12) -> list[Sample]:
    """Images of one grey each; the second half of them white in their first column."""
    images = [np.full((4, 4, 3), 20 * i, dtype=np.uint8) for i in range(n)]
    for image in images[n // 2 :]:
        image[:, 0] = 255
    return [Sample(f"grey-{i:02}", image, "is it red") for i, image in enumerate(images)]


def brightness(images: np.ndarray, texts: list[str | None]) -> np.ndarray:
    level = np.asarray(images, dtype=np.float64).mean(axis=(1, 2, 3)) / 255
    return np.stack([level**2, 1 - level**2], axis=1)  # not linear: the mean image would give something else


def test_resampling_averages_the_values_over_eight_other_images() -> None:
    samples = greys()
    session = Session(blackbox(brightness, answers=["yes", "no"]), samples, ["yes"] * 12)
    game = session.game(3, visual=(2, 2), absence=Absence("resample"))
    draws = game.setting.absence.draws
    assert len({other.id for other in draws}) == 8
    assert samples[3].id not in {other.id for other in draws}
    keep = np.zeros((3, game.n), dtype=np.bool_)
    keep[1, [0, 3]] = keep[2] = True
    keep[:, 4:] = True  # the words
    expected = []
    for row in keep[:, :4].reshape(3, 2, 2):
        pixels = row.repeat(2, axis=0).repeat(2, axis=1)[..., None]
        mixed = [np.where(pixels, samples[3].image, other.image) for other in draws]
        expected.append(brightness(np.stack(mixed), [None] * 8)[:, 0].mean())
    [values] = session.evaluate([(game, keep)])
    np.testing.assert_allclose(values, expected, atol=1e-12)
    assert session.cost.passes.made == 3 * 8
    assert session.cost.passes.saved == 0


def test_draws_are_those_of_the_sample_whatever_the_order_of_the_batch() -> None:
    samples = greys()
    drawn = Absence("resample").drawn(samples[3], samples)
    turned = Absence("resample").drawn(samples[3], samples[::-1])
    assert [one.id for one in drawn.draws] == [one.id for one in turned.draws]
    assert [one.id for one in Absence("resample", seed=1).drawn(samples[3], samples).draws] != [
        one.id for one in drawn.draws
    ]
    assert drawn.drawn(samples[3], samples[:2]) is drawn


def test_too_few_other_images_are_refused() -> None:
    with pytest.raises(BadInput, match="its batch has 7"):
        Absence("resample").drawn(greys()[0], greys()[:8])
    with pytest.raises(BadInput, match="no single absent image"):
        Absence("resample").image_of(greys()[0])


def test_games_that_resample_and_games_that_do_not_share_a_batch() -> None:
    session = Session(blackbox(brightness, answers=["yes", "no"]), greys(), ["yes"] * 12)
    plain = [session.game(i, visual=(2, 2), text=None, absence=Absence("black")) for i in (0, 1)]
    drawn = session.game(1, visual=(2, 2), text=None, absence=Absence("resample"))
    nothing = np.zeros((1, 4), dtype=np.bool_)
    together = session.evaluate([(plain[0], nothing), (drawn, nothing), (plain[1], nothing)])
    alone = Session(session.model, greys(), ["yes"] * 12)
    [value] = alone.evaluate([(alone.game(1, visual=(2, 2), text=None, absence=Absence("resample")), nothing)])
    assert [one.item() for one in together] == pytest.approx([0.0, value.item(), 0.0])
    assert value.item() > 0


@pytest.mark.parametrize(
    "explainer",
    [
        LeaveOneOut(visual=(2, 2), absence="resample"), Occlusion(cells=2, window=1, absence="resample"),
        Rise(masks=30, cells=2, absence="resample"), KernelShap(visual=(2, 2), budget=200, absence="resample"),
        PixelShapTokenShap(visual=(2, 2), budget=64, absence="resample"),
    ],
)  # fmt: skip
def test_explainers_resample(explainer: Explainer[Session]) -> None:
    session = Session(blackbox(brightness, answers=["yes", "no"]), greys(), ["yes"] * 12)
    attributions = explainer(session)
    assert len(attributions) == 12
    assert all(np.isfinite(one.visual).all() for one in attributions)
    assert any(one.visual.any() for one in attributions)
