"""SSS of maps that know nothing, against a count of every place; what the model does not see counts for nothing."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from karat.datasets.segmentation.scene import CLASS
from karat.kernel.attribution import Attribution
from karat.kernel.sample import Region, Sample
from karat.metrics import spuriousity
from karat.models.classifier import classifier
from karat.models.preprocessing import Preprocessing
from karat.probe.session import Session
from karat.protocols.semantic import Semantic
from karat.protocols.semantic.chance import blob_cover, chances


@given(st.integers(3, 12), st.integers(3, 12), st.integers(0, 2**32 - 1))
def test_a_blob_at_every_place(height, width, seed):
    """Slow twin: lay the rectangle at every place and take the mean SSS."""
    rng = np.random.default_rng(seed)
    mask = rng.random((height, width)) < rng.uniform(0.05, 0.9)
    mask.flat[rng.integers(mask.size)] = True
    share = np.sqrt(mask.sum() / mask.size)
    tall, wide = (int(np.clip(round(share * side), 1, side)) for side in mask.shape)
    scores = []
    for top in range(height - tall + 1):
        for left in range(width - wide + 1):
            blob = np.zeros(mask.shape)
            blob[top : top + tall, left : left + wide] = 1
            scores.append(spuriousity(blob[None], mask[None])[0])
    uniform, blob = chances(mask)
    assert blob == pytest.approx(np.mean(scores))
    assert uniform == pytest.approx(spuriousity(np.ones((1, height, width)), mask[None])[0])
    assert blob_cover(mask.shape, int(mask.sum())).sum() == pytest.approx(tall * wide)


def test_an_object_in_the_middle_is_met_by_chance_more_often_than_one_in_a_corner():
    middle, corner = np.zeros((20, 20), bool), np.zeros((20, 20), bool)
    middle[6:14, 6:14], corner[:8, :8] = True, True
    assert chances(middle)[0] == chances(corner)[0] == pytest.approx(0.84)
    assert chances(middle)[1] < 0.75 < 0.85 < chances(corner)[1]


def test_pixels_that_the_model_was_not_shown_count_for_nothing():
    torch = pytest.importorskip("torch")
    mask = np.zeros((10, 20), bool)
    mask[:, 5:10] = True  # half of the central square; columns 0 to 4 and 15 to 19 are cut off
    sample = Sample(
        "s", np.zeros((10, 20, 3), np.uint8), answer="cat", regions=(Region("cat", CLASS, pixels=mask, label="cat"),)
    )
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 64, 2))
    everywhere = Attribution(np.ones((10, 20)))
    for squash, chance in ((False, 0.5), (True, 0.75)):
        model = classifier(module, Preprocessing((8, 8), squash=squash), labels=["cat", "dog"])
        scores = Semantic(threshold=0.0).score(Session(model, [sample]), [everywhere])
        assert scores["outside"].values[0] == pytest.approx(chance)
        assert scores["sss"].values[0] == pytest.approx(chance)
        assert scores["gain"].values[0] == pytest.approx(0)
        assert scores["size_matched"].values[0] == pytest.approx(1 - chance / scores["blob"].values[0])
