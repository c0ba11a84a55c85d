"""Colour tables, computed in OKLab, where equal distances look equal.

An unsigned table is a path of even steps whose lightness rises throughout, so that it survives grey print and every
kind of colour vision. A signed table goes both ways from a pale zero, blue against orange, equally dark on both sides.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

RGB = tuple[int, int, int]
Table = npt.NDArray[np.uint8]  # (256, 3)
Floats = npt.NDArray[np.float64]

# What was meant, what was picked out, and where they meet: told apart with every kind of colour vision (Okabe, Ito).
TRUTH: RGB = (0, 114, 178)
OTHER: RGB = (213, 94, 0)
BOTH: RGB = (240, 228, 66)

UNSIGNED, SIGNED = "ember", "blue–orange"
_STEPS, _FINE = 256, 1025


def _arch(t: Floats) -> Floats:
    return np.sin(np.pi * np.clip(t, 0, 1))


#: Lightness, chroma and hue (degrees) at t in 0..1.
_PATHS: dict[str, Callable[[Floats], Floats]] = {
    "ember": lambda t: np.stack([0.14 + 0.82 * t, 0.02 + 0.2 * _arch(t * 0.95 + 0.03), -75 + 178 * t], -1),
    "lagoon": lambda t: np.stack([0.26 + 0.68 * t, 0.1 + 0.1 * t, 300 - 195 * t], -1),
    "grey": lambda t: np.stack([0.1 + 0.88 * t, 0 * t, 0 * t], -1),
}
_ARMS = {"blue–orange": (255.0, 50.0), "violet–green": (310.0, 150.0)}  # hues of what speaks against, and for
UNSIGNED_NAMES, SIGNED_NAMES = tuple(_PATHS), tuple(_ARMS)


@cache
def colours(name: str) -> Table:
    """(256, 3) the colours of a table. Of a signed one, level 127 is zero, 0 is -1 and 254 is 1.

    >>> bool(colours("ember")[0].sum() < colours("ember")[255].sum())
    True
    """
    if name in _PATHS:
        return _even(_PATHS[name])
    against, speaks_for = (_even(_arm(hue)) for hue in _ARMS[name])
    levels = np.arange(_STEPS)
    at = np.minimum(_STEPS - 1, np.rint(np.abs(levels - 127) * 2).astype(np.intp))
    return np.where((levels < 127.5)[:, None], against[at], speaks_for[at])


def readable_on(colour: RGB | npt.NDArray[np.uint8]) -> str:
    """Black or white, whichever is easier to read on that colour (contrast of WCAG)."""
    linear = [_linear_byte(int(v)) for v in colour]
    bright = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "#000000" if bright > 0.18 else "#ffffff"


def hexadecimal(colour: RGB | npt.NDArray[np.uint8]) -> str:
    """`#rrggbb`

    >>> hexadecimal((0, 114, 178))
    '#0072b2'
    """
    return "#" + "".join(f"{int(v):02x}" for v in colour)


def oklab(rgb: npt.NDArray[Any]) -> Floats:
    """(..., 3) bytes as lightness, a and b: distances are what the eye sees."""
    scaled = np.asarray(rgb, dtype=np.float64) / 255
    linear = np.where(scaled <= 0.04045, scaled / 12.92, ((scaled + 0.055) / 1.055) ** 2.4)
    cones = np.cbrt(linear @ np.linalg.inv(_TO_LINEAR).T)
    return np.asarray(cones @ np.linalg.inv(_TO_CONES).T)


_TO_CONES = np.array(
    [[1, 0.3963377774, 0.2158037573], [1, -0.1055613458, -0.0638541728], [1, -0.0894841775, -1.291485548]]
)
_TO_LINEAR = np.array(
    [
        [4.0767416621, -3.3077115913, 0.2309699292],
        [-1.2684380046, 2.6097574011, -0.3413193965],
        [-0.0041960863, -0.7034186147, 1.707614701],
    ]
)


def _arm(hue: float) -> Callable[[Floats], Floats]:
    return lambda t: np.stack(
        [0.97 - 0.55 * t, 0.19 * np.sin(np.pi / 2 * np.minimum(1, 1.2 * t)), np.full_like(t, hue)], -1
    )


def _lab(lch: Floats) -> Floats:
    turn = np.deg2rad(lch[..., 2])
    return np.stack([lch[..., 0], lch[..., 1] * np.cos(turn), lch[..., 1] * np.sin(turn)], -1)


def _linear(lch: Floats) -> Floats:
    return np.asarray((_lab(lch) @ _TO_CONES.T) ** 3 @ _TO_LINEAR.T)


def _fitted(lch: Floats) -> Floats:
    """The nearest colours that a screen can show: chroma gives way, lightness and hue stay."""
    low, high = np.zeros(len(lch)), lch[:, 1].copy()
    fits = _on_screen(lch)
    for _ in range(20):
        middle = (low + high) / 2
        inside = _on_screen(np.stack([lch[:, 0], middle, lch[:, 2]], -1))
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return np.stack([lch[:, 0], np.where(fits, lch[:, 1], low), lch[:, 2]], -1)


def _on_screen(lch: Floats) -> npt.NDArray[np.bool_]:
    linear = _linear(lch)
    return np.asarray(((linear >= -1e-4) & (linear <= 1.0001)).all(-1))


def _even(path: Callable[[Floats], Floats]) -> Table:
    """(256, 3) bytes along a path, at even distances in OKLab."""
    fine = _fitted(path(np.linspace(0, 1, _FINE)))
    along = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(_lab(fine), axis=0), axis=1))])
    at = np.searchsorted(along, np.linspace(0, along[-1], _STEPS))
    linear = np.clip(_linear(fine[np.minimum(at, _FINE - 1)]), 0, 1)
    screen = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    return np.rint(255 * screen).astype(np.uint8)


def _linear_byte(value: int) -> float:
    share = value / 255
    return share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4
