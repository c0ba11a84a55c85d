"""A page per explainer, metric and protocol, made from the registry whenever the docs are built (a MkDocs hook).

Nothing here is written twice: what a page says is on the thing's card, in its docstring and in its parameters.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import numpy as np

from karat.kernel.card import CAPABILITIES, Card
from karat.kernel.constraints import parameter_types
from karat.kernel.references import bibtex, cited
from karat.kernel.registry import registered

DOCS = Path(__file__).parent
PICTURES = DOCS / "images" / "explainers"


def on_files(files: Any, config: Any) -> Any:
    """MkDocs asks for the files of the site: add the generated ones."""
    from mkdocs.structure.files import File, InclusionLevel

    for uri, content in pages().items():
        level = InclusionLevel.UNDEFINED if uri in IN_NAV else InclusionLevel.NOT_IN_NAV
        files.append(File.generated(config, uri, content=content, inclusion=level))
    return files


IN_NAV = ("catalogue/explainers.md", "catalogue/metrics.md", "catalogue/protocols.md")


def pages() -> dict[str, str]:
    """Every generated page by its path."""
    made = {
        "catalogue/explainers.md": _index("explainer", "Explainers", _EXPLAINERS),
        "catalogue/metrics.md": _index("metric", "Metrics", _METRICS),
        "catalogue/protocols.md": _protocols(),
        "reference/references.bib": bibtex(),
    }
    for cls in registered("explainer").values():
        made[f"catalogue/{slug(cls.card)}.md"] = explainer_page(cls)
    for cls in registered("metric").values():
        made[f"catalogue/{slug(cls.card)}.md"] = metric_page(cls)
    return made


def slug(card: Card) -> str:
    return card.name.replace("/", "-")


_EXPLAINERS = """Each links to a page with what it computes, what it needs of a model, its parameters, where it comes
from and how it departs from there. `karat ls explainers` prints the same list. Pictures show a twin that reasons
on one question of the grid world."""
_METRICS = """Metrics on arrays. Read also [what each score can tell, and what it cannot](../concepts/scores.md). Scores
that protocols make of whole explanations are listed with [the protocols](protocols.md)."""


def _index(kind: Any, title: str, about: str) -> str:
    families: dict[str, list[Card]] = defaultdict(list)
    for _, cls in sorted(registered(kind).items()):
        families[cls.card.name.split("/")[0]].append(cls.card)
    lines = [f"# {title}", "", about, ""]
    for family, cards in families.items():
        lines += [f"## {family}", "", "| name | what it is | needs |", "|---|---|---|"]
        lines += [f"| [`{c.name}`]({slug(c)}.md) | {_cell(c.summary)} | {_needs(c)} |" for c in cards]
        lines.append("")
    return "\n".join(lines)


def explainer_page(cls: Any) -> str:
    """One explainer."""
    card: Card = cls.card
    how = json.loads((PICTURES / "drawn.json").read_text(encoding="utf-8")).get(card.name)
    lines = [f"# {card.name}", "", f"{_sentence(card.summary)}", ""]
    if how is not None:
        changed = "".join(f", {name}={value}" for name, value in how["parameters"].items())
        lines += [f"![{card.name}: the image, and |map| beside it](../images/explainers/{slug(card)}.png)", ""]
        lines += [f"The image, and the size of the map: `{how['model']}` on one question{changed}.", ""]
    lines += ["## What it computes", "", _formula(cls), "", "| | |", "|---|---|"]
    gives = ", ".join(part for part in ("visual", "words", "pairs", "scalar") if part in card.gives)
    lines += [
        f"| needs of a model | {_needs(card, explain=True)} |",
        f"| gives | {gives} |",
        f"| forward passes per sample | {_cell(card.passes) or 'see its parameters'} |",
        f"| install | {f'`karat[{card.extra}]`' if card.extra else 'nothing extra'} |",
        f"| version | {card.version} |",
        "",
    ]
    lines += _origin(card) + _parameters(cls)
    lines += ["## Use", "", "```yaml", f"explainers: [{card.name}]", "```", ""]
    return "\n".join(lines)


def metric_page(cls: Any) -> str:
    """One metric, with its value on maps of known worth where it compares maps with masks."""
    card: Card = cls.card
    better = {"higher": "higher is better", "lower": "lower is better", "none": "neither way is better"}[card.direction]
    lines = [f"# {card.name}", "", f"{_sentence(card.summary)}", "", "## What it computes", "", _formula(cls), ""]
    lines += ["| | |", "|---|---|", f"| direction | {better} |", f"| range | {_range(card)} |"]
    lines += [
        f"| floor, ceiling | {_cell(card.floor) or '-'}, {_cell(card.ceiling) or '-'} |",
        f"| version | {card.version} |",
        "",
    ]
    lines += _on_known_maps(cls) + _origin(card) + _parameters(cls)
    return "\n".join(lines)


def _protocols() -> str:
    lines = [
        "# Protocols and their scores",
        "",
        "What `karat ls protocols` lists, with every score a protocol gives.",
        "",
    ]
    for name, cls in sorted(registered("protocol").items()):
        lines += [f"## {name}", "", _sentence(cls.card.summary), ""]
        required = [f for f in dataclasses.fields(cls) if f.default is f.default_factory is dataclasses.MISSING]
        if required:
            continue
        thing: Any = cls()
        lines += ["| score | what it is | better | range | floor | reference | from |", "|---|---|---|---|---|---|---|"]
        lines += [
            f"| `{c.name}` | {_cell(c.summary)} | {c.direction} | {_range(c)} | {_cell(c.floor) or '-'} "
            f"| {_cell(c.ceiling) or '-'} | {_cell(c.citation) or '-'} |"
            for c in thing.scores
        ]
        lines.append("")
    return "\n".join(lines)


def _formula(cls: Any) -> str:
    """The docstring; for a metric that of the function it wraps. A dataclass without one has its signature there."""
    function = getattr(sys.modules[cls.__module__], cls.card.name.split("/")[-1], None)
    text = cls.__doc__ or ""
    if text.startswith(f"{cls.__name__}("):
        text = ""
    parts = [inspect.cleandoc(part) for part in (text, function.__doc__ if callable(function) else "") if part]
    return "\n\n".join(_fenced(part) for part in parts) or _sentence(cls.card.summary)


def _fenced(text: str) -> str:
    """Doctests and indented lines as code blocks, so that Markdown leaves them alone."""
    out: list[str] = []
    for block in text.split("\n\n"):
        code = block.startswith((">>>", "    "))
        out.append(f"```text\n{block}\n```" if code else block.replace("|", "\\|").replace("<", "&lt;"))
    return "\n\n".join(out)


def _origin(card: Card) -> list[str]:
    lines = ["## Where it comes from", ""]
    if not card.citation:
        lines += ["Karat's own.", ""]
    else:
        lines += [f"{card.citation}.", ""]
        lines += [f"- {text}" for text in cited(card.citation).values()]
        lines.append("")
    lines += [f"**Departures.** {_sentence(card.departures)}" if card.departures else "No departures are known.", ""]
    return lines


def _parameters(cls: Any) -> list[str]:
    fields = dataclasses.fields(cls)
    if not fields:
        return []
    lines = ["## Parameters", "", "| name | type | default |", "|---|---|---|"]
    types = parameter_types(cls)
    for field in fields:
        default = field.default_factory() if callable(field.default_factory) else field.default
        shown = "required" if default is dataclasses.MISSING else f"`{_cell(repr(default))}`"
        lines.append(f"| `{field.name}` | {_cell(_type(types[field.name]))} | {shown} |")
    return [*lines, ""]


_SIGNS = {"gt": ">", "ge": "≥", "lt": "<", "le": "≤"}


def _type(hint: Any) -> str:
    """A declared type in words, its bounds included: "int ≥ 1", "`mean` or `max`", "tuple of float > 0, < 1"."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        limits = [pair for bound in arguments[1:] for pair in dataclasses.asdict(bound).items()]
        bounds = ", ".join(f"{_SIGNS[name]} {limit}" for name, limit in limits if name in _SIGNS)
        return f"{_type(arguments[0])} {bounds}".rstrip()
    if origin is Literal:
        return " or ".join(f"`{choice}`" for choice in arguments)
    if origin is tuple:
        return f"tuple of {_type(arguments[0])}" if arguments[-1] is ... else f"({', '.join(map(_type, arguments))})"
    if origin in (Union, UnionType):
        return " or ".join(map(_type, arguments))
    if hint is NoneType:
        return "None"
    return getattr(hint, "__name__", str(hint))


