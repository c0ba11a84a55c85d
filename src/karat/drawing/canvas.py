"""`Canvas`: pictures, shapes and texts at places, as PNG and as SVG, drawn from the same list."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from karat.drawing.colours import RGB, hexadecimal

Point = tuple[float, float]
Pixels = npt.NDArray[np.uint8]
INK: RGB = (32, 36, 44)
PAPER: RGB = (255, 255, 255)
_FONTS = {False: ("DejaVuSans.ttf", "Arial.ttf"), True: ("DejaVuSans-Bold.ttf", "Arial Bold.ttf")}


@dataclass(frozen=True, eq=False)
class Picture:
    at: Point
    size: Point
    pixels: Pixels
    smooth: bool = True


@dataclass(frozen=True)
class Shape:
    """A closed shape; `stroke` wide in `edge`."""

    points: tuple[Point, ...]
    fill: RGB | None = None
    opacity: float = 1.0
    edge: RGB | None = None
    stroke: float = 1.0


@dataclass(frozen=True)
class Line:
    start: Point
    end: Point
    colour: RGB
    stroke: float = 1.0


@dataclass(frozen=True)
class Text:
    """One line whose left, middle or right end is at (x, y), y being its base line."""

    at: Point
    text: str
    size: float = 13
    colour: RGB = INK
    bold: bool = False
    anchor: str = "start"


@dataclass
class Canvas:
    """A sheet of `width` × `height` to which things are added, the later above the earlier."""

    width: float
    height: float
    background: RGB | None = PAPER
    title: str = ""
    things: list[Picture | Shape | Line | Text] = field(default_factory=list)

    def picture(self, at: Point, size: Point, pixels: Pixels, smooth: bool = True) -> None:
        self.things.append(Picture(at, size, pixels, smooth))

    def shape(self, points: Sequence[Point], **look: Any) -> None:
        self.things.append(Shape(tuple(points), **look))

    def box(self, at: Point, size: Point, **look: Any) -> None:
        (x, y), (w, h) = at, size
        self.shape(((x, y), (x + w, y), (x + w, y + h), (x, y + h)), **look)

    def line(self, start: Point, end: Point, colour: RGB, stroke: float = 1.0) -> None:
        self.things.append(Line(start, end, colour, stroke))

    def text(self, at: Point, text: str, **look: Any) -> None:
        self.things.append(Text(at, text, **look))

    def image(self, scale: float = 2.0) -> Image.Image:
        """As pixels, `scale` to a unit."""
        size = (max(1, round(self.width * scale)), max(1, round(self.height * scale)))
        drawn = Image.new("RGB", size, self.background or PAPER)
        for thing in self.things:
            _paint(drawn, thing, scale)
        return drawn

    def png(self, scale: float = 2.0) -> bytes:
        return encode_png(np.asarray(self.image(scale)))

    def svg(self) -> str:
        """A whole document; things keep their names, so that texts can be searched and copied."""
        box = f'viewBox="0 0 {_n(self.width)} {_n(self.height)}" width="{_n(self.width)}" height="{_n(self.height)}"'
        title = f"<title>{escape(self.title)}</title>" if self.title else ""
        back = f'<rect width="100%" height="100%" fill="{hexadecimal(self.background)}"/>' if self.background else ""
        inner = "".join(_marked(thing) for thing in self.things)
        font = 'font-family="DejaVu Sans, Arial, sans-serif"'
        return f'<svg xmlns="http://www.w3.org/2000/svg" {box} {font} role="img">{title}{back}{inner}</svg>\n'


def encode_png(pixels: Pixels) -> bytes:
    """Pixels as the bytes of a PNG."""
    sink = io.BytesIO()
    Image.fromarray(pixels).save(sink, "PNG")
    return sink.getvalue()


def text_width(text: str, size: float, bold: bool = False) -> float:
    return float(_font(100, bold).getlength(text)) * size / 100


def cut_to(text: str, size: float, width: float, bold: bool = False) -> str:
    """As much of a text as fits, with an ellipsis where something was left out."""
    if text_width(text, size, bold) <= width:
        return text
    while text and text_width(text + "…", size, bold) > width:
        text = text[:-1]
    return text.rstrip() + "…"


@lru_cache(maxsize=64)
def _font(size: float, bold: bool = False) -> Any:
    """The fonts that most machines have, and Pillow's own, which knows fewer letters, on those that have neither."""
    for name in _FONTS[bold]:
        try:
            return ImageFont.truetype(name, size)
        except OSError:
            continue
    return ImageFont.load_default(size)


