"""Tokens foretold from a configuration, against what real processors of tiny models make of the same images."""

from __future__ import annotations

from pathlib import Path

import pytest
import tiny_vlms

from karat.models import recipe
from karat.models.vlm import vlm
from karat.probe.sequence_length import sequence_length
from karat.probe.session import Session


@pytest.mark.parametrize("kind", ["qwen2_vl", "qwen2_5_vl", "llava", "gemma3"])
def test_visual_tokens_are_those_of_the_processor(kind: str, tmp_path: Path) -> None:
    folder = tiny_vlms.saved(kind, tmp_path / kind)
    [sample] = tiny_vlms.samples(kind, 1)
    held = recipe("vlm", path=str(folder)).configuration()  # type: ignore[attr-defined]  # vlm has one
    assert held is not None
    session = Session(vlm(str(folder)), [sample], ["yes"])
    layout = session.torch_model.layout(session.inputs)
    assert layout.visual is not None
    height, width = sample.image.shape[:2]
    tokens, _ = sequence_length(held, height, width, 0, held["max_pixels"])
    without, _ = sequence_length({}, height, width, 0)
    assert tokens - without == pytest.approx(len(layout.visual), rel=0.25)


def test_words_count_and_bounds_bound() -> None:
    qwen = {"vision_config": {"patch_size": 14, "spatial_merge_size": 2}}
    assert sequence_length(qwen, 280, 280, 20)[0] == sequence_length(qwen, 280, 280, 0)[0] + 30
    assert sequence_length(qwen, 2800, 2800, 0, max_pixels=280 * 280) == sequence_length(qwen, 280, 280, 0)
    tiled = {"vision_config": {"image_size": 448, "patch_size": 14}, "downsample_ratio": 0.5}
    few, many = (sequence_length(tiled, 448, 448, 0, max_tiles=n)[1] for n in (1, 6))
    assert (few, many) == (2 * 1024, 7 * 1024)
