"""`TwinRecipe`: what the recipes of the trained twins, gridnet and gridvlm, share. Importing this loads no torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge

from karat.kernel.card import Card
from karat.kernel.typing import Scalar
from karat.models.weights import file_revision, find_twin

twin_card = partial(Card, kind="model", citation="gridvqax2026")
MECHANISMS = {"pure": "reasons", "spur": "matches_words"}


@dataclass(frozen=True)
class TwinRecipe:
    """A twin of the family that `card` names. `weights` is another file or directory made by `karat train`; `seed`
    tells twins of one recipe apart (0 ships)."""

    card: ClassVar[Card]
    ending: ClassVar[str]  # of the name of a twin's weights; "" where they are a directory

    variant: Literal["pure", "spur"] = "pure"
    weights: str | None = None
    seed: Annotated[int, Ge(0)] = field(default=0, metadata={"identity": False})  # which weights: their hash counts

    @property
    def label(self) -> str:
        more = ", ".join([f"seed {self.seed}"] * (self.seed > 0) + [self.weights or ""] * (self.weights is not None))
        name = f"{self.card.name}.{self.variant}"
        return f"{name} ({more})" if more else name

    @property
    def facts(self) -> dict[str, Scalar]:
        family: dict[str, Scalar] = {"family": self.card.name, "variant": self.variant, "weights": self.weights}
        return {**family, "seed": self.seed, "breaks_in": ", ".join(sorted(self.broken_states())) or None}

    @property
    def mechanism(self) -> str:
        return MECHANISMS[self.variant]

    @property
    def path(self) -> Path:
        if self.weights is not None:
            return Path(self.weights)
        return find_twin(self.card.name, self.variant, self.seed, self.ending)

    @property
    def tensors(self) -> Path:
        """The file of tensors: `path` itself, or the one in that directory."""
        return self.path if self.ending else self.path / "model.safetensors"

    @property
    def revision(self) -> str:
        return file_revision(self.tensors)

    def broken_states(self) -> dict[str, str]:
        """Absent states in which these weights no longer answer as they do, with the reason."""
        from karat.models.weights.absence import broken_states

        return broken_states(self.label, self.revision)
