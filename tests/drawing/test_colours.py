"""Tables whose steps look equal, with every kind of colour vision."""

from __future__ import annotations

import numpy as np
import pytest

from karat.drawing.colours import (
    BOTH,
    OTHER,
    SIGNED_NAMES,
    TRUTH,
    UNSIGNED_NAMES,
    colours,
    hexadecimal,
    oklab,
    readable_on,
)

# Machado, Oliveira, Fernandes 2009: full protanopia, deuteranopia and tritanopia, on linear RGB.
BLINDNESS = {
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def as_seen(rgb: np.ndarray, kind: str) -> np.ndarray:
    scaled = rgb / 255
    linear = np.where(scaled <= 0.04045, scaled / 12.92, ((scaled + 0.055) / 1.055) ** 2.4)
    seen = np.clip(linear @ np.array(BLINDNESS[kind]).T, 0, 1)
    return 255 * np.where(seen <= 0.0031308, 12.92 * seen, 1.055 * seen ** (1 / 2.4) - 0.055)


@pytest.mark.parametrize("name", UNSIGNED_NAMES)
def test_lightness_rises_and_steps_look_equal(name: str) -> None:
    lab = oklab(colours(name))
    assert (np.diff(lab[:, 0]) > -0.004).all()  # bytes are rounded
    assert lab[-1, 0] - lab[0, 0] > 0.6
    steps = np.linalg.norm(lab[8:] - lab[:-8], axis=1)
    assert steps.max() < 1.6 * steps.min()


@pytest.mark.parametrize("name", SIGNED_NAMES)
def test_both_ways_from_zero_are_equally_dark(name: str) -> None:
    lab = oklab(colours(name)[:255])
    assert lab[127, 0] > 0.96
    assert np.abs(lab[:127][::-1, 0] - lab[128:, 0]).max() < 0.05
    assert np.linalg.norm(lab[0] - lab[254]) > 0.2


@pytest.mark.parametrize("kind", BLINDNESS)
def test_every_kind_of_colour_vision_tells_them_apart(kind: str) -> None:
    ember = oklab(as_seen(colours("ember"), kind))
    assert (np.diff(ember[::8, 0]) > 0).all()
    signed = oklab(as_seen(colours("blue–orange")[:255], kind))
    assert np.linalg.norm(signed[0] - signed[254]) > 0.15
    marks = oklab(as_seen(np.array([TRUTH, OTHER, BOTH], dtype=float), kind))
    assert min(np.linalg.norm(marks[a] - marks[b]) for a, b in ((0, 1), (0, 2), (1, 2))) > 0.15


def test_words_on_colours_can_be_read() -> None:
    assert (readable_on((0, 0, 0)), readable_on((255, 255, 255))) == ("#ffffff", "#000000")
    assert hexadecimal((255, 0, 16)) == "#ff0010"
