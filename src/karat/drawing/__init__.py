"""One drawing of maps for the whole package: colours, scales, overlays, words, sheets. Arrays in; PNG, SVG, HTML out.

It stands before the nouns and knows none of them, so that every room may draw with it. No torch here.
"""

from __future__ import annotations

from karat.drawing.canvas import Canvas, encode_png
from karat.drawing.colours import BOTH, OTHER, TRUTH, colours, hexadecimal, readable_on
from karat.drawing.heat import ALPHA, Scale, overlay
from karat.drawing.sheet import Panel, Sheet

__all__ = [
    "ALPHA", "BOTH", "OTHER", "TRUTH", "Canvas", "Panel", "Scale", "Sheet", "colours", "encode_png", "hexadecimal",
    "overlay", "readable_on",
]  # fmt: skip
