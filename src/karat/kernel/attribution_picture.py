"""Attributions as pictures and in words: what `Attribution.show`, `.overlay`, `.save`, `.top` and notebooks use."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from PIL import Image

from karat.drawing import Panel, Scale, Sheet, overlay
from karat.drawing.sheet import figure
from karat.kernel.attribution import Attribution, Floats
from karat.kernel.errors import BadInput
from karat.kernel.typing import Box

ENDINGS = (".png", ".svg", ".html")
_COLUMNS = 4


class Top(NamedTuple):
    """A place of the map, a word of the question or a pair of both, with its score; `box` is (x, y, width, height) of
    the place in pixels of the image, or in cells where the image is not known."""

    kind: Literal["place", "word", "pair"]
    name: str
    score: float
    box: Box | None = None


class Attributions(list[Attribution]):
    """Several attributions: a list that lays itself out as a grid.

    Those of one explainer and sample share a scale, so that maps of several words can be compared; explainers have
    units of their own.
    """

    def show(self) -> None:
        """In a notebook here, elsewhere in a window."""
        show(self)

    def save(self, path: str | Path) -> Path:
        """Write all of them as one picture: .png, .svg or .html."""
        return save(self, path)

    def _repr_html_(self) -> str:
        return sheet(self).html()

    def __repr__(self) -> str:
        return "\n".join(map(repr, self)) or "Attributions: none"


def described(attribution: Attribution) -> str:
    """One line: of what, by whom, and which parts it has."""
    subject = attribution.of
    head = "Attribution"
    if subject is not None:
        head += f" of {str(subject.target)!r}" if subject.target is not None else ""
        head += f" by {subject.explainer}" if subject.explainer else ""
        head += f" on {subject.model}" if subject.model else ""
    parts = []
    if attribution.visual is not None:
        h, w = attribution.visual.shape
        parts.append(f"map {h} × {w} ({attribution.space}{', signed' if attribution.signed else ''})")
    if attribution.words is not None:
        parts.append(f"{len(attribution.words)} words")
    if attribution.pairs is not None:
        parts.append(f"pairs {' × '.join(map(str, attribution.pairs.shape))}")
    if attribution.scalar is not None:
        parts.append(f"scalar {attribution.scalar:.3g}")
    if attribution.passes:
        parts.append(f"{attribution.passes:g} pass{'' if attribution.passes == 1 else 'es'}")
    return f"{head}: {', '.join(parts)}"


def strongest(attribution: Attribution, n: int) -> list[Top]:
    """The n places, words and pairs of largest score, by size where signed."""
    listed: list[Top] = []
    if attribution.visual is not None:
        for k, score in _largest(attribution.visual, attribution.signed, n):
            listed.append(Top("place", _place(attribution.visual, k), score, _box(attribution, k)))
    if attribution.words is not None:
        names = _words(attribution)
        listed += [Top("word", names[k], score) for k, score in _largest(attribution.words, attribution.signed, n)]
    return listed + strongest_pairs(attribution, n)


def strongest_pairs(attribution: Attribution, n: int) -> list[Top]:
    """The n pairs of a place and a word of largest score; none where the method has no pairs of these."""
    pairs, visual, words = attribution.pairs, attribution.visual, attribution.words
    if pairs is None or visual is None or words is None or pairs.shape != (visual.size, len(words)):
        return []
    listed: list[Top] = []
    for k, score in _largest(pairs, attribution.signed, n):
        cell, word = divmod(k, len(words))
        name = f"{_words(attribution)[word]!r} with {_place(visual, cell)}"
        listed.append(Top("pair", name, score, _box(attribution, cell)))
    return listed


def overlaid(attribution: Attribution) -> Image.Image:
    """The map over the image."""
    if attribution.visual is None:
        raise BadInput(
            f"overlay() needs a map; this is an {described(attribution)}. Use .show(), which draws words too."
        )
    if attribution.of is None:
        raise BadInput("overlay() needs the image; attributions of karat.explain(...) know theirs.")
    scale = Scale.of([attribution.visual], attribution.signed)
    return Image.fromarray(overlay(attribution.of.sample.image, attribution.visual, scale))


def panel(attribution: Attribution, scale: Scale | None = None, word_scale: Scale | None = None) -> Panel:
    """One attribution as a picture with its title, words and scale."""
    subject = attribution.of
    words: Sequence[tuple[str, float | None]] = ()
    if attribution.words is not None:
        words = tuple(zip(_words(attribution), attribution.words.tolist(), strict=True))
        word_scale = word_scale or Scale.of([attribution.words], attribution.signed)
    if attribution.visual is not None:
        scale = scale or Scale.of([attribution.visual], attribution.signed)
    title = "" if subject is None else ", ".join(
        part for part in (repr(str(subject.target)) if subject.target is not None else "", subject.explainer) if part
    )  # fmt: skip
    pairs = [f"{top.name} ({figure(top.score)})" for top in strongest_pairs(attribution, 3)]
    listed = [f"strongest pairs: {'; '.join(pairs)}"] if pairs else []
    note = " · ".join([*listed, *([subject.note] if subject is not None and subject.note else [])])
    return Panel(
        None if subject is None else subject.sample.image, attribution.visual, words, scale, word_scale, title, note
    )


def sheet(attributions: Sequence[Attribution], columns: int = _COLUMNS) -> Sheet:
    """All of them in rows; those of one explainer and sample on one scale."""
    groups: dict[tuple[str, str], list[Attribution]] = {}
    for each in attributions:
        groups.setdefault(_group(each), []).append(each)
    scales = {key: Scale.of([a.visual for a in group if a.visual is not None], any(a.signed for a in group))
              for key, group in groups.items()}  # fmt: skip
    word_scales = {key: Scale.of([a.words for a in group if a.words is not None], any(a.signed for a in group))
                   for key, group in groups.items()}  # fmt: skip
    panels = [panel(each, scales[_group(each)], word_scales[_group(each)]) for each in attributions]
    rows = tuple(tuple(panels[k : k + columns]) for k in range(0, len(panels), columns))
    questions = dict.fromkeys(each.of.sample.text or "" for each in attributions if each.of is not None)
    return Sheet(rows, next(iter(questions)) if len(questions) == 1 else "")


def save(attributions: Sequence[Attribution], path: str | Path) -> Path:
    target = Path(path)
    kind = target.suffix.lower()
    if kind not in ENDINGS:
        raise BadInput(f"a picture is saved as {', '.join(ENDINGS)}; got {target.name!r}.")
    drawn = sheet(attributions)
    if kind == ".png":
        data = drawn.png()
    elif kind == ".svg":
        data = drawn.svg().encode()
    else:
        data = (
            f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Karat</title>{drawn.html()}</html>'.encode()
        )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    except OSError as error:
        raise BadInput(f"cannot write {target}: {error.strerror or error}. Choose another name.") from None
    return target


def show(attributions: Sequence[Attribution]) -> None:
    ipython = sys.modules.get("IPython")
    if ipython is not None and ipython.get_ipython() is not None:
        from IPython.display import HTML, display

        display(HTML(sheet(attributions).html()))
    else:
        sheet(attributions).canvas().image().show()


def _group(attribution: Attribution) -> tuple[str, str]:
    subject = attribution.of
    return ("", str(id(attribution))) if subject is None else (subject.explainer, subject.sample.id)


def _size(values: Floats, signed: bool) -> Floats:
    return np.abs(values) if signed else values


def _words(attribution: Attribution) -> list[str]:
    assert attribution.words is not None
    subject = attribution.of
    if subject is None or subject.sample.text is None or len(subject.sample.words) != len(attribution.words):
        return [f"word {k + 1}" for k in range(len(attribution.words))]
    return [subject.sample.text[a:b] for a, b in subject.sample.words]


def _largest(values: Floats, signed: bool, n: int) -> list[tuple[int, float]]:
    """Flat places of the n largest values, with them."""
    flat = np.nan_to_num(values).ravel()
    return [(k, float(flat[k])) for k in np.argsort(-_size(flat, signed), kind="stable")[:n].tolist()]


def _place(visual: Floats, cell: int) -> str:
    row, column = divmod(cell, visual.shape[1])
    return f"row {row + 1}, column {column + 1}"


def _box(attribution: Attribution, cell: int) -> Box:
    assert attribution.visual is not None
    h, w = attribution.visual.shape
    row, column = divmod(cell, w)
    height, width = (h, w) if attribution.of is None else attribution.of.sample.size
    top, left = row * height // h, column * width // w
    return left, top, max(1, (column + 1) * width // w - left), max(1, (row + 1) * height // h - top)
