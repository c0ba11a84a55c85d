from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from karat.kernel.attribution import Attribution, resize_maps
from karat.kernel.row import Failure, NotApplicable, Score
from karat.metrics.localization import CorrectedMass, OtsuIoU, RelevanceMass, Spuriousity
from karat.metrics.ranking import Hit
from karat.protocols.common.localize import coarsest, pair


@given(st.integers(0, 10_000), st.sampled_from([1, 2, 3]), st.sampled_from([2, 4]))
def test_coarse_masks_score_like_fine_ones(seed: int, repeat: int, cells: int) -> None:
    rng = np.random.default_rng(seed)
    coarse = rng.random((cells, cells)) < 0.5
    fine = coarse.repeat(4 * repeat, 0).repeat(4 * repeat, 1)
    values = rng.random((2 * cells, 2 * cells))
    assert coarsest(fine, *values.shape).shape == values.shape
    pairs = pair([Attribution(values)], "visual", lambda i: fine)
    full = resize_maps(values[None], *fine.shape)
    for metric in (RelevanceMass(), CorrectedMass(), OtsuIoU(), Spuriousity(), Hit()):
        assert pairs.score(metric).values == pytest.approx(metric(full, fine[None]), abs=1e-12, nan_ok=True)


def test_a_mask_that_cuts_a_cell_stays_as_it_is() -> None:
    mask = np.zeros((8, 8), bool)
    mask[:3, :4] = True
    assert coarsest(mask, 4, 4) is mask
    assert coarsest(mask, 3, 3) is mask


def test_what_has_no_answer_is_told_from_what_failed() -> None:
    mask = np.zeros((4, 4), bool)
    mask[0] = True
    given_ = [
        Attribution(np.ones((2, 2))),
        Attribution(words=np.ones(3)),
        Attribution(np.zeros((4, 4))),
        Attribution(np.ones((4, 4))),
        Attribution(np.ones((4, 4))),
    ]
    truths = [mask, mask, mask, None, np.zeros((4, 4), bool)]
    outcomes = pair(given_, "visual", truths.__getitem__).score(RelevanceMass())
    assert [outcomes[i] for i in range(5)] == [
        Score(0.25),
        NotApplicable("the method defines no map"),
        Failure("map is all zero"),
        NotApplicable("the sample has no truth for this"),
        NotApplicable("truth mask is empty"),
    ]
