"""`randomised`: any model with its weights shuffled. What it says of itself no longer holds: a score should notice."""

from __future__ import annotations

from dataclasses import dataclass, is_dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from karat.kernel.card import Card
from karat.kernel.errors import BadInput
from karat.kernel.identity import generator
from karat.kernel.roles import Model, ModelRecipe

How = Literal["cascading", "independent"]
_MARK = " randomised ("


def intact(label: str) -> str | None:
    """The label of the model that a randomised one was made from; None for one that is whole."""
    base, mark, _ = label.partition(_MARK)
    return base if mark else None


@dataclass(frozen=True)
class Randomised:
    """`of` names the model. Entries of its weight tensors change places, tensor by tensor, so that their distribution
    stays. cascading: the last `share` of the tensors, from the answer back (Adebayo et al. 2018); independent: the one
    tensor at that share of the way from the answer back, and nothing else. Normalisation layers are left alone."""

    card: ClassVar[Card] = Card(
        name="randomised",
        summary="any model with shuffled weights: an explanation that stays the same does not explain the model",
        kind="model",
        citation="Adebayo et al. 2018, Sanity checks for saliency maps",
        extra="vision",
    )

    of: str = "gridprog.pure"
    how: How = "cascading"
    share: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise BadInput(f"randomised: share is above 0 and at most 1; got {self.share}.")

    @property
    def _recipe(self) -> ModelRecipe:
        from karat.models import recipe

        return recipe(self.of)

    @property
    def label(self) -> str:
        return f"{self._recipe.label}{_MARK}{self.how} {self.share:g})"

    @property
    def capabilities(self) -> frozenset[str]:
        return self._recipe.capabilities

    @property
    def revision(self) -> str:
        return self._recipe.revision

    def load(self) -> Model:
        model = self._recipe.load()
        module = getattr(model, "module", None)
        if module is None:
            raise BadInput(f"randomised needs a model with weights; {self.of} has none that can be reached.")
        # Tensors of two and more dimensions: scales and shifts of norms are no knowledge.
        tensors = [t for t in (*module.parameters(), *module.buffers()) if t.ndim >= 2 and t.is_floating_point()]
        tensors.reverse()
        last = max(round(self.share * len(tensors)), 1)
        for number, tensor in enumerate(tensors):
            if number < last if self.how == "cascading" else number == last - 1:
                order = generator(self.seed, str(number), "randomised").permutation(tensor.numel())
                tensor.data = tensor.detach().flatten()[np.ascontiguousarray(order)].reshape(tensor.shape)
        if is_dataclass(model) and not isinstance(model, type):  # wrapped modules are frozen
            return replace(model, name=self.label)
        model.name = self.label  # type: ignore[misc]  # the twins hold a plain attribute
        return model
