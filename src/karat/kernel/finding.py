"""`Finding`: what a protocol concludes from a whole run: plain sentences, the table they rest on, figures of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from karat.kernel.errors import BadInput
from karat.kernel.typing import Scalar

FigureKind = Literal["bars", "lines", "points", "intervals", "slopes", "grid"]


@dataclass(frozen=True)
class Series:
    """Numbers of one name in a figure; `low` and `high` bound each `y`. None where there is no value."""

    name: str
    x: tuple[Scalar, ...]
    y: tuple[float | None, ...]
    low: tuple[float | None, ...] | None = None
    high: tuple[float | None, ...] | None = None

    def __post_init__(self) -> None:
        lengths = {len(part) for part in (self.x, self.y, self.low, self.high) if part is not None}
        if len(lengths) > 1:
            raise BadInput(f"series {self.name!r}: x, y, low and high must be equally long; got {sorted(lengths)}.")


@dataclass(frozen=True)
class Figure:
    """A picture as numbers: the page draws it, and so can anybody else.

    bars: one group of bars per x, one bar per series. lines: y over numbers x, a band from low to high. points: a
    scatter. intervals: one row per x, y between low and high (a forest plot). slopes: x are columns (metrics), each
    series a line of ranks through them. grid: x are columns, series are rows, y the cell's value as colour.
    `x` and `y` name what the series' x and y hold, however the figure is turned (an interval's y is its value).
    `lines` are named reference values: (("noise", 0.5),). `headline`: this figure is the protocol's answer, and the
    front page shows it (the first of them, where there are several).
    """

    title: str
    kind: FigureKind
    x: str
    y: str
    series: tuple[Series, ...]
    note: str = ""
    lines: tuple[tuple[str, float], ...] = ()
    headline: bool = False

    def __post_init__(self) -> None:
        if self.kind not in get_args(FigureKind):
            raise BadInput(f"figure {self.title!r}: kind is one of {', '.join(get_args(FigureKind))}; got {self.kind}.")

    @staticmethod
    def read(data: Mapping[str, Any]) -> Figure:
        series = tuple(
            Series(one["name"], tuple(one["x"]), tuple(one["y"]), _optional(one.get("low")), _optional(one.get("high")))
            for one in data["series"]
        )
        lines = tuple((str(name), float(value)) for name, value in data.get("lines", ()))
        return Figure(
            data["title"], data["kind"], data["x"], data["y"], series, data.get("note", ""), lines,
            bool(data.get("headline", False)),
        )  # fmt: skip


@dataclass(frozen=True)
class Finding:
    """`sentences` hold up to the table's intervals; numbers in `rows` are not rounded.

    `section` groups findings on the page ("RQ1: ..."); the first finding without one is the protocol's verdict.
    `cautions` are what a reader must know before believing anything: the front page shows them as warnings.
    """

    title: str
    about: str
    sentences: tuple[str, ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[Scalar, ...], ...]
    section: str = ""
    figures: tuple[Figure, ...] = ()
    cautions: tuple[str, ...] = ()

    def plain(self) -> dict[str, Any]:
        return asdict(self)

    def _repr_html_(self) -> str:
        from karat.drawing.table import html_table, html_text

        table = html_table(self.columns, self.rows) if self.rows else ""
        return html_text(self.title, (*self.cautions, *self.sentences, self.about), table)

    @staticmethod
    def read(data: Mapping[str, Any]) -> Finding:
        return Finding(
            data["title"],
            data["about"],
            tuple(data["sentences"]),
            tuple(data["columns"]),
            tuple(tuple(row) for row in data["rows"]),
            data.get("section", ""),
            tuple(Figure.read(figure) for figure in data.get("figures", ())),
            tuple(data.get("cautions", ())),
        )


def _optional(values: Sequence[float | None] | None) -> tuple[float | None, ...] | None:
    return None if values is None else tuple(values)
