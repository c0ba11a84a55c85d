"""Pictures for people: a contact sheet with the truth drawn in, and the answer histograms of gridvqax2026 figure 7."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from karat.datasets.grid.export import whole_file
from karat.datasets.grid.sample import GridSample
from karat.kernel.errors import BadInput

Colour = tuple[int, int, int]

INK, GREY, PAPER, LINE = (32, 36, 44), (110, 116, 126), (250, 250, 248), (214, 216, 220)
ROLE_COLOURS: dict[str, Colour] = {
    "target": (0, 150, 90),
    "anchor": (60, 80, 220),
    "adversarial": (225, 110, 0),
}
VALID_TINT, CONFUSER_TINT = (214, 240, 222), (253, 231, 207)
_SCALE = 252  # pixels of a scene on the sheet
_TEXT = 104  # pixels under a scene


def _font(size: int) -> Any:
    return ImageFont.load_default(size)


def _wrap(draw: ImageDraw.ImageDraw, text: str, font: Any, width: int) -> list[str]:
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if draw.textlength(longer, font=font) <= width or not lines[-1]:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def _tinted(sample: GridSample) -> Image.Image:
    """The scene with its valid region and its confuser regions tinted where the image is white."""
    cell = sample.scene.world.cell
    image = sample.image.copy()
    white = (image == 255).all(axis=2)

    def tint(cells: npt.NDArray[np.bool_] | np.bool_, colour: Colour) -> None:
        image[cells.repeat(cell, axis=0).repeat(cell, axis=1) & white] = colour

    proof = sample.certificate
    if len(proof.confusers) and sample.meta["qtype"] != "REL":
        tint(proof.confusers.any(axis=0), CONFUSER_TINT)
        tint(proof.valid.any(axis=0), VALID_TINT)
    return Image.fromarray(image)


def scene_picture(sample: GridSample, pixels: int = _SCALE) -> Image.Image:
    """One scene with cell lines, tinted regions and a frame round every object that the question is about."""
    picture = _tinted(sample).resize((pixels, pixels), Image.Resampling.LANCZOS)
    draw = ImageDraw.Draw(picture)
    size = sample.scene.world.size
    edge = [round(k * (pixels - 1) / size) for k in range(size + 1)]
    for k in edge:
        draw.line((k, 0, k, pixels), fill=LINE)
        draw.line((0, k, pixels, k), fill=LINE)
    small = _font(max(9, pixels // 22))
    for item in sample.scene.objects:
        colour = ROLE_COLOURS.get(item.role)
        if colour is None:
            continue
        box = (edge[item.column] + 1, edge[item.row] + 1, edge[item.column + 1] - 1, edge[item.row + 1] - 1)
        draw.rectangle(box, outline=colour, width=3)
        if item.role == "anchor":
            tag = item.name.removeprefix("anchor ")
            draw.rectangle((box[0], box[1], box[0] + 12, box[1] + 14), fill=colour)
            draw.text((box[0] + 6, box[1] + 7), tag, fill="white", font=small, anchor="mm")
    return picture


def contact_sheet(samples: Sequence[GridSample], path: str | Path, columns: int = 5) -> Path:
    """Write a PNG: each scene with its masks, question, answer and what the bag of words would say."""
    if not samples:
        raise BadInput("a contact sheet needs at least one sample")
    gap, top = 22, 62
    columns = min(columns, len(samples))
    lines = -(-len(samples) // columns)
    width, height = gap + columns * (_SCALE + gap), top + lines * (_SCALE + _TEXT + gap) + 6
    sheet = Image.new("RGB", (max(width, 700), height), PAPER)
    draw = ImageDraw.Draw(sheet)
    _legend(draw, gap, 22)
    title, body = _font(13), _font(14)
    for k, sample in enumerate(samples):
        x, y = gap + (k % columns) * (_SCALE + gap), top + (k // columns) * (_SCALE + _TEXT + gap)
        sheet.paste(scene_picture(sample), (x, y))
        draw.rectangle((x - 1, y - 1, x + _SCALE, y + _SCALE), outline=GREY)
        y += _SCALE + 6
        draw.text((x, y), f"{sample.meta['bucket']}  {sample.meta['mode']}  #{sample.meta['index']}", GREY, font=title)
        y += 18
        for line in _wrap(draw, sample.text or "", body, _SCALE)[:4]:
            draw.text((x, y), line, INK, font=body)
            y += 16
        shortcut = sample.certificate.heuristics["bag_of_words"]
        good = ROLE_COLOURS["target"] if shortcut == sample.answer else ROLE_COLOURS["adversarial"]
        draw.text((x, y + 2), f"{sample.answer}", INK, font=_font(15))
        offset = draw.textlength(f"{sample.answer}   ", font=_font(15))
        rule = "position" if sample.meta["qtype"] == "REL" else "bag of words"
        draw.text((x + offset, y + 4), f"{rule} says {shortcut}", good, font=title)
    target = Path(path)
    with whole_file(target) as file:
        sheet.save(file, format="PNG")
    return target


def _legend(draw: ImageDraw.ImageDraw, x: int, y: int) -> None:
    font = _font(14)
    entries = [(name, colour, False) for name, colour in ROLE_COLOURS.items()]
    entries += [("valid region", VALID_TINT, True), ("confuser regions", CONFUSER_TINT, True)]
    for name, colour, filled in entries:
        draw.rectangle((x, y, x + 16, y + 16), outline=GREY if filled else colour, fill=colour if filled else None,
                       width=1 if filled else 3)  # fmt: skip
        draw.text((x + 23, y - 1), name, INK, font=font)
        x += 44 + round(draw.textlength(name, font=font))


def answer_histograms(samples: Iterable[GridSample], path: str | Path) -> Path:
    """Write a PNG with one row per mode and one column per kind of answer, as in gridvqax2026 figure 7."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    for sample in samples:
        counts.setdefault((str(sample.meta["mode"]), _kind(sample)), Counter())[sample.answer or ""] += 1
    return histograms(counts, path)


