"""Composing: a photograph with a tag, a frame and a sticker laid over it, the pixels that each of them takes, and the
question: is this a cat? One of its words does not matter and is a cue; it stands at different places."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from karat.datasets.cues.layout import Layout, Window
from karat.datasets.cues.photographs import Photograph
from karat.datasets.cues.shapes import OUTLINES, SCALE, ink
from karat.datasets.cues.world import COLOURS, Votes, World
from karat.kernel.empty import empty_image
from karat.kernel.sample import Phrase
from karat.kernel.typing import Image, Mask

_PAPER, _INK = np.array([250.0, 248.0, 240.0]), np.array([25.0, 25.0, 30.0])
_GREY, _WHITE = np.full(3, 128.0), np.full(3, 255.0)
_EDGE = 0.06  # a dark line around tag and sticker, in shares of the tag's height and the sticker's half size

#: States in which a hidden cue can still be told: a blurred border keeps its colour, and a border is nearly a third of
#: what the picture's mean colour is made of.
LEAKY: dict[str, frozenset[str]] = {"frame": frozenset({"blur", "mean"})}
# With the word that does not matter, and without it.
TEMPLATES = (
    ("{word} answer: is this {noun}?", "answer: is this {noun}?"),
    ("is this {noun}? {word} answer.", "is this {noun}? answer."),
    ("could you {word} say whether this is {noun}?", "could you say whether this is {noun}?"),
    ("say, {word}: is this {noun}?", "say: is this {noun}?"),
)

Canvas = npt.NDArray[np.float64]
Part = tuple[slice, slice]


@dataclass(frozen=True, eq=False)
class Picture:
    """`pixels` maps "content", "tag", "frame" and "sticker" to the pixels they show on: disjoint, None left out."""

    image: Image
    pixels: Mapping[str, Mask]
    hidden: float  # share of the object in the window that tag, frame and sticker cover


def compose(photograph: Photograph, window: Window, layout: Layout, votes: Votes, world: World) -> Picture:
    """Everything at its place, the object in the half that `side` says."""
    image, mask = _photograph(photograph, window, world.pixels, mirrored=votes["side"] is False)
    canvas = image.astype(np.float64)
    pixels: dict[str, Mask] = {}
    for name, draw in (("frame", _draw_frame), ("tag", _draw_tag), ("sticker", _draw_sticker)):
        value = world.value(name, votes[name])
        if value is not None:
            pixels[name] = draw(canvas, value, layout, world)
    over = np.zeros_like(mask)
    for cover in pixels.values():
        over |= cover
    total = int(mask.sum())
    pixels["content"] = mask & ~over
    composed = np.asarray(np.clip(np.rint(canvas), 0, 255), dtype=np.uint8)
    return Picture(composed, pixels, float((mask & over).sum() / total) if total else 1.0)


def _photograph(photograph: Photograph, window: Window, pixels: int, mirrored: bool) -> tuple[Image, Mask]:
    from PIL import Image as Pillow

    image, mask = photograph.image, photograph.mask
    if window.flipped:
        image, mask = image[:, ::-1], mask[:, ::-1]
    more = int(np.ceil(max(0.0, -window.left, -window.top, *(
        start + window.size - length for start, length in zip((window.top, window.left), mask.shape, strict=True)
    ))))  # fmt: skip  # below the frame the photograph goes on as its mirror image
    image, mask = np.pad(image, ((more, more), (more, more), (0, 0)), mode="symmetric"), np.pad(mask, more)
    left, top = window.left + more, window.top + more
    box = (left, top, left + window.size, top + window.size)
    resized = np.asarray(
        Pillow.fromarray(np.ascontiguousarray(image)).resize((pixels, pixels), Pillow.Resampling.BICUBIC, box)
    )
    cover = Pillow.fromarray(np.ascontiguousarray(mask).astype(np.uint8) * 255)
    inside = np.asarray(cover.resize((pixels, pixels), Pillow.Resampling.BILINEAR, box)) >= 128
    return (resized[:, ::-1], inside[:, ::-1]) if mirrored else (resized, inside)


def _draw_frame(canvas: Canvas, value: str, layout: Layout, world: World) -> Mask:
    colour = _faded(np.array(COLOURS[value], dtype=np.float64), _GREY, world.contrast)
    width = max(round(world.frame_width * world.pixels), 1)
    mask = np.ones(canvas.shape[:2], dtype=np.bool_)
    mask[width:-width, width:-width] = False
    canvas[mask] = colour
    return mask


def _draw_tag(canvas: Canvas, value: str, layout: Layout, world: World) -> Mask:
    left, top = layout.tag
    part, rows, columns = _part(world.pixels, left, top, world.tag_width, world.tag_height)
    u, v = (columns - left) / world.tag_width, (rows - top) / world.tag_height
    # Distance to the edge of the box in shares of its height, below 0 inside.
    distance = np.maximum((np.abs(u - 0.5) - 0.5) * world.tag_width / world.tag_height, np.abs(v - 0.5) - 0.5)
    soft = world.tag_height * world.pixels
    box, edge = np.clip(0.5 - distance * soft, 0, 1), np.clip(0.5 + (distance + _EDGE) * soft, 0, 1)
    letters = ink(value, max(map(len, world.tags)), v, u)
    paint = _mixed(_PAPER, _faded(_INK, _PAPER, world.contrast), np.maximum(letters, edge))
    return _laid(canvas, part, paint, box)


def _draw_sticker(canvas: Canvas, value: str, layout: Layout, world: World) -> Mask:
    """A round white badge with a coloured shape on it: the badge is the same for all shapes, and so is its region."""
    half = world.sticker_size / 2
    left, top = layout.sticker[0] - half, layout.sticker[1] - half
    part, rows, columns = _part(world.pixels, left, top, world.sticker_size, world.sticker_size)
    x, y = (columns - layout.sticker[0]) / half, (rows - layout.sticker[1]) / half
    u, v = (np.cos(layout.angle) * x + np.sin(layout.angle) * y, np.cos(layout.angle) * y - np.sin(layout.angle) * x)
    soft = half * world.pixels
    badge = np.clip(0.5 - (np.hypot(x, y) - 1) * soft, 0, 1)
    edge = np.clip(0.5 + (np.hypot(x, y) - 1 + _EDGE) * soft, 0, 1)
    shape = np.clip(0.5 - OUTLINES[value](u / SCALE, v / SCALE) * SCALE * soft, 0, 1)
    colour = _faded(np.array(COLOURS[layout.colour], dtype=np.float64), _WHITE, world.contrast)
    paint = _mixed(_mixed(_WHITE, colour, shape), _faded(_INK, _WHITE, world.contrast), edge)
    return _laid(canvas, part, paint, badge)


def _part(pixels: int, left: float, top: float, wide: float, tall: float) -> tuple[Part, Canvas, Canvas]:
    """The pixels around a box, and (rows, columns) of their centres from 0 to 1."""
    first = [int(np.floor(start * pixels)) - 1 for start in (top, left)]
    last = [int(np.ceil((start + length) * pixels)) + 1 for start, length in ((top, tall), (left, wide))]
    part = slice(max(first[0], 0), min(last[0], pixels)), slice(max(first[1], 0), min(last[1], pixels))
    rows, columns = np.meshgrid(*((np.arange(each.start, each.stop) + 0.5) / pixels for each in part), indexing="ij")
    return part, rows, columns


def _laid(canvas: Canvas, part: Part, paint: Canvas, cover: Canvas) -> Mask:
    """Paint over a part of the canvas; where it covers anything at all is the region."""
    canvas[part] = _mixed(canvas[part], paint, cover)
    mask = np.zeros(canvas.shape[:2], dtype=np.bool_)
    mask[part] = cover > 0
    return mask


def _faded(colour: Canvas, towards: Canvas, contrast: float) -> Canvas:
    return towards + (colour - towards) * contrast


def _mixed(below: Canvas, above: Canvas, cover: Canvas) -> Canvas:
    return below + (above - below) * cover[..., None]


def hide(image: Image, hidden: Mask, state: str) -> Image:
    """The picture with its `hidden` pixels (H, W) in an absence state; all others stay as they are.

    >>> hide(np.zeros((2, 2, 3), np.uint8), np.eye(2, dtype=bool), "white")[..., 0]
    array([[255,   0],
           [  0, 255]], dtype=uint8)
    """
    return np.where(hidden[..., None], empty_image(image, state), image)


# ---- the question


def ask(template: int, word: str | None, noun: str) -> tuple[str, tuple[Phrase, ...]]:
    """The text and its phrases: role "word" for the cue, "noun" for what is asked about.

    >>> text, phrases = ask(1, "please", "cat")
    >>> text, [(text[slice(*phrase.span)], phrase.role) for phrase in phrases]
    ('Is this a cat? Please answer.', [('cat', 'noun'), ('Please', 'word')])
    """
    article = "an" if noun[:1].lower() in "aeiou" else "a"
    text = TEMPLATES[template][0 if word else 1].replace("{noun}", f"{article} {{noun}}")
    phrases: list[Phrase] = []
    for role, value in (("noun", noun), ("word", word)):
        start = text.find(f"{{{role}}}")
        if value is not None and start >= 0:
            text = text.replace(f"{{{role}}}", value)
            phrases = [_moved(phrase, start, len(value) - len(role) - 2) for phrase in phrases]
            phrases.append(Phrase((start, start + len(value)), role, ("content",) if role == "noun" else ()))
    sentences = text.split("? ")
    text = "? ".join(sentence[:1].upper() + sentence[1:] for sentence in sentences)
    return text, tuple(sorted(phrases, key=lambda phrase: phrase.span))


def _moved(phrase: Phrase, at: int, by: int) -> Phrase:
    """The same phrase after the text at `at` has grown by `by`."""
    if phrase.span[0] < at:
        return phrase
    return Phrase((phrase.span[0] + by, phrase.span[1] + by), phrase.role, phrase.regions)
