"""`Bucket`: one cell of the taxonomy: depth, question type, form and density (gridvqax2026 section 3.1)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from karat.kernel.errors import BadInput

QType = Literal["A", "SO", "CO", "M", "CMP", "REL"]

_NAME = re.compile(r"^D(\d)_(A|SO|CO|M|CMP|REL)_F([01])_d(\d(?:\.\d+)?)$")
# Which depths and forms each type has; REL is ours, the rest is published.
_DEPTHS: dict[str, tuple[int, ...]] = {
    "A": (1,), "SO": (1, 2), "CO": (1, 2), "M": (1, 2, 3), "CMP": (1, 2, 3), "REL": (1,)
}  # fmt: skip
_FORMS: dict[str, tuple[int, ...]] = {"A": (0, 1), "SO": (0, 1), "CO": (0, 1), "M": (0, 1), "CMP": (0,), "REL": (0,)}
DENSITIES = (0.3, 0.7)


@dataclass(frozen=True)
class Bucket:
    """`D2_M_F0_d0.7` is depth 2, mixed attributes, counting, 70 % of the cells filled."""

    depth: int
    qtype: QType
    form: int
    density: float

    @property
    def name(self) -> str:
        return f"D{self.depth}_{self.qtype}_F{self.form}_d{self.density:g}"

    @property
    def sides(self) -> int:
        """How many counts the question needs: two in a comparison, else one."""
        return 2 if self.qtype == "CMP" else 1

    @property
    def anchors(self) -> tuple[int, ...]:
        """Anchors per side. A comparison has depth - 1 on each side, so depth 3 has four in all."""
        if self.qtype == "A":
            return (0,)
        if self.qtype == "CMP":
            return (self.depth - 1, self.depth - 1)
        return (self.depth,)

    @property
    def n_anchors(self) -> int:
        return sum(self.anchors)

    @property
    def relational(self) -> bool:
        return self.n_anchors > 0

    @property
    def task(self) -> Literal["count", "exist", "compare", "direction"]:
        if self.qtype == "CMP":
            return "compare"
        if self.qtype == "REL":
            return "direction"
        return "exist" if self.form else "count"

    def __str__(self) -> str:
        return self.name


def parse_bucket(name: str | Bucket) -> Bucket:
    """The bucket of that name; any density in (0, 1] is accepted, not only the two published ones.

    >>> parse_bucket("D3_CMP_F0_d0.7").n_anchors
    4
    """
    if isinstance(name, Bucket):
        return name
    match = _NAME.match(name)
    if match is None:
        raise BadInput(
            f"unknown bucket {name!r}; expected D<depth>_<A|SO|CO|M|CMP|REL>_F<form>_d<density>, such as D2_M_F0_d0.7"
        )
    depth, qtype, form, density = int(match[1]), match[2], int(match[3]), float(match[4])
    if depth not in _DEPTHS[qtype]:
        raise BadInput(f"unknown bucket {name!r}: {qtype} has depth {_either(_DEPTHS[qtype])}, not {depth}")
    if form not in _FORMS[qtype]:
        raise BadInput(f"unknown bucket {name!r}: {qtype} has form {_either(_FORMS[qtype])} only")
    if not 0 < density <= 1:
        raise BadInput(f"bucket {name!r}: density must lie in (0, 1], got {density:g}")
    return Bucket(depth, qtype, form, density)  # type: ignore[arg-type]  # the pattern admits only the literals


def _either(values: tuple[int, ...]) -> str:
    return " or ".join(map(str, values))


def buckets(*, relational_only: bool = False, published_only: bool = False) -> tuple[str, ...]:
    """Names of the standard buckets: the 38 published ones, then the two of type REL.

    >>> len(buckets()), len(buckets(published_only=True))
    (40, 38)
    """
    names = [
        Bucket(depth, qtype, form, density)  # type: ignore[arg-type]  # keys of the table are the literals
        for density in DENSITIES
        for qtype in _DEPTHS
        for depth in _DEPTHS[qtype]
        for form in _FORMS[qtype]
    ]
    if published_only:
        names = [bucket for bucket in names if bucket.qtype != "REL"]
    if relational_only:
        names = [bucket for bucket in names if bucket.relational]
    names.sort(key=lambda bucket: bucket.qtype == "REL")
    return tuple(bucket.name for bucket in names)