def known_maps(side: int = 16) -> Iterator[tuple[str, np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    """(name, map, mask): explanations of known worth of one mask, (side, side) each."""
    mask = np.zeros((side, side), dtype=np.bool_)
    mask[4:10, 5:11] = True
    y, x = np.indices(mask.shape)
    truth = mask.astype(float)
    yield "the truth", truth, mask
    yield "half of it", truth * (y < 7), mask
    yield "blurred", np.exp(-((y - 6.5) ** 2 + (x - 7.5) ** 2) / 30), mask
    yield "shifted", np.roll(truth, 3, axis=1), mask
    yield "noise", np.random.default_rng(0).random(mask.shape), mask
    yield "uniform", np.ones(mask.shape), mask
    yield "all but the truth", 1 - truth, mask


def _on_known_maps(cls: Any) -> list[str]:
    if list(inspect.signature(cls.__call__).parameters)[1:] != ["maps", "masks"]:
        return []
    lines = ["## On maps of known worth", "", "![The seven maps; the box is the mask](../images/known_maps.png)", ""]
    rows = [(name, float(np.asarray(cls()(shown[None], mask[None]))[0])) for name, shown, mask in known_maps()]
    lines += ["| map | value |", "|---|--:|"] + [f"| {name} | {value:.2f} |" for name, value in rows]
    return [*lines, ""]


def _needs(card: Card, explain: bool = False) -> str:
    if not card.needs:
        return "answers only: any model" if explain else "-"
    return ", ".join(f"{name} ({CAPABILITIES[name]})" if explain else name for name in sorted(card.needs))


def _range(card: Card) -> str:
    return "-" if card.range is None else f"{card.range[0]:g} to {card.range[1]:g}"


def _sentence(text: str) -> str:
    clean = text.replace("<", "&lt;").strip()
    return f"{clean[:1].upper()}{clean[1:]}{'' if clean.endswith(('.', '?', '!')) else '.'}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