def _kind(sample: GridSample) -> str:
    return {"CMP": "comparison", "REL": "direction"}.get(
        str(sample.meta["qtype"]), "existence" if sample.meta["form"] else "counting"
    )


def histograms(counts: dict[tuple[str, str], Counter[str]], path: str | Path) -> Path:
    """Write histograms of answers given as counts by (mode, kind of question)."""
    if not counts:
        raise BadInput("histograms need at least one sample")
    modes = list(dict.fromkeys(mode for mode, _ in counts))
    kinds = [kind for kind in ("counting", "existence", "comparison", "direction") if any(k == kind for _, k in counts)]
    bars = {kind: sorted({a for (_, k), c in counts.items() if k == kind for a in c}, key=_order) for kind in kinds}
    tall, gap, top = 190, 46, 52
    slots = {kind: 34 if kind == "counting" else 50 for kind in kinds}
    widths = {kind: max(slots[kind] * len(bars[kind]), 130) for kind in kinds}
    width = gap + sum(widths[kind] + gap for kind in kinds)
    sheet = Image.new("RGB", (width, 20 + len(modes) * (tall + top + 36)), PAPER)
    draw = ImageDraw.Draw(sheet)
    heading, small = _font(15), _font(12)
    for row, mode in enumerate(modes):
        base = 20 + row * (tall + top + 36) + top + tall
        x = gap
        for kind in kinds:
            found, slot = counts.get((mode, kind), Counter()), slots[kind]
            total, most = sum(found.values()), max(found.values(), default=1)
            draw.text((x, base - tall - top + 2), f"{mode}: {kind}", INK, font=heading)
            draw.text((x, base - tall - top + 21), f"{total} questions", GREY, font=small)
            for k, answer in enumerate(bars[kind]):
                high = round((tall - 18) * found[answer] / most)
                left = x + k * slot + 4
                draw.rectangle((left, base - high, left + slot - 9, base), fill=(84, 122, 190))
                share = f"{100 * found[answer] / total:.0f}%" if total else ""
                draw.text((left + (slot - 9) / 2, base - high - 3), share, GREY, font=small, anchor="mb")
                draw.text((left + (slot - 9) / 2, base + 5), answer, INK, font=small, anchor="ma")
            draw.line((x, base, x + widths[kind], base), fill=INK)
            x += widths[kind] + gap
    target = Path(path)
    with whole_file(target) as file:
        sheet.save(file, format="PNG")
    return target


def _order(answer: str) -> tuple[int, int, str]:
    return (1, int(answer), "") if answer.isdigit() else (0, 0, {"yes": "a", "no": "b"}.get(answer, answer))
