"""Nulls that keep the layout: what they keep in place, and how often noise is called knowledge."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from real_data import real_data
from simulate_nulls import p_values, smooth, white

from karat.datasets.spatial import CocoPairs, GridRelations
from karat.kernel.attribution import Attribution
from karat.kernel.sample import Region, Sample
from karat.models import blackbox
from karat.probe.session import Session
from karat.protocols.compass import Compass, nulls
from karat.protocols.compass.analysis import skill
from karat.protocols.compass.reading import scenes

OPTIONS = ("left", "right", "above", "below")


def session_of(samples: list[Sample], peers: list[Sample] | None = None) -> Session:
    model = blackbox(lambda images, texts=None: np.full((len(samples), 4), 0.25), answers=OPTIONS)
    return Session(model, samples, ["left"] * len(samples), peers=peers)


def sample(name: str, reference: tuple[int, int], target: tuple[int, int], **meta: Any) -> Sample:
    regions = [Region(role, role, ((x - 2, y - 2, 4, 4),)) for role, (x, y) in
               (("anchor", reference), ("target", target))]  # fmt: skip
    return Sample(name, np.zeros((48, 48, 3), np.uint8), "?", "left", tuple(regions), choices=OPTIONS, meta=meta)


def test_a_permuted_map_keeps_its_values_and_the_cell_at_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    one = sample("a", (22, 22), (42, 22))  # the centre of cell (5, 5) of a 12 x 12 map
    maps = np.random.default_rng(0).random((12, 12))
    [scene], _ = scenes([one], [Attribution(maps)], 48)
    read: list[Any] = []
    with_maps = type(scene).with_maps
    monkeypatch.setattr(type(scene), "with_maps", lambda self, mixed: read.append(mixed) or with_maps(self, mixed))
    nulls.permuted_error(session_of([one]), scene)
    assert len(read) == nulls.PERMUTATIONS
    for mixed in read:
        assert mixed[0, 5, 5] == maps[5, 5]
        assert not np.array_equal(mixed[0], maps)
        np.testing.assert_allclose(np.sort(mixed.ravel()), np.sort(maps.ravel()))


def test_unrelated_readings_are_those_of_the_same_map_at_other_pictures() -> None:
    samples = [sample("a", (10, 24), (40, 24)), sample("b", (24, 40), (24, 8)), sample("c", (40, 24), (10, 24))]
    maps = [Attribution(one.mask("target").astype(np.float64)) for one in samples]
    [scene], _ = scenes(samples, maps, 48)
    errors = nulls.unrelated_error(session_of(samples), scene)
    slow = []
    for i, others in enumerate(([1, 2], [0, 2], [0, 1])):
        moved = [scenes([samples[j]], [maps[i]], 48)[0][0].errors()[0] for j in others]
        slow.append(np.mean(moved))
    np.testing.assert_allclose(errors, slow)


def test_the_null_is_the_same_in_any_batch_of_a_shard() -> None:
    shard = GridRelations(12).load(0, 12)
    maps = [Attribution(m) for m in np.random.default_rng(0).random((12, 6, 6))]
    whole = Compass().score(session_of(shard), maps)
    for metric in ("null_advantage", "permutation_advantage"):
        parts = [Compass().score(session_of(shard[k : k + 3], shard), maps[k : k + 3])[metric] for k in range(0, 12, 3)]
        np.testing.assert_allclose(np.concatenate([part.values for part in parts]), whole[metric].values)


def test_interventions_on_one_scene_are_not_other_pictures() -> None:
    samples = [
        sample("a", (10, 24), (40, 24), origin="a"),
        sample("a/swap", (40, 24), (10, 24), origin="a", kind="swap"),
    ]
    maps = [Attribution(np.ones((6, 6)))] * 2
    outcomes = Compass().score(session_of(samples), maps)["null_advantage"]
    assert set(outcomes.not_applicable.values()) == {"its shard has no other picture with both objects"}


def test_skill_is_a_ratio_of_sums_and_not_a_mean_of_ratios() -> None:
    error, null = np.array([1.0, 90.0]), np.array([1.0, 180.0])
    assert skill(error, null, np.arange(2), np.random.default_rng(0)).value == pytest.approx(1 - 91 / 181)


def boxes_of_coco(n: int) -> list[Sample]:
    path = real_data("coco_val2017_boxes") / "coco_val2017_boxes_4313.json.gz"
    return CocoPairs(str(path), n=n).load(0, n)


@pytest.mark.parametrize("noise", [white, smooth])
@pytest.mark.parametrize("world", ["grid", "coco"])
def test_noise_is_called_knowledge_one_time_in_twenty(world: str, noise: Callable[..., Any]) -> None:
    samples = GridRelations(40).load(0, 40) if world == "grid" else boxes_of_coco(40)
    times = 30
    p = p_values(samples, noise, times)
    room = 3 * (0.05 * 0.95 / times) ** 0.5
    assert (p[:, 0] < 0.05).mean() <= 0.05 + room
    assert 0.35 < p[:, 0].mean() < 0.7
    if noise is white:  # the permuted null has no smoothness: it is fair to rough maps only
        assert (p[:, 1] < 0.05).mean() <= 0.05 + room


def test_knowledge_of_the_picture_is_seen() -> None:
    samples = GridRelations(40).load(0, 40)

    def knowing(rng: np.random.Generator, n: int) -> Any:
        boxes = np.stack([one.mask("target").reshape(12, 32, 12, 32).mean((1, 3)) for one in samples])
        return smooth(rng, n) + 4 * boxes

    assert (p_values(samples, knowing, 5)[:, 0] < 0.01).all()
