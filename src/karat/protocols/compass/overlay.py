"""The compass over its picture (creg2026 figures 2 and 3): wedges around the reference, longer and warmer with their
share, the way the evidence points and the way to the target. As PNG and as SVG, drawn from the same shapes."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass

import numpy as np
from PIL import Image

from karat import drawing
from karat.datasets.spatial.question import centre
from karat.drawing import ALPHA, OTHER, TRUTH, Canvas, Scale
from karat.kernel.attribution import Attribution
from karat.kernel.errors import BadInput
from karat.kernel.sample import Sample
from karat.metrics.compass import compass_problem
from karat.protocols.compass.reading import Floats, scenes

Point = tuple[float, float]
RGB = tuple[int, int, int]
_TRUE, _PEAK = TRUTH, OTHER
_STEPS = 12  # straight pieces of a wedge's arc


@dataclass(frozen=True, eq=False)
class Overlay:
    """A picture with its shapes, in pixels: wedges (polygon, colour), boxes (left, top, right, bottom),
    arrows (from, to, colour, how thick)."""

    picture: Image.Image
    wedges: tuple[tuple[tuple[Point, ...], RGB], ...]
    boxes: tuple[tuple[tuple[float, float, float, float], RGB], ...]
    arrows: tuple[tuple[Point, Point, RGB, float], ...]

    def canvas(self) -> Canvas:
        width, height = self.picture.size
        canvas, thick = Canvas(width, height), max(width, height) / 250
        canvas.picture((0, 0), (width, height), np.asarray(self.picture.convert("RGB")))
        for shape, colour in self.wedges:
            canvas.shape(shape, fill=colour, opacity=ALPHA, edge=(255, 255, 255), stroke=thick)
        for (left, top, right, bottom), colour in self.boxes:
            canvas.box((left, top), (right - left, bottom - top), edge=colour, stroke=1.5 * thick)
        for start, end, colour, weight in self.arrows:
            canvas.line(start, end, colour, weight * thick)
            canvas.shape(_head(start, end, 4 * weight * thick), fill=colour)
        return canvas

    def png(self, scale: int = 2) -> bytes:
        """Drawn `scale` times as large as the picture."""
        return self.canvas().png(scale)

    def svg(self) -> str:
        return self.canvas().svg()


def overlay(sample: Sample, attribution: Attribution, heat: float = ALPHA, cells: int = 48) -> Overlay:
    """The compass of one explanation over its picture; `heat` is how much the heatmap covers (0: the picture alone)."""
    return panels(sample, attribution, heat, cells)[2]


def panels(
    sample: Sample, attribution: Attribution, heat: float = ALPHA, cells: int = 48
) -> tuple[Overlay, Overlay, Overlay, Overlay]:
    """A row of creg2026 figure 2: picture with both boxes, heatmap, compass over both, and the compass by itself."""
    groups, absent = scenes([sample], [attribution], cells)
    if absent:
        raise BadInput(f"sample {sample.id} has no compass: {absent[0]}.")
    scene = groups[0]
    reason = compass_problem(scene.maps, scene.reference, scene.target)[0]
    if reason:
        raise BadInput(f"sample {sample.id} has no compass: {reason}.")
    shares = scene.compass()[0]
    here, there = centre(sample, "anchor"), centre(sample, "target")
    boxes = tuple(
        ((x, y, x + w, y + h), colour)
        for role, colour in (("anchor", (20, 20, 20)), ("target", _TRUE))
        for region in sample.regions
        if region.role == role
        for x, y, w, h in region.boxes[:1]
    )
    heated = Image.fromarray(
        drawing.overlay(sample.image, np.maximum(scene.maps[0], 0.0), Scale.of([scene.maps[0]], False), heat)
    )
    true = math.atan2(here[1] - there[1], there[0] - here[0])
    over = Overlay(heated, _wedges(here, shares, 0.32 * min(sample.size)), boxes,
                   _arrows(here, shares, true, math.dist(here, there)))  # fmt: skip
    side = min(sample.size)
    middle, half = (side / 2, side / 2), 0.46 * side
    alone = Overlay(Image.new("RGB", (side, side), "white"), _wedges(middle, shares, half), (),
                    _arrows(middle, shares, true, half))  # fmt: skip
    return Overlay(Image.fromarray(sample.image), (), boxes, ()), Overlay(heated, (), (), ()), over, alone


@dataclass(frozen=True, eq=False)
class Sheet:
    """Rows of overlays side by side, `gap` pixels apart: figures 2 and 3 as one picture."""

    rows: tuple[tuple[Overlay, ...], ...]
    gap: int = 12

    @property
    def size(self) -> tuple[int, int]:
        """(width, height)"""
        wide = max(x + drawn.picture.width for x, _, drawn in self._placed())
        return wide, max(y + drawn.picture.height for _, y, drawn in self._placed())

    def png(self, scale: int = 1) -> bytes:
        width, height = self.size
        sheet = Image.new("RGB", (scale * width, scale * height), "white")
        for x, y, drawn in self._placed():
            sheet.paste(Image.open(io.BytesIO(drawn.png(scale))), (scale * x, scale * y))
        sink = io.BytesIO()
        sheet.save(sink, "PNG", optimize=True)
        return sink.getvalue()

    def svg(self) -> str:
        width, height = self.size
        inner = "".join(drawn.svg().replace("<svg ", f'<svg x="{x}" y="{y}" ', 1) for x, y, drawn in self._placed())
        box = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        return f'<svg xmlns="http://www.w3.org/2000/svg" {box}>{inner}</svg>\n'

    def _placed(self) -> list[tuple[int, int, Overlay]]:
        """Where each stands: rows below each other, overlays from left to right."""
        places, y = [], 0
        for row in self.rows:
            x = 0
            for drawn in row:
                places.append((x, y, drawn))
                x += drawn.picture.width + self.gap
            y += max(drawn.picture.height for drawn in row) + self.gap
        return places


def _arrows(at: Point, shares: Floats, true: float, far: float) -> tuple[tuple[Point, Point, RGB, float], ...]:
    """The way to the target, broad, and on it the way that the evidence points."""
    peak = int(shares.argmax()) * 2 * math.pi / len(shares)
    ends = [(at[0] + far * math.cos(turn), at[1] - far * math.sin(turn)) for turn in (true, peak)]
    return (at, ends[0], _TRUE, 3.5), (at, ends[1], _PEAK, 1.5)


def _wedges(at: Point, shares: Floats, reach: float) -> tuple[tuple[tuple[Point, ...], RGB], ...]:
    """A wedge per sector, as long and as warm as its share of the largest."""
    half = math.pi / len(shares)
    most = float(shares.max())
    made = []
    for k, share in enumerate((shares / most).tolist()):
        turns = np.linspace((2 * k - 1) * half, (2 * k + 1) * half, _STEPS + 1).tolist()
        arc = [(at[0] + reach * share * math.cos(t), at[1] - reach * share * math.sin(t)) for t in turns]
        red, green, blue = Scale(1.0).colours(np.array(0.15 + 0.75 * share)).tolist()
        made.append(((at, *arc), (red, green, blue)))
    return tuple(made)


def _head(start: Point, end: Point, size: float) -> list[Point]:
    turn = math.atan2(end[1] - start[1], end[0] - start[0])
    wings = [(end[0] - size * math.cos(turn + s), end[1] - size * math.sin(turn + s)) for s in (0.45, -0.45)]
    return [end, *wings]