def _paint(drawn: Image.Image, thing: Picture | Shape | Line | Text, scale: float) -> None:
    pen = ImageDraw.Draw(drawn)
    match thing:
        case Picture(at, size, pixels, smooth):
            wanted = (max(1, round(size[0] * scale)), max(1, round(size[1] * scale)))
            how = Image.Resampling.LANCZOS if smooth else Image.Resampling.NEAREST
            drawn.paste(Image.fromarray(pixels).resize(wanted, how), (round(at[0] * scale), round(at[1] * scale)))
        case Shape(points, fill, opacity, edge, stroke):
            placed = [(x * scale, y * scale) for x, y in points]
            _smoothly(drawn, placed, fill, opacity, edge, stroke * scale)
        case Line(start, end, colour, stroke):
            ends = [(x * scale, y * scale) for x, y in (start, end)]
            pen.line(ends, fill=colour, width=max(1, round(stroke * scale)))
        case Text(at, text, size, colour, bold, anchor):
            side = {"start": "ls", "middle": "ms", "end": "rs"}[anchor]
            pen.text((at[0] * scale, at[1] * scale), text, fill=colour, font=_font(size * scale, bold),
                     anchor=side)  # fmt: skip


def _smoothly(
    drawn: Image.Image, points: list[Point], fill: RGB | None, opacity: float, edge: RGB | None, stroke: float
) -> None:
    """A shape with smooth borders: drawn twice as large over its own rectangle, and shrunk."""
    left, top = (int(min(p[k] for p in points) - stroke) - 1 for k in (0, 1))
    right, bottom = (int(max(p[k] for p in points) + stroke) + 2 for k in (0, 1))
    if right <= left or bottom <= top:
        return
    fine = Image.new("RGBA", (2 * (right - left), 2 * (bottom - top)), (*(fill or edge or INK), 0))
    pen = ImageDraw.Draw(fine)
    moved = [(2 * (x - left), 2 * (y - top)) for x, y in points]
    if fill is not None:
        pen.polygon(moved, fill=(*fill, round(255 * opacity)))
    if edge is not None:
        pen.line([*moved, moved[0]], fill=(*edge, 255), width=max(1, round(2 * stroke)), joint="curve")
    small = fine.resize((right - left, bottom - top), Image.Resampling.BOX)
    drawn.paste(small.convert("RGB"), (left, top), small.getchannel("A"))


def _marked(thing: Picture | Shape | Line | Text) -> str:
    match thing:
        case Picture(at, size, pixels, smooth):
            data = base64.b64encode(encode_png(pixels)).decode()
            sharp = "" if smooth else ' style="image-rendering:pixelated"'
            return (f'<image x="{_n(at[0])}" y="{_n(at[1])}" width="{_n(size[0])}" height="{_n(size[1])}" '
                    f'preserveAspectRatio="none"{sharp} href="data:image/png;base64,{data}"/>')  # fmt: skip
        case Shape(points, fill, opacity, edge, stroke):
            inside = f'fill="{hexadecimal(fill)}"' if fill is not None else 'fill="none"'
            clear = f' fill-opacity="{opacity:.2f}"' if fill is not None and opacity < 1 else ""
            border = f' stroke="{hexadecimal(edge)}" stroke-width="{stroke:.2f}"' if edge is not None else ""
            listed = " ".join(f"{_n(x)},{_n(y)}" for x, y in points)
            return f'<polygon points="{listed}" {inside}{clear}{border}/>'
        case Line(start, end, colour, stroke):
            return (f'<line x1="{_n(start[0])}" y1="{_n(start[1])}" x2="{_n(end[0])}" y2="{_n(end[1])}" '
                    f'stroke="{hexadecimal(colour)}" stroke-width="{stroke:.2f}"/>')  # fmt: skip
        case Text(at, text, size, colour, bold, anchor):
            weight = ' font-weight="bold"' if bold else ""
            # fonts differ from machine to machine, the place that was left for the text does not
            length = f' textLength="{text_width(text, size, bold):.1f}"' if len(text) > 1 else ""
            place = f'x="{_n(at[0])}" y="{_n(at[1])}" font-size="{_n(size)}" text-anchor="{anchor}"'
            return (f'<text {place}{weight}{length} '
                    f'lengthAdjust="spacingAndGlyphs" fill="{hexadecimal(colour)}">{escape(text)}</text>')  # fmt: skip


def _n(value: float) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".")
