"""The instrument on maps whose direction is known: tables 5 and 6 of the paper, and its floors on real boxes."""

from __future__ import annotations

import numpy as np
import pytest
from real_data import real_data

from assay.datasets.spatial import CocoPairs
from assay.metrics import compass, direction_error, excess
from assay.protocols import published
from assay.protocols.compass.synthetic import crossover, draw_scenes, injection_table, relational_table


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


def test_the_controls_on_real_boxes() -> None:
    """Box-only near the published 15.0 / .973. Noise is not at the published 94: see the docs."""
    data = CocoPairs(str(real_data("coco_val2017_boxes") / "coco_val2017_boxes_4313.json.gz"))
    cells = 24
    rng = np.random.default_rng(0)
    found: dict[str, list[np.ndarray]] = {"box": [], "noise": []}
    for pair in data.pairs:
        width, height = pair.size
        x, y = (np.arange(cells) + 0.5) * width / cells, (np.arange(cells) + 0.5) * height / cells
        left, top, wide, tall = pair.target.box
        box = ((y >= top) & (y <= top + tall))[:, None] & ((x >= left) & (x <= left + wide))
        a, b = (np.array([p.centre]) * cells / np.array([[width, height]]) for p in (pair.reference, pair.target))
        for name, maps in (("box", box[None].astype(float)), ("noise", rng.random((1, cells, cells)))):
            shares = compass(maps, a, b, aspect=height / width)
            found[name].append(direction_error(shares, a, b, aspect=height / width))
    box, noise = (np.concatenate(found[name]) for name in ("box", "noise"))
    assert np.nanmean(box) == pytest.approx(15.0, abs=3.0)
    assert np.nanmean(box <= 45) == pytest.approx(0.973, abs=0.03)
    assert 40 < np.nanmean(noise) < 60
