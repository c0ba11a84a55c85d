"""The compass over its picture (creg2026 figures 2 and 3): wedges around the reference, longer and warmer with their
share, the way the evidence points and the way to the target. As PNG and as SVG, drawn from the same shapes."""

from __future__ import annotations

import base64
import io
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from karat.datasets.spatial.question import centre
from karat.kernel.attribution import Attribution, resize_maps
from karat.kernel.errors import BadInput
from karat.kernel.sample import Sample
from karat.metrics.compass import compass_problem
from karat.protocols.compass.reading import Floats, scenes

Point = tuple[float, float]
RGB = tuple[int, int, int]
_COLD, _WARM = (250, 224, 170), (190, 40, 20)
_TRUE, _PEAK = (30, 90, 200), (190, 40, 20)
_STEPS = 12  # straight pieces of a wedge's arc


@dataclass(frozen=True, eq=False)
class Overlay:
    """A picture with its shapes, in pixels: wedges (polygon, colour), boxes (left, top, right, bottom),
    arrows (from, to, colour, how thick)."""

    picture: Image.Image
    wedges: tuple[tuple[tuple[Point, ...], RGB], ...]
    boxes: tuple[tuple[tuple[float, float, float, float], RGB], ...]
    arrows: tuple[tuple[Point, Point, RGB, float], ...]

    def png(self, scale: int = 2) -> bytes:
        """Drawn `scale` times as large as the picture, and smoothed."""
        fine = 2 * scale
        size = (self.picture.width * fine, self.picture.height * fine)
        drawn = self.picture.resize(size, Image.Resampling.BICUBIC).convert("RGBA")
        layer = Image.new("RGBA", size)
        pen = ImageDraw.Draw(layer)
        thick = max(2, round(max(size) / 250))
        for shape, colour in self.wedges:
            pen.polygon([(x * fine, y * fine) for x, y in shape], fill=(*colour, 190), outline=(255, 255, 255, 230))
        for box, colour in self.boxes:
            pen.rectangle([v * fine for v in box], outline=(*colour, 255), width=thick)
        for start, end, colour, weight in self.arrows:
            a, b = ((x * fine, y * fine) for x, y in (start, end))
            pen.line([a, b], fill=(*colour, 255), width=round(weight * thick))
            pen.polygon(_head(a, b, 4.0 * weight * thick), fill=(*colour, 255))
        drawn = Image.alpha_composite(drawn, layer).convert("RGB")
        sink = io.BytesIO()
        drawn.resize((size[0] // 2, size[1] // 2), Image.Resampling.LANCZOS).save(sink, "PNG")
        return sink.getvalue()

    def svg(self) -> str:
        width, height = self.picture.size
        sink = io.BytesIO()
        self.picture.save(sink, "PNG")
        data = base64.b64encode(sink.getvalue()).decode()
        thick = max(width, height) / 250
        parts = [f'<image width="{width}" height="{height}" href="data:image/png;base64,{data}"/>']
        for shape, colour in self.wedges:
            parts.append(f'<polygon points="{_listed(shape)}" fill="{_hex(colour)}" fill-opacity=".75" stroke="#fff" '
                         f'stroke-width="{thick:.2f}"/>')  # fmt: skip
        for (left, top, right, bottom), colour in self.boxes:
            parts.append(f'<rect x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" height="{bottom - top:.1f}" '
                         f'fill="none" stroke="{_hex(colour)}" stroke-width="{1.5 * thick:.2f}"/>')  # fmt: skip
        for start, end, colour, weight in self.arrows:
            parts.append(f'<line x1="{start[0]:.1f}" y1="{start[1]:.1f}" x2="{end[0]:.1f}" y2="{end[1]:.1f}" '
                         f'stroke="{_hex(colour)}" stroke-width="{weight * thick:.2f}"/>')  # fmt: skip
            parts.append(f'<polygon points="{_listed(_head(start, end, 4 * weight * thick))}" fill="{_hex(colour)}"/>')
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
            + "".join(parts)
            + "</svg>\n"
        )


def overlay(sample: Sample, attribution: Attribution, heat: float = 0.55, cells: int = 48) -> Overlay:
    """The compass of one explanation over its picture; `heat` is how much the heatmap covers (0: the picture alone)."""
    return panels(sample, attribution, heat, cells)[2]


def panels(
    sample: Sample, attribution: Attribution, heat: float = 0.55, cells: int = 48
) -> tuple[Overlay, Overlay, Overlay, Overlay]:
    """A row of creg2026 figure 2: picture with both boxes, heatmap, compass over both, and the compass by itself."""
    found, absent = scenes([sample], [attribution], cells)
    if absent:
        raise BadInput(f"sample {sample.id} has no compass: {absent[0]}.")
    scene = found[0]
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
    heated = _heated(sample.image, scene.maps[0], heat)
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
        found, y = [], 0
        for row in self.rows:
            x = 0
            for drawn in row:
                found.append((x, y, drawn))
                x += drawn.picture.width + self.gap
            y += max(drawn.picture.height for drawn in row) + self.gap
        return found


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
        colour = tuple(round(cold + (warm - cold) * share) for cold, warm in zip(_COLD, _WARM, strict=True))
        made.append(((at, *arc), (colour[0], colour[1], colour[2])))
    return tuple(made)


def _heated(image: Any, shown: Floats, heat: float) -> Image.Image:
    """The picture, paled where there is no evidence and reddened where there is."""
    height, width = image.shape[:2]
    strength = np.maximum(resize_maps(shown[None], height, width)[0], 0.0)
    strength = (strength / max(float(strength.max()), 1e-300))[:, :, None] * heat
    mixed = image * (1 - strength) + np.array([255.0, 120.0, 0.0]) * strength
    return Image.fromarray(mixed.round().astype(np.uint8))


def _head(start: Point, end: Point, size: float) -> list[Point]:
    turn = math.atan2(end[1] - start[1], end[0] - start[0])
    wings = [(end[0] - size * math.cos(turn + s), end[1] - size * math.sin(turn + s)) for s in (0.45, -0.45)]
    return [end, *wings]


def _listed(points: Any) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _hex(colour: RGB) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)
