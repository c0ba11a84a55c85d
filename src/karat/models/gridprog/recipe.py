"""`GridProg`: how to get a compiled twin. Importing this loads no torch."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from annotated_types import Ge, Le

from karat.kernel.card import Card
from karat.kernel.errors import BadInput
from karat.kernel.typing import Scalar
from karat.models.twin_recipe import twin_card

if TYPE_CHECKING:
    from karat.models.gridprog.model import GridProgModel

MECHANISMS = {
    "pure": "reasons",
    "spur": "matches_words",
    "image_only": "image_only",
    "text_only": "text_only",
    "redundant": "redundant",
}


@dataclass(frozen=True)
class GridProg:
    """The compiled twin. `dose` p mixes (1 - p) · pure + p · spur at the logits; `variant="dose(p)"` is the same.

    `size` and `cell` are those of the grid it will look at.

    >>> GridProg("spur").label, GridProg(dose=0.25).label, GridProg("dose(0.25)") == GridProg(dose=0.25)
    ('gridprog.spur', 'gridprog.dose(0.25)', True)
    """

    card: ClassVar[Card] = twin_card(
        "gridprog",
        "compiled twins gridprog.pure, .spur: an attention network whose weights are written; exact by proof",
        departures="the paper's twins are trained; here the mechanism is known by construction",
        extra="vision",
    )

    variant: str = "pure"
    dose: Annotated[float, Ge(0), Le(1)] | None = None
    size: Annotated[int, Ge(2), Le(64)] = 6
    cell: Annotated[int, Ge(4), Le(1024)] = 64

    def __post_init__(self) -> None:
        if self.dose is None and (named := re.fullmatch(r"dose\((\d*\.?\d+)\)", self.variant)):
            object.__setattr__(self, "dose", float(named[1]))  # one form, so that equal twins have equal identities
            object.__setattr__(self, "variant", "pure")
        if self.variant not in MECHANISMS:
            raise BadInput(f"gridprog comes as {', '.join(MECHANISMS)} or dose(p); got {self.variant!r}.")
        if self.dose is not None and not 0.0 <= self.dose <= 1.0:
            raise BadInput(f"gridprog's dose of the shortcut goes from 0 to 1; got {self.dose}.")
        if self.dose is not None and self.variant != "pure":
            raise BadInput(f"a dose mixes pure and spur; it cannot be combined with variant {self.variant!r}.")

    @property
    def label(self) -> str:
        kind = self.variant if self.dose is None else f"dose({self.dose:g})"
        world = "" if (self.size, self.cell) == (6, 64) else f" ({self.size}×{self.size} of {self.cell} px)"
        return f"gridprog.{kind}{world}"

    @property
    def facts(self) -> dict[str, Scalar]:
        """`dose` is the weight of the shortcut, where the twin lies between reasoning (0) and the shortcut (1)."""
        dose = {"pure": 0.0, "spur": 1.0}.get(self.variant) if self.dose is None else self.dose
        variant = self.variant if self.dose is None else "dose"
        return {"family": "gridprog", "variant": variant, "dose": dose, "size": self.size, "cell": self.cell}

    @property
    def capabilities(self) -> frozenset[str]:
        return frozenset({"scores", "gradients", "attention", "activations", "text", "mechanism"})

    @property
    def revision(self) -> str:
        return f"gridprog-{self.card.version}"

    @property
    def paths(self) -> dict[str, float]:
        """Mechanisms and their weights at the logits. One that weighs nothing is not built."""
        if self.dose is None:
            return {MECHANISMS[self.variant]: 1.0}
        mixed = {"reasons": 1.0 - self.dose, "matches_words": self.dose}
        return {path: weight for path, weight in mixed.items() if weight > 0}

    @property
    def mechanism(self) -> str:
        return next(iter(self.paths)) if len(self.paths) == 1 else "mixed"

    def load(self) -> GridProgModel:
        from karat.datasets.grid import World
        from karat.models.gridprog.model import GridProgModel

        return GridProgModel(self.label, self.mechanism, self.capabilities, World(self.size, self.cell), self.paths)
