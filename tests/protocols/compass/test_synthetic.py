"""The instrument on maps whose direction is known: tables 5 and 6 of the paper, and its floors on real boxes."""

from __future__ import annotations

import numpy as np
import pytest
from real_data import real_data

from karat.datasets.spatial import CocoPairs
from karat.metrics import compass, direction_error, excess
from karat.protocols.common import published
from karat.protocols.compass.synthetic import NOISE, crossover, draw_scenes, injection_table, relational_table


@pytest.mark.parametrize("seed", [0, 1])
def test_table_6(seed: int) -> None:
    ours = relational_table(seed=seed).set_index("map")
    for name, dae, _ in published.load("compass").tables["Table 6"].rows:
        assert ours.loc[name, "dae"] == pytest.approx(dae, abs=1.5)
        assert ours.loc[name, "ea"] >= 0.99


def test_table_5() -> None:
    ours = injection_table()
    assert ours["dae to position"].iloc[0] == pytest.approx(10.3, abs=1.5)
    assert ours["dae to direction"].iloc[0] == pytest.approx(90.1, abs=3)
    assert ours["dae to position"].iloc[-1] == pytest.approx(91.6, abs=3)
    assert ours["dae to direction"].iloc[-1] == pytest.approx(11.1, abs=1.5)
    assert (np.diff(ours["dae to position"]) >= -1e-9).all()
    assert (np.diff(ours["dae to direction"]) <= 1e-9).all()
    assert 0.0 < crossover(ours) < 0.5


def test_noise_and_flat_maps_follow_the_layout_and_their_excess_does_not() -> None:
    """Random scenes: the target is where most of the picture is, seen from the reference."""
    rng = np.random.default_rng(0)
    n = 2000
    a, b = rng.uniform(2, 22, (2, n, 2))
    noise, flat = rng.random((n, 24, 24)), np.ones((n, 24, 24))
    for maps in (noise, flat):
        assert 40 < np.nanmean(direction_error(compass(maps, a, b), a, b)) < 55
    assert np.nanmean(direction_error(excess(flat, a, b), a, b)) == 90.0
    errors = direction_error(excess(noise, a, b), a, b)
    assert errors.mean() == pytest.approx(90.0, abs=4)
    assert (errors <= 45).mean() == pytest.approx(0.25, abs=0.03)


def test_excess_does_not_lose_what_is_there() -> None:
    scenes = draw_scenes(300, np.random.default_rng(1))
    a, b = scenes.reference, scenes.target
    for maps in (scenes.gaussian(b), scenes.inside_box(), scenes.gaussian(b) + 0.05):
        errors = direction_error(excess(maps, a, b), a, b)
        assert np.nanmean(errors) == pytest.approx(11.25, abs=1.5)


def test_noise_is_at_chance_where_the_layout_favours_no_side() -> None:
    """The reference in the middle: 90 degrees and .25, as the paper has it for random maps."""
    for seed in (0, 1):
        noise = relational_table(seed=seed).set_index("map").loc[NOISE]
        assert noise["dae"] == pytest.approx(90.0, abs=6.0)
        assert noise["ea"] == pytest.approx(0.25, abs=0.08)


def test_the_controls_on_real_boxes() -> None:
    """Box-only near the published 15.0 / .973. Noise is at the published 94 / .257 only where it is kept from following
    the layout: by a weighting so narrow that the cells beside the reference decide, or by counting the excess."""
    cells = 24
    pairs = CocoPairs(str(real_data("coco_val2017_boxes") / "coco_val2017_boxes_4313.json.gz")).pairs
    size = np.array([pair.size for pair in pairs], dtype=np.float64)  # width, height
    a, b = (np.array([getattr(pair, who).centre for pair in pairs]) * cells / size for who in ("reference", "target"))
    aspect = size[:, 1] / size[:, 0]
    x, y = ((np.arange(cells) + 0.5) / cells * size[:, k, None] for k in (0, 1))
    left, top, wide, tall = np.array([pair.target.box for pair in pairs]).T[:, :, None]
    box = ((y >= top) & (y <= top + tall))[:, :, None] & ((x >= left) & (x <= left + wide))[:, None]
    noise = np.random.default_rng(0).random((len(pairs), cells, cells))

    def read(shares: np.ndarray) -> tuple[float, float]:
        errors = direction_error(shares, a, b, aspect=aspect)
        return float(np.nanmean(errors)), float(np.nanmean(errors <= 45))

    dae, ea = read(compass(box.astype(np.float64), a, b, aspect=aspect))
    assert dae == pytest.approx(15.0, abs=3.0)
    assert ea == pytest.approx(0.973, abs=0.03)
    assert 40 < read(compass(noise, a, b, aspect=aspect))[0] < 60
    for shares in (compass(noise, a, b, sigma=0.05, aspect=aspect), excess(noise, a, b, aspect=aspect)):
        dae, ea = read(shares)
        assert dae == pytest.approx(90.0, abs=8.0)
        assert ea == pytest.approx(0.25, abs=0.06)
