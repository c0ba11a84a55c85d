"""An `Explanation` as one self-contained page: the image, a map per explainer, and a click for every word."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

import jinja2
import numpy as np
from markupsafe import Markup

from karat.drawing import Panel, Scale, Sheet
from karat.drawing.canvas import encode_png
from karat.drawing.colours import hexadecimal, readable_on
from karat.drawing.heat import layer
from karat.drawing.sheet import figure, gradient, legend, word_colours
from karat.kernel.attribution import Attribution
from karat.kernel.attribution_picture import panel, strongest_pairs
from karat.kernel.explanation import Explanation, Method
from karat.report.encode import to_json
from karat.report.page import _asset
from karat.report.sample_pictures import encode_image

_TYPES = {"png": "image/png", "jpg": "image/jpeg"}


@dataclass(frozen=True)
class Scales:
    """What the colours of one explainer's maps, words and pairs stand for: the same for all words of the answer."""

    maps: Scale
    words: Scale
    pairs: Scale

    @staticmethod
    def of(method: Method) -> Scales:
        signed = any(one.signed for one in method.maps)
        parts = (
            [one.visual for one in method.maps if one.visual is not None],
            [one.words for one in method.maps if one.words is not None],
            [one.pairs for one in method.maps if one.pairs is not None],
        )
        return Scales(*(Scale.of(part, signed) for part in parts))


def explanation_page(explanation: Explanation) -> str:
    """The page as text. It asks for nothing: no network, no other file."""
    data, suffix = encode_image(explanation.sample.image)
    image = f"data:{_TYPES[suffix]};base64,{base64.b64encode(data).decode()}"
    methods = [_method(explanation, method) for method in explanation.methods]
    loader = jinja2.FunctionLoader(lambda name: files("karat.report").joinpath("templates", name).read_text("utf-8"))
    environment = jinja2.Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    height, width = explanation.sample.size
    return environment.get_template("explain.html").render(
        explanation=explanation,
        image=image,
        width=width,
        height=height,
        methods=methods,
        pairs=any(one.pairs is not None for method in explanation.methods for one in method.maps),
        words=_pieces(explanation),
        certain=[f"{each.probability:.3g}" for each in explanation.spoken],
        style=Markup(_asset("explain.css")),
        script=Markup(_asset("explain.js")),
        core=Markup(to_json({"targets": [_shown(explanation, methods, k) for k in range(len(explanation.targets))]})),
    )


def explanation_sheet(explanation: Explanation) -> Sheet:
    """The same as one picture: a row for every word, a column for every explainer."""
    rows: list[tuple[Panel, ...]] = []
    scales = [Scales.of(method) for method in explanation.methods]
    several = len(explanation.targets) > 1  # else the heading says what is explained
    for k in range(len(explanation.targets)):
        drawn = [
            panel(method.maps[k], each.maps, each.words)
            for method, each in zip(explanation.methods, scales, strict=True)
        ]
        named = zip(drawn, explanation.methods, strict=True)
        rows.append(tuple(each if several else replace(each, title=method.name) for each, method in named))
    question = f"{explanation.sample.text}  →  " if explanation.sample.text else ""
    about = f"{explanation.model} on {explanation.sample.id}"
    rather = f"  rather than  {explanation.against}" if explanation.against else ""
    return Sheet(tuple(rows), f"{question}{explanation.answer}{rather}", about)


def _pieces(explanation: Explanation) -> list[tuple[str, int | None]]:
    """The answer cut at its words: a piece, and the number of the target it is, if any."""
    spans = {
        t.span: k for k, t in enumerate(explanation.targets) if not isinstance(t, str) and t.words != explanation.answer
    }
    pieces: list[tuple[str, int | None]] = []
    at = 0
    for (start, stop), k in sorted(spans.items()):
        if start > at:
            pieces.append((explanation.answer[at:start], None))
        pieces.append((explanation.answer[start:stop], k))
        at = stop
    if at < len(explanation.answer):
        pieces.append((explanation.answer[at:], None if spans else 0))
    return pieces


def _method(explanation: Explanation, method: Method) -> dict[str, Any]:
    scales = Scales.of(method)
    bars = [("map", scales.maps)] if any(one.visual is not None for one in method.maps) else []
    bars += [("words", scales.words)] if any(one.words is not None for one in method.maps) else []
    bars += [("pairs", scales.pairs)] if any(one.pairs is not None for one in method.maps) else []
    return {
        "name": method.name,
        "place": method.place,
        "note": method.note,
        "passes": figure(max(one.passes for one in method.maps)),
        "bars": [{"what": what, "ends": legend(scale), "gradient": gradient(scale)} for what, scale in bars],
        "scales": scales,
        "first": _drawn(explanation, method.maps[0], scales),
        "has_map": any(one.visual is not None or one.pairs is not None for one in method.maps),
    }


def _shown(explanation: Explanation, methods: Sequence[dict[str, Any]], k: int) -> list[dict[str, Any]]:
    return [
        _drawn(explanation, method.maps[k], made["scales"])
        for method, made in zip(explanation.methods, methods, strict=True)
    ]


def _drawn(explanation: Explanation, one: Attribution, scales: Scales) -> dict[str, Any]:
    """A map, coloured words, and the map that goes with each word where there are pairs."""
    drawn: dict[str, Any] = {"words": [], "pairs": []}
    if one.visual is not None:
        drawn["map"] = _url(layer(one.visual, scales.maps))
        top = next(iter(strongest_pairs(one, 1)), one.top(1)[0])
        drawn["strongest"] = f"strongest: {top.name} ({figure(top.score)})"
    if one.words is not None:
        text = explanation.sample.text or ""
        listed = [(text[a:b], float(v)) for (a, b), v in zip(explanation.sample.words, one.words, strict=True)]
        drawn["words"] = [
            [word, hexadecimal(colour), readable_on(colour), figure(score)]
            for (word, colour), (_, score) in zip(word_colours(listed, scales.words), listed, strict=True)
            if colour is not None
        ]
    if one.pairs is not None and one.visual is not None:
        h, w = one.visual.shape
        drawn["pairs"] = [_url(layer(column.reshape(h, w), scales.pairs)) for column in np.asarray(one.pairs).T]
    return drawn


def _url(pixels: Any) -> str:
    return f"data:image/png;base64,{base64.b64encode(encode_png(pixels)).decode()}"
