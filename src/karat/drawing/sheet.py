"""`Sheet`: panels (picture, map, words) in rows, with titles and the legend of each scale; PNG, SVG and HTML."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt

from karat.drawing.canvas import INK, Canvas, Pixels, cut_to, encode_png, text_width
from karat.drawing.colours import RGB, colours, hexadecimal, readable_on
from karat.drawing.heat import ALPHA, Scale, overlay

Floats = npt.NDArray[np.floating[Any]]
_SOFT: RGB = (92, 98, 110)
_GAP, _TITLE, _SIZE, _LINE, _LEGEND = 14.0, 20.0, 13.0, 22.0, 30.0


@dataclass(frozen=True, eq=False)
class Panel:
    """One picture with what is laid over it.

    Attributes:
        image: (H, W, 3) bytes, or None where there is only a map or only words.
        map: (h, w), or None for the picture alone.
        words: Words with their scores, or with None where a word has none; drawn under the picture.
        scale: Of the map; by default its own.
        word_scale: Of the words; by default their own.
        title, note: Above the picture, and small under it.
    """

    image: Pixels | None = None
    map: Floats | None = None
    words: Sequence[tuple[str, float | None]] = ()
    scale: Scale | None = None
    word_scale: Scale | None = None
    title: str = ""
    note: str = ""
    alpha: float = ALPHA

    @property
    def heat(self) -> Scale | None:
        if self.map is None:
            return None
        return self.scale or Scale.of([self.map], bool((self.map < 0).any()))

    @property
    def word_heat(self) -> Scale | None:
        scores = np.array([score for _, score in self.words if score is not None], dtype=np.float64)
        if not len(scores):
            return None
        return self.word_scale or Scale.of([scores], bool((scores < 0).any()))

    @property
    def pixels(self) -> Pixels | None:
        """The picture with its map (H, W, 3)."""
        scale = self.heat
        if scale is None or self.map is None:
            return self.image
        if self.image is None:
            return scale.colours(self.map)
        return overlay(self.image, self.map, scale, self.alpha)


@dataclass(frozen=True)
class Sheet:
    """Rows of panels, each panel `side` wide at most. `about` stands small under the heading."""

    rows: tuple[tuple[Panel, ...], ...]
    heading: str = ""
    about: str = ""
    side: float = 260.0

    def canvas(self) -> Canvas:
        """Everything at its place."""
        wide = max((len(row) for row in self.rows), default=1)
        width = _GAP + wide * (self.side + _GAP)
        canvas = Canvas(width, 0, title=self.heading)
        top = _GAP
        if self.heading:
            canvas.text((_GAP, top + 14), cut_to(self.heading, 15, width - 2 * _GAP, bold=True), size=15, bold=True)
            top += 30
        if self.about:
            canvas.text((_GAP, top + 5), cut_to(self.about, 11, width - 2 * _GAP), size=11, colour=_SOFT)
            top += 20
        for row in self.rows:
            depth = 0.0
            for k, panel in enumerate(row):
                depth = max(depth, _draw(canvas, panel, (_GAP + k * (self.side + _GAP), top), self.side))
            top += depth + _GAP
        canvas.height = top
        return canvas

    def png(self, scale: float = 2.0) -> bytes:
        return self.canvas().png(scale)

    def svg(self) -> str:
        return self.canvas().svg()

    def html(self) -> str:
        """A piece of HTML that needs no script and no style sheet: pictures as they are, words as text."""
        head = f'<div style="font-weight:600;margin:4px 0">{escape(self.heading)}</div>' if self.heading else ""
        head += f'<div style="opacity:.75;font-size:12px">{escape(self.about)}</div>' if self.about else ""
        rows = "".join(
            '<div style="display:flex;flex-wrap:wrap;gap:14px;margin:6px 0">'
            + "".join(_figure(panel, self.side) for panel in row)
            + "</div>"
            for row in self.rows
        )
        return f'<div style="font-family:system-ui,sans-serif;font-size:13px;line-height:1.4">{head}{rows}</div>'


def legend(scale: Scale) -> tuple[str, str]:
    """What the two ends of a scale are."""
    beyond = " or more" if scale.clipped else ""
    if scale.signed:
        return f"against −{figure(scale.high)}", f"for {figure(scale.high)}{beyond}"
    return figure(scale.low), f"{figure(scale.high)}{beyond}"


def figure(value: float) -> str:
    """A number with three digits.

    >>> figure(0.01234), figure(0.0), figure(12345.0)
    ('0.0123', '0', '1.23e+04')
    """
    return f"{value:.3g}"


def word_colours(words: Sequence[tuple[str, float | None]], scale: Scale | None) -> list[tuple[str, RGB | None]]:
    """Each word with the colour that it stands on; None where it has no score."""
    if scale is None:
        return [(word, None) for word, _ in words]
    table = colours(scale.table)
    levels = scale.levels(np.array([0.0 if score is None else score for _, score in words]))
    return [
        (word, None if score is None else (int(table[k][0]), int(table[k][1]), int(table[k][2])))
        for (word, score), k in zip(words, levels.tolist(), strict=True)
    ]


def _draw(canvas: Canvas, panel: Panel, at: tuple[float, float], side: float) -> float:
    """Draws a panel with its left upper corner there; how deep it is."""
    left, top = at
    y = top
    if panel.title:
        canvas.text((left, y + _SIZE), cut_to(panel.title, _SIZE, side, bold=True), size=_SIZE, bold=True)
        y += _TITLE
    pixels = panel.pixels
    if pixels is not None:
        height = side * pixels.shape[0] / pixels.shape[1]
        shrink = min(1.0, 1.6 * side / height)  # tall pictures stay on the sheet
        size = (side * shrink, height * shrink)
        canvas.picture((left, y), size, pixels, smooth=max(pixels.shape[:2]) > side)
        y += size[1] + 6
    for scale, what in _bars(panel):
        y += _draw_legend(canvas, scale, what, (left, y), side)
    if panel.words:
        y = _draw_words(canvas, panel, (left, y), side)
    if panel.note:
        for line in _lines(panel.note, 11, side):
            canvas.text((left, y + 11), line, size=11, colour=_SOFT)
            y += 15
    return y - top


def _bars(panel: Panel) -> list[tuple[Scale, str]]:
    """Each scale once, and what it is of where there are two."""
    named = [(scale, what) for scale, what in ((panel.heat, "map"), (panel.word_heat, "words")) if scale is not None]
    scales = dict.fromkeys(scale for scale, _ in named)
    return named if len(scales) > 1 else [(scale, "") for scale in scales]


def _draw_legend(canvas: Canvas, scale: Scale, what: str, at: tuple[float, float], side: float) -> float:
    left, top = at
    table = colours(scale.table)[: 255 if scale.signed else 256]
    canvas.picture((left, top), (side, 7), table[None], smooth=False)
    low, high = legend(scale)
    canvas.text((left, top + 19), low, size=11, colour=_SOFT)
    canvas.text((left + side, top + 19), high, size=11, colour=_SOFT, anchor="end")
    middle = what or ("0" if scale.signed else "")
    if middle:
        canvas.text((left + side / 2, top + 19), middle, size=11, colour=_SOFT, anchor="middle")
    return _LEGEND


def _draw_words(canvas: Canvas, panel: Panel, at: tuple[float, float], side: float) -> float:
    left, y = at
    x = left
    for word, colour in word_colours(panel.words, panel.word_heat):
        text = cut_to(word, _SIZE, side - 8)
        wide = text_width(text, _SIZE) + 8
        if x + wide > left + side and x > left:
            x, y = left, y + _LINE
        ink = INK
        if colour is not None:
            canvas.box((x, y), (wide, _LINE - 4), fill=colour)
            ink = (0, 0, 0) if readable_on(colour) == "#000000" else (255, 255, 255)
        canvas.text((x + 4, y + 13.5), text, size=_SIZE, colour=ink)
        x += wide + 2
    return y + _LINE + 2


def _lines(text: str, size: float, width: float) -> list[str]:
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if text_width(longer, size) > width and lines[-1]:
            lines.append(word)
        else:
            lines[-1] = longer
    return [cut_to(line, size, width) for line in lines]


def _figure(panel: Panel, side: float) -> str:
    parts = []
    if panel.title:
        parts.append(f'<div style="font-weight:600;overflow-wrap:anywhere">{escape(panel.title)}</div>')
    pixels = panel.pixels
    if pixels is not None:
        about = escape(f"{panel.title} {panel.note}".strip() or "picture", quote=True)
        sharp = "image-rendering:pixelated;" if max(pixels.shape[:2]) < side else ""
        parts.append(f'<img alt="{about}" style="width:100%;{sharp}display:block" src="{data_url(pixels)}">')
    for scale, what in _bars(panel):
        parts.append(_bar(scale, what))
    if panel.words:
        parts.append(f'<div style="line-height:1.9">{"".join(_span(*word) for word in _told(panel))}</div>')
    if panel.note:
        parts.append(f'<div style="opacity:.75;font-size:12px">{escape(panel.note)}</div>')
    return f'<div style="width:{side:.0f}px;max-width:100%">{"".join(parts)}</div>'


def data_url(pixels: Pixels) -> str:
    """A picture as an address that holds it."""
    return f"data:image/png;base64,{base64.b64encode(encode_png(pixels)).decode()}"


def gradient(scale: Scale) -> str:
    """A scale's colours from left to right, for a style sheet."""
    table = colours(scale.table)
    last = 254 if scale.signed else 255
    return f"linear-gradient(to right,{','.join(hexadecimal(table[round(last * k / 16)]) for k in range(17))})"


def _bar(scale: Scale, what: str) -> str:
    low, high = (escape(end) for end in legend(scale))
    middle = f"<span>{what}</span>" if what else "<span>0</span>" if scale.signed else ""
    return (
        f'<div style="height:7px;margin-top:5px;background:{gradient(scale)}"></div>'
        f'<div style="display:flex;justify-content:space-between;font-size:11px;opacity:.75"><span>{low}</span>{middle}'
        f"<span>{high}</span></div>"
    )


def _told(panel: Panel) -> list[tuple[str, RGB | None, float | None]]:
    coloured = word_colours(panel.words, panel.word_heat)
    return [(word, colour, score) for (word, colour), (_, score) in zip(coloured, panel.words, strict=True)]


def _span(word: str, colour: RGB | None, score: float | None) -> str:
    if colour is None or score is None:
        return f'<span style="padding:1px 4px">{escape(word)}</span> '
    look = f"background:{hexadecimal(colour)};color:{readable_on(colour)};padding:1px 4px;border-radius:3px"
    return f'<span title="{figure(score)}" style="{look}">{escape(word)}</span> '
