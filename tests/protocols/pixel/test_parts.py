"""FunnyBirds' single deletion on the grid: objects are the parts, an empty cell is what deletion leaves."""

from dataclasses import replace

import numpy as np
import pytest

from karat.datasets.grid import generate
from karat.datasets.grid.render import render
from karat.kernel.attribution import Attribution
from karat.kernel.row import NotApplicable
from karat.models import load_model
from karat.probe.session import Session
from karat.protocols.pixel import Deletion
from karat.protocols.pixel.scores import parts


@pytest.fixture(scope="module")
def samples():
    return generate("D2_M_F0_d0.3", 2, seed=3)


def test_every_object_is_a_part_and_white_is_the_scene_without_it(samples):
    for sample in samples:
        labels, count = parts(sample)
        assert count == len(sample.scene.objects) > 3
        empty = sample.scene.cells[sample.scene.roles == sample.scene.roles[sample.scene.cells == 0].min()]
        assert (empty == empty[0]).all()
        for number in range(count):
            whole = sample.image.copy()
            whole[labels == number] = 255
            [where] = {(int(y), int(x)) for y, x in np.argwhere(labels == number) // sample.scene.world.cell}
            cells = sample.scene.cells.copy()
            cells[where] = empty[0]
            np.testing.assert_array_equal(whole, render(cells[None], sample.scene.world)[0])


def test_a_map_of_what_each_object_is_worth_scores_one_and_its_opposite_zero(samples):
    """The worth is asked of the model itself, one altered scene at a time."""
    model = load_model("gridprog.pure")
    session = Session(model, samples)
    good, bad = [], []
    for sample, target in zip(samples, session.targets, strict=True):
        labels, count = parts(sample)
        shown = [sample]
        for number in range(count):
            image = sample.image.copy()
            image[labels == number] = 255
            shown.append(replace(sample, image=image))
        scores = model.score(shown, [target] * len(shown))
        odds = np.log(scores / (1 - scores))
        worth = (odds[0] - odds[1:]).round(3)  # without the noise of the arithmetic
        visual = np.zeros(sample.size)
        for number in range(count):
            visual[labels == number] = worth[number]
        good.append(Attribution(visual=visual))
        bad.append(Attribution(visual=-visual))
    first, second = (Deletion("log_odds").score(session, maps)["sd"].values for maps in (good, bad))
    np.testing.assert_allclose(first, 1, atol=1e-9)
    np.testing.assert_allclose(second, 1 - first, atol=1e-9)


def test_a_flat_map_says_nothing_about_parts(samples):
    session = Session(load_model("gridprog.pure"), samples[:1])
    flat = Deletion().score(session, [Attribution(visual=np.ones(samples[0].size))])
    assert isinstance(flat["sd"][0], NotApplicable)
    assert isinstance(flat["sds"][0], NotApplicable)
    assert 0 <= flat["ids"].values[0] <= 1  # ties are deleted in random order


def test_logits_of_a_model_that_counts_may_rise_where_its_odds_fall(samples):
    """Without an anchor all counts become likelier, the right one least: why log odds can be asked for."""
    session = Session(load_model("gridprog.pure"), samples[:1])
    anchors = Attribution(visual=samples[0].mask("anchor").astype(float))
    logit, odds = (Deletion(value).score(session, [anchors])["sd"].values[0] for value in ("logit", "log_odds"))
    assert logit < 0.5 < odds
