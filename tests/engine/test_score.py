"""`score` on saved arrays: the same rows however they were saved."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from karat.engine.score import score
from karat.kernel.errors import BadInput, KaratError
from karat.kernel.registry import build, registered
from karat.metrics import relevance_mass
from karat.protocols.common.localize import takes_masks

MASS = "localization/relevance_mass"


def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    masks = np.zeros((3, 8, 8), dtype=np.uint8)
    masks[:, 2:5, 3:6] = 1
    return rng.random((3, 4, 4)), masks


def test_files_of_every_kind_give_the_same_rows(tmp_path: Path) -> None:
    maps, masks = data()
    for what, arrays in (("maps", maps), ("masks", masks)):
        np.save(tmp_path / f"{what}.npy", arrays)
        np.savez(tmp_path / f"{what}.npz", **{f"s{i}": array for i, array in enumerate(arrays)})
        (tmp_path / what).mkdir()
        for i, array in enumerate(arrays):
            np.save(tmp_path / what / f"s{i}.npy", array)
    expected = score(maps, masks)
    assert set(expected.metric) == {name for name in registered("metric") if takes_masks(name)}
    assert (expected[expected.metric == MASS].value == relevance_mass(np.kron(maps, np.ones((1, 2, 2))), masks)).all()
    for ending in (".npy", ".npz", ""):
        found = score(tmp_path / f"maps{ending}", tmp_path / f"masks{ending}")
        pd.testing.assert_frame_equal(found.drop(columns="sample"), expected.drop(columns="sample"))
        assert list(found["sample"][:3]) == ([0, 1, 2] if ending == ".npy" else ["s0", "s1", "s2"])


def test_channels_as_in_batches_of_other_libraries() -> None:
    maps, masks = data()
    parts = np.stack([0.25 * maps, 0.75 * maps], axis=1)  # (n, c, h, w)
    pd.testing.assert_frame_equal(score(parts, masks[:, None]), score(maps, masks))


def test_members_of_an_archive_may_differ_in_size(tmp_path: Path) -> None:
    np.savez(tmp_path / "maps.npz", a=np.ones((2, 2)), b=np.eye(3))
    np.savez(tmp_path / "masks.npz", a=np.eye(4), b=np.eye(3))
    found = score(tmp_path / "maps.npz", tmp_path / "masks.npz", [MASS])
    assert dict(zip(found["sample"], found.value, strict=True)) == {"a": 0.25, "b": 1.0}


def test_what_does_not_fit_is_named(tmp_path: Path) -> None:
    maps, masks = data()
    with pytest.raises(BadInput, match="3 maps and 2 masks"):
        score(maps, masks[:2])
    with pytest.raises(BadInput, match=r"\(n, h, w\)"):
        score(maps[0], masks)
    with pytest.raises(BadInput, match="needs more than masks"):
        score(maps, masks, ["compass/direction_error"])
    np.savez(tmp_path / "maps.npz", a=np.eye(2))
    np.savez(tmp_path / "masks.npz", b=np.eye(2))
    with pytest.raises(BadInput, match="a, b have no partner"):
        score(tmp_path / "maps.npz", tmp_path / "masks.npz")
    (tmp_path / "bad.npz").write_bytes(b"PK\x03\x04 and nothing else")
    with pytest.raises(KaratError, match="no archive of plain arrays"):
        score(tmp_path / "bad.npz", tmp_path / "masks.npz")
    with pytest.raises(BadInput, match=r"no \.npy file in the folder"):
        score(tmp_path, masks)


def test_a_protocol_takes_further_metrics() -> None:
    more = build("protocol", "localization", {"metrics": ("ranking/relevance_rank",)})
    plain = build("protocol", "localization", {})
    assert [card.name for card in more.scores] == [*(card.name for card in plain.scores), "ranking/relevance_rank"]
    assert more.revision != plain.revision
    with pytest.raises(BadInput, match="not called with"):
        _ = build("protocol", "localization", {"metrics": ("compass/direction_error",)}).scores
