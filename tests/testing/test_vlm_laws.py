"""The conformance kit for vision-language models: it passes what is right and finds what is wrong."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
import tiny_vlms
from tiny_vlms import ANSWERS, KINDS

from karat.models.families import FAMILIES, FixedGrid, MergedPatches, View
from karat.models.vlm import vlm
from karat.testing import vlm_laws


def broken(kind: str, **changes: Any) -> dict[str, str]:
    """Laws that do not hold for a family with changes, and what was found."""
    model = vlm(*tiny_vlms.make(kind), family=replace(FAMILIES[kind], **changes), max_new_tokens=4)
    asked = [tiny_vlms.samples(kind, 1)[0], tiny_vlms.samples(kind, 2, (70, 130))[1]]
    return {law.name: law.found for law in vlm_laws(model, asked, ANSWERS[:2]) if not law.holds}


@pytest.mark.parametrize("kind", KINDS)
def test_all_hold(kind: str) -> None:
    assert broken(kind) == {}


@dataclass(frozen=True)
class ColumnsFirst(MergedPatches):
    """Takes tokens to run down the columns."""

    def view(self, module: Any, size: tuple[int, int]) -> View:
        seen = super().view(module, size)
        rows, columns = seen.grid
        return replace(seen, order=tuple(r * columns + c for c in range(columns) for r in range(rows)))


def test_a_wrong_grid_is_found_by_its_own_law_alone() -> None:
    found = broken("qwen2_vl", sight=ColumnsFirst())
    assert list(found) == ["a visual token is of its own cell of the image"]
    assert "moved the tokens" in next(iter(found.values()))


@dataclass(frozen=True)
class Stretched(FixedGrid):
    """Stretches the contrast of each image: what is masked in one place changes all others."""

    def pixels(self, processor: Any, images: Any) -> Any:
        pixels, other = super().pixels(processor, images)
        return pixels / pixels.flatten(1).std(1)[:, None, None, None], other


def test_pixels_that_depend_on_other_places_are_found() -> None:
    assert "value 0 is" in broken("llava", sight=Stretched())["masking the image or the processed patches is the same"]


def test_wrong_positions_and_masks_are_found() -> None:
    assert "its probability is that of the module's own forward" in broken("qwen2_5_vl", positions="sequence")
    assert "its probability is that of the module's own forward" in broken("gemma3", bidirectional_image=False)
    assert "its probability is that of the module's own forward" in broken("internvl", image="{tokens}")


def test_what_cannot_be_tried_does_not_hold() -> None:
    found = broken("llava", sight=MergedPatches())
    assert len(found) == 13
    assert any("Error" in text or "Input" in text for text in found.values())
