"""`randomised`: any model with its weights shuffled. What it says of itself no longer holds: a score should notice."""

from __future__ import annotations

from dataclasses import dataclass, is_dataclass, replace
from typing import Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Ge, Gt, Le

from karat.kernel.card import Card
from karat.kernel.errors import BadInput
from karat.kernel.identity import generator
from karat.kernel.roles import Model, ModelRecipe
from karat.kernel.typing import Scalar
from karat.models.torch_model import TorchModel

How = Literal["cascading", "independent"]


@dataclass(frozen=True)
class Randomised:
    """A model whose weights were shuffled: the entries of a tensor change places, so that their distribution stays.
    Normalisation layers are left alone.

    Attributes:
        of: Names the model.
        how: cascading: the last `share` of the tensors, from the answer back (Adebayo et al. 2018); independent: the
            one tensor at that share of the way from the answer back, and nothing else.
        share: Above 0 and at most 1.
        seed: Of the shuffle.
    """

    card: ClassVar[Card] = Card(
        "randomised",
        "any model with shuffled weights: an explanation that stays the same does not explain the model",
        "model",
        citation="Adebayo et al. 2018, Sanity checks for saliency maps",
        extra="vision",
    )

    of: str = "gridprog.pure"
    how: How = "cascading"
    share: Annotated[float, Gt(0), Le(1)] = 1.0
    seed: Annotated[int, Ge(0)] = 0

    @property
    def _recipe(self) -> ModelRecipe:
        from karat.models import recipe

        return recipe(self.of)

    @property
    def label(self) -> str:
        return f"{self._recipe.label} randomised ({self.how} {self.share:g})"

    @property
    def facts(self) -> dict[str, Scalar]:
        """Those of the model, and what was done to it; `of` is the label of the model as it was."""
        shuffle: dict[str, Scalar] = {"of": self._recipe.label, "shuffled": self.how, "share": self.share}
        return {**self._recipe.facts, **shuffle, "shuffle_seed": self.seed}

    @property
    def capabilities(self) -> frozenset[str]:
        return self._recipe.capabilities

    @property
    def revision(self) -> str:
        return self._recipe.revision

    def load(self) -> Model:
        model = self._recipe.load()
        if not isinstance(model, TorchModel):
            raise BadInput(f"randomised needs a model with weights; {self.of} has none that can be reached.")
        held = (*model.module.parameters(), *model.module.buffers())
        # Tensors of two and more dimensions: scales and shifts of norms are no knowledge.
        tensors = [tensor for tensor in held if tensor.ndim >= 2 and tensor.is_floating_point()]
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
